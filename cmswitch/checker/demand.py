"""What a piece of an operator asks of a chip: arrays, tiles, cycles and bytes ("What an operator is")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from cmswitch.graph.network import MatrixProduct, Network, Operator, Role
from hw import Chip, WeightFormat


def round_up(amount: int, step: int) -> int:
    """``ceil(amount / step)``."""
    whole, rest = divmod(amount, step)
    return whole + (rest > 0)


@dataclass(frozen=True)
class Block:
    """What operators are cut between: a column block of one group, or a set of packed groups, with all its row blocks.

    ``columns`` of the output over its groups; for each row block the array rows used and the weights held.
    """

    columns: int
    tiles: tuple[tuple[int, int], ...]


def blocks_of(product: MatrixProduct, chip: Chip) -> tuple[Block, ...]:
    """The blocks of one copy of ``product``, in order."""
    rows, width = chip.array.rows, chip.weight_format(product.weight_bits).per_row
    inner, columns, groups = product.inner, product.columns, product.groups
    together = min(rows // inner, width // columns, groups) if groups > 1 else 0
    found = []
    if together:
        for first in range(0, groups, together):
            n = min(together, groups - first)
            found.append(Block(n * columns, ((n * inner, n * inner * columns),)))
    else:
        heights = [min(rows, inner - top) for top in range(0, inner, rows)]
        for _ in range(groups):
            for left in range(0, columns, width):
                w = min(width, columns - left)
                found.append(Block(w, tuple((h, h * w) for h in heights)))
    return tuple(found)


@dataclass(frozen=True)
class Tile:
    """The content of one array: rows used, and the bytes read to fill it."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Transfer:
    """Bytes of a tensor that the piece moves over all its chunks."""

    tensor: int
    role: Role | Literal["output"]
    bytes: int


@dataclass(frozen=True)
class Demand:
    """One piece on one chip. ``rows`` M and ``row_cycles`` tau are 0 if it is vector-only, as ``tiles`` of a copy are empty.

    ``vector_cycles`` count all ``chunks``. ``first`` and ``last`` tell whether the piece begins and ends its operator.
    """

    operator: int
    whole: bool
    chunks: int
    rows: int
    row_cycles: int
    vector_cycles: int
    tiles: tuple[Tile, ...]
    reads: tuple[Transfer, ...]
    writes: tuple[Transfer, ...]
    recurrent: bool = False

    @property
    def operand(self) -> int | None:
        """The tensor that the arrays hold as a dynamic operand."""
        return next((t.tensor for t in self.reads if t.role == "operand"), None)


def demand_of(
    network: Network, chip: Chip, index: int, blocks: tuple[Block, ...] | None, first_block: int, last_block: int
) -> Demand:
    """The demand of blocks ``first_block`` to ``last_block`` (exclusive) of operator ``index``, which has ``blocks``."""
    operator = network.operators[index]
    product = operator.product
    mine, total = 1, 1
    tiles: list[Tile] = []
    row_blocks = used_rows = 0
    if blocks is not None and product is not None:
        chosen, weights = blocks[first_block:last_block], chip.weight_format(product.weight_bits)
        mine, total = sum(b.columns for b in chosen), sum(b.columns for b in blocks)
        used_rows = max(rows for b in chosen for rows, _ in b.tiles)
        row_blocks = len(blocks[0].tiles)
        tiles = [tile for block in chosen for tile in _tiles(block, weights)]
    first, last = first_block == 0, last_block == (1 if blocks is None else len(blocks))
    return Demand(
        operator=index,
        whole=first and last,
        chunks=operator.chunks,
        rows=product.rows if product else 0,
        row_cycles=chip.mvm_cycles(used_rows) if product else 0,
        vector_cycles=_vector_cycles(operator, chip, last, mine, total, row_blocks),
        tiles=tuple(tiles),
        reads=tuple(_reads(network, operator, chip, first, last, mine, total)),
        writes=tuple(
            Transfer(
                w.tensor, "output", chip.activation_bytes(round_up(network.tensors[w.tensor].elements * mine, total))
            )
            for w in operator.writes
        ),
        recurrent=product is not None and product.recurrent,
    )


def _tiles(block: Block, weights: WeightFormat) -> Iterator[Tile]:
    """The tiles of a block; where several arrays hold one weight they share its bytes (each reads one at least)."""
    for rows, count in block.tiles:
        size = weights.bytes(count)
        marks = [size * s // weights.arrays for s in range(weights.arrays + 1)]
        for low, high in pairwise(marks):
            yield Tile(rows, max(1, high - low))


def _vector_cycles(operator: Operator, chip: Chip, last: bool, mine: int, total: int, row_blocks: int) -> int:
    """All chunks of all vector work of a piece with ``mine`` of ``total`` output columns."""
    amounts = []
    for work in operator.vector:
        if work.columnwise:
            amounts.append(chip.vector_work(work.kind, round_up(work.elements * mine, total)))
        elif last:
            amounts.append(chip.vector_work(work.kind, work.elements))
    if operator.product is not None:
        further_sums = round_up(row_blocks, chip.array.adder_inputs) - 1
        amounts.append(chip.vector_work("add", operator.product.rows * mine * further_sums))
    chunk = sum(chip.vector_cycles(round_up(amount, operator.chunks)) for amount in amounts)
    return operator.chunks * chunk


def _reads(
    network: Network, operator: Operator, chip: Chip, first: bool, last: bool, mine: int, total: int
) -> Iterator[Transfer]:
    """What the piece fetches: every piece its whole matrix; side inputs by columns, or by the last piece if it works on rows."""
    on_rows = any(not work.columnwise for work in operator.vector)
    for read in operator.reads:
        if read.role == "matrix":
            elements = read.expanded_elements if chip.input_reuse == "expanded" else read.elements
        elif read.role == "side" and on_rows:
            if not last:
                continue
            elements = read.elements
        else:
            elements = round_up(read.elements * mine, total)
        yield Transfer(read.tensor, read.role, chip.activation_bytes(elements))
    if on_rows and last and not first:
        for write in operator.writes:
            earlier = round_up(network.tensors[write.tensor].elements * (total - mine), total)
            yield Transfer(write.tensor, "side", chip.activation_bytes(earlier))
