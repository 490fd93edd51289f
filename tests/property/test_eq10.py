"""The program with tangents, the exact search and an enumeration agree on the published cost model."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.eq10 import (
    Eq10Allocation,
    Eq10Operator,
    Eq10Problem,
    Eq10Tensor,
    bound_operator,
    bound_segment,
    evaluate_eq10,
    solve_eq10_combinatorial,
)
from formulations.literal import solve_literal
from formulations.throughput import solve_eq10
from solvers import solve


@st.composite
def problems(draw: st.DrawFn, arrays: int, operators: int) -> Eq10Problem:
    """A few operators in at most as many groups or in none, tensors between any of them, limits of either mode."""
    count = draw(st.integers(1, operators))
    ops = tuple(
        Eq10Operator(
            draw(st.integers(1, 60)),
            draw(st.integers(1, 40)),
            draw(st.integers(1, 9)),
            draw(st.integers(1, 3)),
            draw(st.none() | st.integers(0, count - 1)),
            draw(st.integers(0, 2)),
        )
        for _ in range(count)
    )
    users = st.sets(st.integers(0, count - 1), min_size=1, max_size=3).map(lambda s: tuple(sorted(s)))
    tensors = tuple(Eq10Tensor(draw(users), draw(st.integers(0, 3))) for _ in range(draw(st.integers(0, 3))))
    limit = st.none() | st.integers(0, arrays)
    return Eq10Problem(
        ops,
        tensors,
        draw(st.integers(1, arrays)),
        draw(st.integers(0, 8)),
        draw(st.fractions(Fraction(1, 4), 20, max_denominator=4)),
        draw(st.integers(0, 30)),
        draw(limit),
        draw(limit),
    )


def brute_force(problem: Eq10Problem) -> Fraction | None:
    """Least total over all whole allocations."""
    n, costs = len(problem.operators), []
    for choice in itertools.product(range(problem.arrays + 1), repeat=2 * n + len(problem.tensors)):
        if sum(choice) <= problem.arrays:
            try:
                allocation = Eq10Allocation(choice[:n], choice[n : 2 * n], choice[2 * n :])
                costs.append(evaluate_eq10(problem, allocation).total)
            except ValueError:
                continue
    return min(costs, default=None)


@settings(max_examples=60)
@given(problems(arrays=4, operators=2))
def test_the_search_finds_the_optimum(problem: Eq10Problem) -> None:
    found, best = solve_eq10_combinatorial(problem), brute_force(problem)
    assert (found[1].total if found else None) == best
    bound = bound_segment(bound_operator(problem, op) for op in problem.operators)
    assert best is None or bound <= float(best) * (1 + 1e-9)


@settings(max_examples=40)
@given(problems(arrays=6, operators=3))
def test_the_literal_program_has_the_same_optimum(problem: Eq10Problem) -> None:
    exact, literal = solve_eq10_combinatorial(problem), solve_literal(problem, solve)
    assert (exact is None) == (literal is None)
    if exact is not None and literal is not None:
        assert exact[1].total <= literal[1].total
        assert float(literal[1].total) == pytest.approx(float(exact[1].total), rel=1e-6)


@settings(max_examples=40)
@given(problems(arrays=30, operators=5))
def test_program_and_search_agree(problem: Eq10Problem) -> None:
    exact, program = solve_eq10_combinatorial(problem), solve_eq10(problem, solve)
    assert (exact is None) == (program is None)
    if exact is not None and program is not None:
        assert exact[1].total <= program[1].total
        assert float(program[1].total) == pytest.approx(float(exact[1].total), rel=1e-6)
