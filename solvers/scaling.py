"""A mixed integer linear program in whole numbers, with a bound on what rounding does.

Each continuous variable becomes a whole multiple of its grid, a power of two fine enough for ``GRID_BITS`` steps over its range.
Rows whose coefficients are rationals with a small common denominator are scaled exactly; others are rounded. Every row is then
relaxed by the most that rounding can change it, so that each solution of the program has a neighbour on the grid that satisfies
the whole-number rows: what is infeasible in whole numbers is infeasible, and their optimum bounds that of the program.
A program of integers with such coefficients is represented exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from solvers.errors import Unsuitable
from solvers.program import LinearProgram

GRID_BITS = 32
ACTIVITY_BITS = 58
"""No sum of absolute values of a row's terms reaches two to this power; CP-SAT's limit is 62."""

COST_BITS = 52
"""The same for the objective, which CP-SAT reports as a double."""

LARGEST_DENOMINATOR = 10**6
BOUND_TOLERANCE = Fraction(1, 10**9)
"""Relative; a row's bound is the result of floating-point arithmetic."""


@dataclass(frozen=True)
class WholeRow:
    """``low <= sum of coefficient * column <= high`` in whole numbers; None: not bounded on that side."""

    columns: tuple[int, ...]
    coefficients: tuple[int, ...]
    low: int | None
    high: int | None


@dataclass(frozen=True)
class WholeProgram:
    """Variable j of the program is ``grid[j]`` times a whole number from ``lower[j]`` to ``upper[j]``.

    The objective times ``cost_scale``, less the program's offset, is the sum of ``costs`` to within ``cost_error``.
    ``exact``: nothing was rounded.
    """

    grid: tuple[Fraction, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    rows: tuple[WholeRow, ...]
    costs: tuple[int, ...]
    cost_scale: Fraction
    cost_error: Fraction
    exact: bool


def whole_program(program: LinearProgram) -> WholeProgram:
    """``program`` in whole numbers. Unsuitable if a variable is not bounded or its range exceeds what whole numbers hold."""
    for name, low, high in zip(program.names, program.lower, program.upper, strict=True):
        if math.isinf(low) or math.isinf(high):
            raise Unsuitable(
                f"{name} has no finite bounds, which whole-number search needs: bound it, or use another solver"
            )
        if max(abs(low), abs(high)) >= 2.0 ** (ACTIVITY_BITS - 1):
            raise Unsuitable(
                f"{name} ranges to {max(abs(low), abs(high)):g}, too far for whole-number search: scale it down"
            )
    grid, lower, upper = [], [], []
    for low, high, whole in zip(program.lower, program.upper, program.integer, strict=True):
        step = Fraction(1) if whole else _grid(low, high)
        grid.append(step)
        lower.append(math.ceil(low - 1e-9) if whole else math.floor(Fraction(low) / step))
        upper.append(math.floor(high + 1e-9) if whole else math.ceil(Fraction(high) / step))
    largest = [max(abs(low), abs(high)) for low, high in zip(lower, upper, strict=True)]

    def scaled(terms: Iterable[tuple[int, float]], bits: int) -> _Scaled:
        row = [(column, _rational(a) * grid[column]) for column, a in terms]
        return _scale(row, largest, program.integer, bits)

    rows = []
    exact = True
    for r, (low, high) in enumerate(zip(program.row_lower, program.row_upper, strict=True)):
        row = scaled(program.row(r), ACTIVITY_BITS)
        exact &= not row.error
        rows.append(
            WholeRow(
                row.columns,
                row.coefficients,
                None if math.isinf(low) else math.ceil(_below(low) * row.scale - row.error),
                None if math.isinf(high) else math.floor(-_below(-high) * row.scale + row.error),
            )
        )
    cost = scaled(((column, c) for column, c in enumerate(program.cost) if c), COST_BITS)
    costs = [0] * len(program.cost)
    for column, c in zip(cost.columns, cost.coefficients, strict=True):
        costs[column] = c
    return WholeProgram(
        tuple(grid),
        tuple(lower),
        tuple(upper),
        tuple(rows),
        tuple(costs),
        cost.scale,
        cost.error,
        exact and not cost.error,
    )


@dataclass(frozen=True)
class _Scaled:
    columns: tuple[int, ...]
    coefficients: tuple[int, ...]
    scale: Fraction
    error: Fraction


def _scale(row: list[tuple[int, Fraction]], largest: list[int], integer: list[bool], bits: int) -> _Scaled:
    """Scale a row to whole coefficients; ``error`` bounds the change of the scaled sum by all rounding."""
    columns = tuple(column for column, _ in row)
    activity = sum((abs(a) * max(1, largest[column]) for column, a in row), start=Fraction(0))
    scale = Fraction(math.lcm(*(a.denominator for _, a in row)))
    if scale * activity >= 2**bits:
        scale = Fraction(2) ** (bits - 1 - _log2(activity))
    coefficients = tuple(round(a * scale) for _, a in row)
    error = Fraction(0)
    for (column, a), whole in zip(row, coefficients, strict=True):
        error += abs(a * scale - whole) * largest[column]
        if not integer[column]:
            error += abs(Fraction(whole)) / 2
    return _Scaled(columns, coefficients, scale, error)


def _grid(low: float, high: float) -> Fraction:
    reach = max(abs(low), abs(high))
    return Fraction(2) ** (math.ceil(math.log2(reach)) - GRID_BITS) if reach else Fraction(1)


def _log2(number: Fraction) -> int:
    """A whole number that ``number`` is less than two to the power of, by at most a factor of four."""
    return number.numerator.bit_length() - number.denominator.bit_length() + 1


def _rational(number: float) -> Fraction:
    """The rational with a small denominator that ``number`` is the double of; else the exact value of the double."""
    near = Fraction(number).limit_denominator(LARGEST_DENOMINATOR)
    return near if float(near) == number else Fraction(number)


def _below(bound: float) -> Fraction:
    exact = _rational(bound)
    return exact - abs(exact) * BOUND_TOLERANCE
