"""The published cost model by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from formulations.eq10 import (
    Eq10Allocation,
    Eq10Operator,
    Eq10Problem,
    Eq10Tensor,
    evaluate_eq10,
    solve_eq10_combinatorial,
)
from formulations.throughput import solve_eq10
from solvers import solve

TWO = Eq10Problem(
    operators=(Eq10Operator(64, 32, 8, 2, 0), Eq10Operator(64, 16, 8, 1, 1)),
    tensors=(Eq10Tensor((0, 1), 2),),
    arrays=12,
    array_bandwidth=4,
    other_bandwidth=8,
    write_cycles=10,
)


def test_an_allocation_by_hand() -> None:
    # 64 * 8 * 2 / 4 = 256; 64 * 32 / (4 * 3 + 8) = 102.4; 64 * 8 / 2 = 256; the larger group reloads 4 arrays
    cost = evaluate_eq10(TWO, Eq10Allocation((4, 2), (1, 0), (2,)))
    assert cost.execute == 256 and cost.reload == 40 and cost.total == 296


def test_pieces_of_one_operator_reload_together() -> None:
    pieces = Eq10Problem((Eq10Operator(64, 32, 8, 2, 0), Eq10Operator(64, 16, 8, 1, 0)), (), 12, 4, 8, 10)
    assert evaluate_eq10(pieces, Eq10Allocation((4, 2), (0, 0), ())).reload == 60


def test_the_joint_optimum_is_not_the_fastest_segment() -> None:
    """With dear writes one copy is best, although twelve would execute in a twelfth of the time."""
    dear = Eq10Problem((Eq10Operator(64, 1, 12, 1, 0),), (), 12, 4, 8, 1000)
    found = solve_eq10_combinatorial(dear)
    assert found is not None and found[0].compute == (1,) and found[1].total == 64 * 12 + 1000
    program = solve_eq10(dear, solve)
    assert program is not None and program[1].total == found[1].total


def test_fractional_bandwidth() -> None:
    cost = evaluate_eq10(
        Eq10Problem((Eq10Operator(3, 5, 1, 1, 0),), (), 4, Fraction(1, 2), Fraction(1, 4), 0),
        Eq10Allocation((1,), (3,), ()),
    )
    assert cost.execute == Fraction(60, 7)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Eq10Allocation((8, 2), (1, 0), (2,)), r"\(8\) arrays: 13 used, 12 available"),
        (Eq10Allocation((1, 2), (1, 0), (2,)), r"\(8\) operator 0: 1 compute arrays, one copy takes 2"),
        (Eq10Allocation((4, 2), (1, 0), (3,)), r"\(6\)\(7\) tensor 0: 3 arrays are not within 0 .. 2"),
    ],
)
def test_a_violated_constraint_is_named(choice: Eq10Allocation, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate_eq10(TWO, choice)


def test_what_does_not_fit() -> None:
    small = Eq10Problem((Eq10Operator(64, 1, 12, 5, 0),), (), 4, 4, 8, 1)
    assert solve_eq10_combinatorial(small) is None and solve_eq10(small, solve) is None
