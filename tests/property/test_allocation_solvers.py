"""Brute force, HiGHS and the combinatorial solver find the same optimum; lower bounds are never above it."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given, settings

from formulations import build_segment_allocation, evaluate, lower_bound, read_segment_allocation, solve_segment
from formulations.segment import SegmentProblem
from solvers import Status, Termination, solve
from tests.strategies import allocations, segment_problems


def brute_force(problem: SegmentProblem) -> Fraction | None:
    """Least total over all combinations; None if none is feasible."""
    costs = []
    for allocation in allocations(problem):
        try:
            costs.append(evaluate(problem, allocation).total)
        except ValueError:
            continue
    return min(costs, default=None)


@settings(max_examples=60)
@given(segment_problems(largest=3))
def test_highs_finds_the_optimum(problem: SegmentProblem) -> None:
    best = brute_force(problem)
    model = build_segment_allocation(problem)
    result = solve(model)
    if best is None:
        assert result.termination is Termination.INFEASIBLE and result.status is Status.NONE
        return
    assert result.status is Status.OPTIMAL and result.objective is not None
    assert evaluate(problem, read_segment_allocation(model, problem)).total == best
    assert abs(result.objective - best) <= 1e-5 * best + 1e-5


@settings(max_examples=300)
@given(segment_problems())
def test_combinatorial_search_finds_the_optimum(problem: SegmentProblem) -> None:
    best = brute_force(problem)
    result = solve_segment(problem)
    if best is None:
        assert (result.termination, result.allocation, result.bound) == ("infeasible", None, math.inf)
        return
    assert result.termination == "optimal" and result.allocation is not None
    assert evaluate(problem, result.allocation).total == best == result.bound


@settings(max_examples=300)
@given(segment_problems())
def test_the_lower_bound_is_never_above_the_optimum(problem: SegmentProblem) -> None:
    best = brute_force(problem)
    assert lower_bound(problem) <= (math.inf if best is None else best)
