"""What a piece of an operator does in a segment: cycles of its MVMs and vector work, bytes that it moves, tiles it writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import hw
from cmswitch.costs.footprint import Footprint, Tile
from cmswitch.costs.workload import Piece, Workload
from cmswitch.graph.network import Need, Operator, Role


@dataclass(frozen=True)
class VectorCost:
    """A fused vector operator: ``work`` element passes per chunk."""

    kind: str
    node: str
    work: int


@dataclass(frozen=True)
class Moved:
    """A tensor that the piece reads or writes: ``bytes`` over all chunks, in equal shares.

    ``role`` is how it is read, or ``output``. ``need`` counts chunks of the tensor's producer (reads only).
    ``earlier`` marks shares of the operator's own output that earlier pieces wrote and this one reads back.
    """

    tensor: int
    role: Role | str
    bytes: int
    need: Need | None = None
    earlier: bool = False


def reload_rank(chip: hw.Chip, tile: Tile) -> tuple[int, int]:
    """Sorts tiles in the order of the reload phase: longest writing tail first, then longest writing (cycles, negative).

    Tiles of equal rank go by the cycles of their reads, which differ for operands that live on chip.
    """
    write = chip.array_write_cycles(tile.rows)
    return chip.main_cycles(tile.bytes) - write, -write


@dataclass(frozen=True)
class PieceWork:
    """The chip-dependent work of one piece; see the fields' names and ``docs/machine-model.md``."""

    workload: Workload
    piece: Piece

    @property
    def operator(self) -> Operator:
        """The operator that the piece belongs to."""
        return self.workload.network.operators[self.piece.operator]

    @property
    def grid(self) -> Footprint | None:
        """The operator's block grid (None: vector-only)."""
        return self.workload.footprints[self.piece.operator]

    @property
    def name(self) -> str:
        """The operator's name, with the blocks if it is not whole."""
        if self.workload.is_whole(self.piece):
            return self.operator.name
        return f"{self.operator.name}[{self.piece.first_block}:{self.piece.last_block}]"

    @property
    def chunks(self) -> int:
        """Chunks C of the operator."""
        return self.operator.chunks

    @property
    def rows(self) -> int:
        """Rows M of the product (0: vector-only)."""
        return self.operator.product.rows if self.operator.product else 0

    @property
    def row_cycles(self) -> int:
        """Cycles tau of one MVM."""
        return self.workload.chip.mvm_cycles(self.used_rows) if self.grid else 0

    @cached_property
    def used_rows(self) -> int:
        """Array rows that the largest tile of the piece uses; it sets the MVM time."""
        return max((tile.rows for tile in self.tiles), default=0)

    @property
    def dynamic(self) -> bool:
        """Whether the operand is an activation, written at run time."""
        return self.operator.product is not None and self.operator.product.dynamic

    @property
    def recurrent(self) -> bool:
        """Whether each chunk needs the operator's own output of the chunk before."""
        return self.operator.product is not None and self.operator.product.recurrent

    @cached_property
    def columns(self) -> tuple[int, int]:
        """(output columns of this piece, of the operator)."""
        if self.grid is None:
            return 1, 1
        return self.grid.columns(self.piece.first_block, self.piece.last_block), self.grid.total_columns

    def _share(self, amount: int) -> int:
        mine, total = self.columns
        return -(-amount * mine // total)

    @cached_property
    def row_wise(self) -> bool:
        """Whether some vector work of the operator needs whole rows, so that the last piece reads earlier shares back."""
        return any(not v.columnwise for v in self.operator.vector)

    @cached_property
    def vector(self) -> tuple[VectorCost, ...]:
        """The vector work of every chunk."""
        chip, last = self.workload.chip, self.workload.is_last(self.piece)
        costs = []
        for work in self.operator.vector:
            if not (last or work.columnwise):
                continue
            total = chip.vector_work(work.kind, self._share(work.elements) if work.columnwise else work.elements)
            if total:
                costs.append(VectorCost(work.kind, work.node, -(-total // self.chunks)))
        if self.grid is not None:
            sums = -(-self.grid.row_blocks // chip.array.adder_inputs) - 1
            if sums:
                total = chip.vector_work("add", self.rows * self.columns[0] * sums)
                costs.append(VectorCost("add", self.operator.nodes[0], -(-total // self.chunks)))
        return tuple(costs)

    @cached_property
    def vector_cycles(self) -> int:
        """Cycles of the vector unit over all chunks."""
        return self.chunks * sum(self.workload.chip.vector_cycles(v.work) for v in self.vector)

    @cached_property
    def reads(self) -> tuple[Moved, ...]:
        """Everything that the piece fetches, its dynamic operand (role ``operand``) included."""
        workload, last = self.workload, self.workload.is_last(self.piece)
        expanded = workload.chip.input_reuse == "expanded"
        moved = []
        for read in self.operator.reads:
            elements = read.expanded_elements if expanded and read.role == "matrix" else read.elements
            if read.role == "operand" or (read.role == "side" and not self.row_wise):
                elements = self._share(elements)
            elif read.role == "side" and not last:
                continue
            moved.append(Moved(read.tensor, read.role, workload.chip.activation_bytes(elements), read.need))
        if self.row_wise and last and self.piece.first_block:
            mine, total = self.columns
            for write in self.operator.writes:
                elements = -(-workload.network.tensors[write.tensor].elements * (total - mine) // total)
                moved.append(Moved(write.tensor, "side", workload.chip.activation_bytes(elements), earlier=True))
        return tuple(moved)

    @cached_property
    def writes(self) -> tuple[Moved, ...]:
        """The shares of the operator's outputs that the piece produces."""
        tensors, chip = self.workload.network.tensors, self.workload.chip
        return tuple(
            Moved(w.tensor, "output", chip.activation_bytes(self._share(tensors[w.tensor].elements)))
            for w in self.operator.writes
        )

    @cached_property
    def tiles(self) -> tuple[Tile, ...]:
        """The tiles of one copy, in writing order."""
        return tuple(self.grid.tiles(self.piece.first_block, self.piece.last_block)) if self.grid else ()

    def chunk_bytes(self, total: int) -> int:
        """Bytes per chunk of a transfer of ``total`` bytes."""
        return -(-total // self.chunks)
