"""The arrays in compute mode: which digits their cells hold, and what an MVM makes of them.

Weights and inputs are unsigned codes, cut into digits that a cell, or a converter, can hold. Zero points are subtracted
outside the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cmswitch.functional.formats import Array
from hw import Chip

Adc = Literal["off", "clip", "round"]

EXACT_SINGLE, EXACT_DOUBLE = 2**24, 2**53
"""Whole numbers up to these are exact in float32 and float64, whose matrix products are fast."""


@dataclass(frozen=True)
class Grid:
    """The tiles of one copy of a product, as its readxb addresses them: by block, then row block, then bit slice.

    ``packed`` groups share an array; ``blocks`` are (first group, groups, column block) of those that the copy holds.
    """

    packed: int
    row_blocks: int
    column_blocks: int
    width: int
    slices: int
    digits: int

    @staticmethod
    def of(chip: Chip, inner: int, columns: int, groups: int, bits: int) -> Grid:
        """The grid of a product whose weights have ``bits`` bits."""
        rows, array = chip.array.rows, chip.array
        digits = -(-bits // array.bits_per_cell)
        by_arrays = array.binding == "arrays"
        width = array.columns if by_arrays else array.columns // digits
        slices = digits if by_arrays else 1
        packed = min(rows // inner, width // columns, groups) if groups > 1 else 1
        if groups > 1 and packed:
            return Grid(packed, 1, 1, columns, slices, digits)
        return Grid(1, -(-inner // rows), -(-columns // width), width, slices, digits)

    def blocks(self, groups: int) -> list[tuple[int, int]]:
        """(first group, column block) of every block of the whole operator."""
        return [(g, c) for g in range(0, groups, self.packed) for c in range(self.column_blocks)]


def digits_of(codes: Array, bits: int, count: int) -> list[Array]:
    """``codes`` in ``count`` digits of ``bits`` bits each, least significant first."""
    return [(codes >> (bits * place)) & (2**bits - 1) for place in range(count)]


def cells_of_tile(chip: Chip, codes: Array, grid: Grid, bit: int, rows: int, columns: int) -> Array:
    """The cells [rows, cells] of an array that holds one tile.

    ``codes`` [groups, inner, columns] lie along the diagonal, the cells off it are empty. Only the first ``rows`` rows and
    ``columns`` weights per row are written.
    """
    groups, inner, width = codes.shape
    whole = np.zeros((groups * inner, groups * width), np.uint16)
    for index in range(groups):
        whole[index * inner : (index + 1) * inner, index * width : (index + 1) * width] = codes[index]
    written = np.zeros_like(whole)
    written[:rows, :columns] = whole[:rows, :columns]
    digits = digits_of(written, chip.array.bits_per_cell, grid.digits)
    if grid.slices > 1:
        return digits[bit]
    return np.stack(digits, axis=-1).reshape(whole.shape[0], -1)


def multiply(chip: Chip, inputs: Array, cells: Array, grid: Grid, bit: int, adc: Adc) -> Array:
    """What an array adds to the sums of its columns, int64 [rows of the matrix, weights per row].

    ``inputs`` [rows of the matrix, rows of the array] are codes. Without a converter the digits of inputs and cells are
    put together before they are multiplied, which gives the same sums.
    """
    base = chip.array.bits_per_cell
    places = [bit] if grid.slices > 1 else list(range(grid.digits))
    by_digit = cells.reshape(cells.shape[0], -1, len(places))
    if adc == "off":
        weights = sum(by_digit[:, :, i].astype(np.float64) * 2.0 ** (base * place) for i, place in enumerate(places))
        return exact_product(inputs, np.asarray(weights))
    dac = chip.array.dac_bits
    sums = np.zeros((inputs.shape[0], by_digit.shape[1]), np.int64)
    passes = digits_of(inputs.astype(np.int64), dac, -(-chip.precision.input_bits // dac))
    for step, driven in enumerate(passes):
        for first in range(0, cells.shape[0], chip.array.max_active_rows):
            active = slice(first, first + chip.array.max_active_rows)
            column = _converted(chip, exact_product(driven[:, active], cells[active]), adc)
            column = column.reshape(*sums.shape, len(places))
            for index, place in enumerate(places):
                sums += column[:, :, index] << (dac * step + base * place)
    return sums


def exact_product(left: Array, right: Array) -> Array:
    """The product of matrices of whole numbers, of which ``right`` has none below 0, int64."""
    bound = float(left.max(initial=0)) * float(right.sum(axis=0, dtype=np.float64).max(initial=0))
    kind = np.float32 if bound < EXACT_SINGLE else np.float64 if bound < EXACT_DOUBLE else np.int64
    return np.asarray(left.astype(kind) @ right.astype(kind)).astype(np.int64)


def _converted(chip: Chip, sums: Array, adc: Adc) -> Array:
    """Column sums after a converter of ``adc_bits``: one level per unit, or levels that cover the largest sum."""
    array = chip.array
    levels = 2**array.adc_bits
    step = 1
    if adc == "round":
        rows = min(array.max_active_rows, array.rows)
        largest = rows * (2**array.dac_bits - 1) * (2**array.bits_per_cell - 1)
        step = 1 << max(0, largest.bit_length() - array.adc_bits)
    codes = np.minimum(np.rint(sums / step).astype(np.int64), levels - 1)
    return np.asarray(codes * step)
