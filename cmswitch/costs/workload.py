"""A network on a chip: the footprint of every operator and the cells that segments are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import hw
from cmswitch.costs.footprint import Footprint, footprint
from cmswitch.errors import InfeasibleError, InputError
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator, Read, Tensor, Write
from cmswitch.naming import quantity

CELLS_PER_CHIP = 4
"""An operator larger than the chip is cut into cells of about 1/CELLS_PER_CHIP of the arrays (part of the plan space)."""

MOST_CELLS = 10_000
"""Cells of the largest workload: a larger one is a slip in a dimension or in the size of the arrays."""


@dataclass(frozen=True)
class Piece:
    """Blocks ``first_block`` to ``last_block`` (exclusive) of an operator: a cell, or the run of cells that a segment holds.

    A cell, the smallest thing that a segment holds, is a whole operator, or some blocks of one larger than the chip.
    """

    operator: int
    first_block: int
    last_block: int


@dataclass(frozen=True)
class Workload:
    """``network`` (after cutting along N where needed) on ``chip``, with ``footprints`` (None: vector-only) and ``cells``."""

    network: Network
    chip: hw.Chip
    footprints: tuple[Footprint | None, ...]
    cells: tuple[Piece, ...]

    def pieces(self, first: int, last: int) -> tuple[Piece, ...]:
        """The operators of the segment of cells ``first`` to ``last`` (exclusive)."""
        pieces: list[Piece] = []
        for cell in self.cells[first:last]:
            if pieces and pieces[-1].operator == cell.operator:
                pieces[-1] = replace(pieces[-1], last_block=cell.last_block)
            else:
                pieces.append(Piece(cell.operator, cell.first_block, cell.last_block))
        return tuple(pieces)

    def operators(self, first: int, last: int) -> int:
        """How many operators the cells ``first`` to ``last`` (exclusive) belong to."""
        return self.cells[last - 1].operator - self.cells[first].operator + 1

    def is_whole(self, piece: Piece) -> bool:
        """Whether the piece is its whole operator."""
        return piece.first_block == 0 and self.is_last(piece)

    def is_last(self, piece: Piece) -> bool:
        """Whether the piece ends its operator."""
        grid = self.footprints[piece.operator]
        return grid is None or piece.last_block == grid.blocks

    def arrays(self, piece: Piece) -> int:
        """Arrays of one copy of the piece."""
        grid = self.footprints[piece.operator]
        return 0 if grid is None else (piece.last_block - piece.first_block) * grid.arrays_per_block

    @cached_property
    def largest_cell(self) -> int:
        """Arrays of the cell that takes most."""
        return max((self.arrays(cell) for cell in self.cells), default=0)

    def arrays_between(self, first: int, last: int) -> int:
        """Arrays of one copy of everything in the cells ``first`` to ``last`` (exclusive)."""
        return self._arrays_before[last] - self._arrays_before[first]

    @cached_property
    def _arrays_before(self) -> tuple[int, ...]:
        return (0, *accumulate(self.arrays(cell) for cell in self.cells))

    @cached_property
    def first_cell(self) -> tuple[int, ...]:
        """For each operator, the position of its first cell."""
        starts: list[int] = []
        for position, cell in enumerate(self.cells):
            if len(starts) <= cell.operator:
                starts.append(position)
        return tuple(starts)

    @cached_property
    def end_cell(self) -> tuple[int, ...]:
        """For each operator, the position after its last cell."""
        return (*self.first_cell[1:], len(self.cells))

    @cached_property
    def last_use(self) -> tuple[int, ...]:
        """For each tensor, the position after the last cell that reads it (0: never read)."""
        return tuple(max((self.end_cell[i] for i in c), default=0) for c in self.network.consumers)


def build_workload(network: Network, chip: hw.Chip, compute_arrays: int | None = None) -> Workload:
    """Cut ``network`` for ``chip``, of which ``compute_arrays`` (default: all) may be in compute mode at once.

    Raises:
        InfeasibleError: an operator does not fit because a row holds none of its weights, or one column block is larger
            than the chip and cutting along N is disabled.
        InputError: there would be more than ``MOST_CELLS`` cells.
    """
    limit = chip.arrays if compute_arrays is None else compute_arrays
    network = cut_inner(network, chip, limit)
    grids = tuple(footprint(o.product, chip) if o.product else None for o in network.operators)
    sizes = [_cell_size(grid, chip.arrays, limit) for grid in grids]
    for operator, (blocks, size) in zip(network.operators, sizes, strict=True):
        _refuse_many(-(-blocks // size), operator)
    _refuse_many(sum(-(-blocks // size) for blocks, size in sizes), network)
    cells = tuple(
        Piece(index, first, min(first + size, blocks))
        for index, (blocks, size) in enumerate(sizes)
        for first in range(0, blocks, size)
    )
    return Workload(network, chip, grids, cells)


def _refuse_many(cells: int, subject: Operator | Network) -> None:
    if cells > MOST_CELLS:
        raise InputError(
            f"'{subject.name}' would be cut into {cells} cells on this chip, more than {MOST_CELLS}; "
            "check its dimensions, or use more or larger arrays"
        )


def _cell_size(grid: Footprint | None, arrays: int, limit: int) -> tuple[int, int]:
    """(blocks, blocks per cell) of an operator."""
    if grid is None:
        return 1, 1
    if grid.arrays <= limit:
        return grid.blocks, grid.blocks
    return grid.blocks, max(1, min(limit, arrays // CELLS_PER_CHIP) // grid.arrays_per_block)


def cut_inner(network: Network, chip: hw.Chip, limit: int) -> Network:
    """Cut operators of which one column block exceeds ``limit`` arrays along N, into a chain that passes accumulators on.

    Raises InfeasibleError as :func:`build_workload` does.
    """
    operators: list[Operator] = []
    tensors = list(network.tensors)
    position: dict[int, int] = {}
    for index, operator in enumerate(network.operators):
        for part in _inner_parts(operator, chip, limit, tensors, len(operators)):
            operators.append(part)
        position[index] = len(operators) - 1
    if len(operators) == len(network.operators):
        return network
    old = len(network.tensors)
    tensors[:old] = [t if t.producer is None else replace(t, producer=position[t.producer]) for t in network.tensors]
    return replace(network, operators=tuple(operators), tensors=tuple(tensors))


def _whole_grid(operator: Operator, product: MatrixProduct, chip: hw.Chip, limit: int) -> Footprint:
    """The grid of an operator's product, unless no cut makes it fit: a row holds no weight, or it is recurrent and too large.

    The output of a chunk of a recurrent operator needs all weights, and the next chunk needs it.
    """
    subject, weights = f"operator '{operator.name}'", chip.weight_format(product.weight_bits)
    if weights.per_row == 0:
        remedy = f"use at least {quantity(weights.cells, 'column')}, more bits per cell, fewer weight bits or binding 'arrays'"
        raise InfeasibleError("one weight", weights.cells, chip.array.columns, "column", remedy, subject)
    grid = footprint(product, chip)
    if product.recurrent and grid.arrays > limit:
        remedy = "use a chip with more or larger arrays, or a smaller hidden state"
        raise InfeasibleError("a whole recurrent layer", grid.arrays, limit, "array", remedy, subject)
    return grid


def _inner_parts(operator: Operator, chip: hw.Chip, limit: int, tensors: list[Tensor], position: int) -> list[Operator]:
    """The chain that replaces one operator, appending the tensors of its accumulators; ``position`` is its first index."""
    product = operator.product
    if product is None:
        return [operator]
    grid = _whole_grid(operator, product, chip, limit)
    if grid.arrays_per_block <= limit:
        return [operator]
    per_part = limit // grid.weights.arrays
    if not chip.cut_inner or per_part == 0:
        raise InfeasibleError(
            "one column block" if per_part else "one weight",
            grid.arrays_per_block if per_part else grid.weights.arrays,
            limit,
            "array",
            "allow cut_inner in the chip file or use arrays with more rows" if per_part else "use binding 'columns'",
            subject=f"operator '{operator.name}'",
        )
    elements = product.rows * product.columns * product.groups
    accumulator = -(-chip.accumulator_bytes(elements) * 8 // chip.precision.input_bits)
    parts: list[Operator] = []
    count = -(-grid.row_blocks // per_part)
    size = -(-grid.row_blocks // count) * chip.array.rows
    _refuse_many(count, operator)
    starts = list(range(0, product.inner, size))
    for number, start in enumerate(starts):
        inner = min(size, product.inner - start)
        last = number == len(starts) - 1
        reads = [
            _share(r, inner, product.inner) if r.role != "side" else r
            for r in operator.reads
            if last or r.role != "side"
        ]
        if number:
            need = Need(1, 1, 1, 1)
            reads.append(Read(len(tensors) - 1, "side", accumulator, accumulator, need))
        writes = operator.writes
        if not last:
            tensors.append(Tensor(f"{operator.name}.accumulators{number}", accumulator, position + number))
            writes = (Write(len(tensors) - 1),)
        weight = None if product.weight is None else f"{product.weight}[{start}:{start + inner}]"
        parts.append(
            replace(
                operator,
                name=f"{operator.name}.n{number}",
                product=replace(product, inner=inner, weight=weight),
                reads=tuple(reads),
                vector=operator.vector if last else (),
                writes=writes,
            )
        )
    return parts


def _share(read: Read, inner: int, total: int) -> Read:
    return replace(
        read,
        elements=-(-read.elements * inner // total),
        expanded_elements=-(-read.expanded_elements * inner // total),
    )
