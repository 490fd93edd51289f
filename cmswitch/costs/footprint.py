"""How many arrays one copy of a matrix product takes, and the weight tiles that fill them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import hw
from cmswitch.graph.network import MatrixProduct


@dataclass(frozen=True)
class Tile:
    """What one array holds: a block of rows by a block of columns of ``groups`` packed groups, one bit slice of it.

    ``bytes`` are read from main memory to fill it, once for all copies.
    """

    row_block: int
    column_block: int
    group: int
    groups: int
    bit: int
    rows: int
    columns: int
    bytes: int


@dataclass(frozen=True)
class Footprint:
    """The block grid of one copy of a product on a chip (machine model, "What an operator is").

    A *block* is one column block of one group, or one set of packed groups; it takes ``arrays_per_block`` arrays
    (its row blocks, times the arrays that hold one weight). Operators are cut between blocks.
    """

    product: MatrixProduct
    packed: int
    row_blocks: int
    columns_per_block: int
    column_blocks: int
    blocks: int
    weights: hw.WeightFormat
    array_rows: int

    @property
    def arrays_per_block(self) -> int:
        """Arrays that one block takes."""
        return self.row_blocks * self.weights.arrays

    @property
    def arrays(self) -> int:
        """Arrays that one copy takes."""
        return self.blocks * self.arrays_per_block

    @property
    def total_columns(self) -> int:
        """Output columns of all groups."""
        return self.product.columns * self.product.groups

    def columns(self, first: int, last: int) -> int:
        """Output columns that blocks ``first`` to ``last`` (exclusive) produce."""
        return sum(self._block_columns(b) for b in range(first, last))

    def _block_columns(self, block: int) -> int:
        groups, columns = self._block_shape(block)
        return groups * columns

    def _block_shape(self, block: int) -> tuple[int, int]:
        product = self.product
        if self.column_blocks == 1:
            return min(self.packed, product.groups - block * self.packed), product.columns
        within = block % self.column_blocks
        return 1, min(self.columns_per_block, product.columns - within * self.columns_per_block)

    def tiles(self, first: int, last: int) -> Iterator[Tile]:
        """The tiles of blocks ``first`` to ``last`` (exclusive), in the order in which they are written."""
        for block in range(first, last):
            groups, columns = self._block_shape(block)
            group = block // self.column_blocks * self.packed
            for row_block in range(self.row_blocks):
                inner = min(self.array_rows, self.product.inner - row_block * self.array_rows)
                elements = groups * inner * columns
                total, slices = self.weights.bytes(elements), self.weights.arrays
                for bit in range(slices):
                    share = total * (bit + 1) // slices - total * bit // slices
                    yield Tile(
                        row_block,
                        block % self.column_blocks,
                        group,
                        groups,
                        bit,
                        groups * inner,
                        groups * columns,
                        max(1, share),
                    )


def footprint(product: MatrixProduct, chip: hw.Chip) -> Footprint:
    """The block grid of ``product`` on ``chip`` (whose columns must hold at least one of its weights)."""
    weights = chip.weight_format(product.weight_bits)
    rows, width = chip.array.rows, weights.per_row
    packed = min(rows // product.inner, width // product.columns, product.groups) if product.groups > 1 else 1
    if product.groups > 1 and packed >= 1:
        row_blocks, column_blocks, blocks = 1, 1, -(-product.groups // packed)
        columns_per_block = product.columns
    else:
        packed = 1
        row_blocks = -(-product.inner // rows)
        column_blocks = -(-product.columns // width)
        columns_per_block, blocks = width, column_blocks * product.groups
    return Footprint(
        product,
        packed,
        row_blocks,
        columns_per_block,
        column_blocks,
        blocks,
        weights,
        rows,
    )
