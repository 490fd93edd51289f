"""A product on the arrays of its copies: partial sums over tiles, and what zero points add to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from cmswitch.functional import layout
from cmswitch.functional.cells import Adc, Grid, multiply
from cmswitch.functional.description import Product
from cmswitch.functional.errors import ExecutionError
from cmswitch.functional.formats import Array, Format
from cmswitch.naming import quantity
from hw import Chip

Block = tuple[int, int]
"""First group and column block."""


@dataclass(frozen=True)
class Held:
    """An operand as it is written into the arrays: its codes in the node's layout, and [groups, inner, columns]."""

    codes: Array
    by_group: Array
    form: Format


@dataclass
class Sums:
    """Sums [groups, rows, columns] of an operator, and the blocks whose columns are not there yet."""

    values: Array
    missing: set[Block]

    @staticmethod
    def empty(product: Product, grid: Grid) -> Sums:
        """Of a product of which nothing has been computed."""
        zeros = np.zeros((product.groups, product.rows, product.columns), np.int64)
        return Sums(zeros, set(grid.blocks(product.groups)))


@dataclass(frozen=True)
class Copies:
    """The arrays ``copies`` of an operator's piece that starts with block ``start``.

    ``cells`` are those of an array (None: it holds none, or is in memory mode). Arrays are addressed by position: by block,
    then row block, then bit slice.
    """

    chip: Chip
    adc: Adc
    cells: Callable[[int], Array | None]
    copies: Sequence[tuple[int, ...]]
    start: Block
    grid: Grid
    held: Held

    def add(
        self, product: Product, matrix: Array, form: Format, sums: Sums, first_row: int = 0, rows: Array | None = None
    ) -> None:
        """Add to ``sums`` what this piece computes from ``matrix``, codes of ``form`` in the node's layout.

        ``first_row`` is the number of the first row within the whole operator; only ``rows`` are computed unless they are None.
        Raises ExecutionError if the arrays are no whole blocks of tiles.
        """
        zero = int(form.zero)
        narrow = matrix.astype(np.min_scalar_type(2**form.bits - 1))
        inputs = layout.matrix(product, narrow, zero)[:, :, product.first : product.first + product.inner]
        if rows is None:
            self._add(product, inputs, zero, sums, np.arange(first_row, first_row + product.rows))
        else:
            some = Sums(np.zeros((product.groups, len(rows), product.columns), np.int64), sums.missing)
            self._add(replace(product, rows=len(rows)), inputs[:, rows], zero, some, rows)
            sums.values[:, rows] += some.values

    def _add(self, product: Product, inputs: Array, zero: int, sums: Sums, numbers: Array) -> None:
        """The same of ``inputs`` [groups, rows, inner], whose rows have ``numbers`` within the whole operator."""
        grid = self.grid
        blocks = grid.blocks(product.groups)
        per_block = grid.row_blocks * grid.slices
        first = blocks.index(self.start) if self.start in blocks else len(blocks)
        count, rest = divmod(len(self.copies[0]), per_block)
        if rest or first + count > len(blocks) or len({len(copy) for copy in self.copies}) > 1:
            raise ExecutionError(
                f"a copy of {product.output!r} has {quantity(len(self.copies[0]), 'array')}, no whole blocks of tiles"
            )
        position = 0
        for group, members in groupby(blocks[first : first + count], key=lambda block: block[0]):
            columns = [column for _, column in members]
            arrays = slice(position, position + len(columns) * per_block)
            for rows, cells in self._alike(arrays, numbers):
                self._blocks(product, group, columns, cells, rows, inputs, sums.values)
            position = arrays.stop
            groups = slice(group, min(group + grid.packed, product.groups))
            reached = slice(columns[0] * grid.width, (columns[-1] + 1) * grid.width)
            sums.values[groups, :, reached] -= self._correction(product, inputs, zero, groups, reached)
            sums.missing.difference_update((group, column) for column in columns)

    def _alike(self, arrays: slice, numbers: Array) -> list[tuple[Array, list[Array | None]]]:
        """The rows of the matrix, dealt to copies one by one, for each set of copies that has any and whose arrays hold the same
        cells."""
        found: dict[tuple[int, ...], tuple[list[int], list[Array | None]]] = {}
        for number, copy in enumerate(self.copies):
            cells = [self.cells(array) for array in copy[arrays]]
            found.setdefault(tuple(map(id, cells)), ([], cells))[0].append(number)
        dealt = numbers % len(self.copies)
        shares = ((np.flatnonzero(np.isin(dealt, chosen)), cells) for chosen, cells in found.values())
        return [(rows, cells) for rows, cells in shares if rows.size]

    def _blocks(
        self,
        product: Product,
        group: int,
        columns: list[int],
        arrays: list[Array | None],
        rows: Array,
        inputs: Array,
        sums: Array,
    ) -> None:
        """Add the partial sums of adjacent column blocks, row block by row block and slice by slice."""
        grid, height = self.grid, self.chip.array.rows
        groups = min(grid.packed, product.groups - group)
        per_block = grid.row_blocks * grid.slices
        widths = [min(grid.width, product.columns - column * grid.width) for column in columns]
        cells_each = 1 if grid.slices > 1 else grid.digits
        whole = len(rows) == product.rows
        reached = slice(columns[0] * grid.width, columns[0] * grid.width + sum(widths))
        for position in range(per_block):
            row_block, bit = divmod(position, grid.slices)
            taken = inputs[group : group + groups, :, row_block * height : (row_block + 1) * height]
            driven = (taken if whole else taken[:, rows]).transpose(1, 0, 2).reshape(len(rows), -1)
            adjacent = [arrays[index * per_block + position] for index in range(len(columns))]
            cells = _side_by_side(adjacent, driven.shape[1], [groups * width * cells_each for width in widths])
            made = multiply(self.chip, driven, cells, grid, bit, self.adc)
            by_group = made.reshape(len(rows), groups, -1).transpose(1, 0, 2)
            if whole:
                sums[group : group + groups, :, reached] += by_group
            else:
                sums[np.arange(group, group + groups)[:, None], rows[None, :], reached] += by_group

    def _correction(self, product: Product, inputs: Array, zero: int, groups: slice, columns: slice) -> Array:
        """What the zero points of inputs, weights and both add to the sums of codes, [groups, rows, columns]."""
        weights = self.held.by_group[groups, :, columns].sum(axis=1, dtype=np.int64)[:, None, :]
        zeros = layout.operand(product, np.broadcast_to(self.held.form.zero, self.held.codes.shape))
        offsets = inputs[groups].sum(axis=2, dtype=np.int64)[:, :, None] - product.inner * zero
        return np.asarray(zero * weights + offsets * zeros[groups, :1, columns])


def _side_by_side(arrays: list[Array | None], rows: int, widths: list[int]) -> Array:
    """The cells that ``rows`` driven rows and the columns that are read meet, empty where nothing was written."""
    found = np.zeros((rows, sum(widths)), np.uint16)
    start = 0
    for cells, width in zip(arrays, widths, strict=True):
        if cells is not None:
            part = cells[:rows, :width]
            found[: part.shape[0], start : start + part.shape[1]] = part
        start += width
    return found
