"""All forms of the segment problem have one optimum: option, column and compact form, and the combinatorial search."""

from __future__ import annotations

from dataclasses import replace

import pyomo.environ as pyo
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import (
    build_segment_allocation,
    evaluate,
    read_segment_allocation,
    relax_segment_allocation,
    solve_segment,
)
from formulations.columns import build_segment_columns, read_segment_columns
from formulations.compact import build_compact, solve_compact
from formulations.segment import SegmentProblem
from solvers import Status, solve
from tests.strategies import segment_problems


@st.composite
def roomy_problems(draw: st.DrawFn) -> SegmentProblem:
    """Every number of copies at which the MVM time falls, some above the envelope of the others, and room for them."""
    problem = draw(segment_problems(largest=3))
    stages = []
    for stage in problem.stages:
        counts = [d for d in range(1, stage.rows + 1) if d == 1 or -(-stage.rows // d) < -(-stage.rows // (d - 1))]
        kept = draw(st.sets(st.sampled_from(counts), min_size=1)) if stage.arrays else {0}
        stages.append(replace(stage, copies=tuple(sorted(kept))))
    total = draw(st.integers(10, 200))
    return replace(
        problem, stages=tuple(stages), total_arrays=total, compute_arrays=total, memory_arrays=total, buffer_bytes=60
    )


@settings(max_examples=60)
@given(roomy_problems() | segment_problems())
def test_option_and_column_form_find_the_optimum(problem: SegmentProblem) -> None:
    best = solve_segment(problem)
    for build, read in (
        (build_segment_allocation, read_segment_allocation),
        (build_segment_columns, read_segment_columns),
    ):
        model = build(problem)
        result = solve(model)
        assert (result.status is Status.OPTIMAL) == (best.cost is not None)
        if best.cost is not None and result.objective is not None:
            exact = evaluate(problem, read(model, problem)).total
            assert abs(exact - best.cost.total) <= 1e-6 * best.cost.total
            assert abs(result.objective - float(exact)) <= 1e-5 * float(exact) + 1e-5


@settings(max_examples=60)
@given(roomy_problems())
def test_compact_form_finds_the_optimum(problem: SegmentProblem) -> None:
    best, found = solve_segment(problem).cost, solve_compact(problem, solve)
    assert (found is None) == (best is None)
    if found is not None and best is not None:
        assert abs(found.cost.total - best.total) <= 1e-6 * best.total
        assert found.bound <= float(found.cost.total) <= found.bound * (1 + 2e-6)


@settings(max_examples=40)
@given(roomy_problems())
def test_relaxations_are_ordered(problem: SegmentProblem) -> None:
    """Columns bound the optimum at least as well as options; whole copies in one piece are a relaxation too."""
    best = solve_segment(problem).cost
    if best is None:
        return
    columns = build_segment_columns(problem)
    for choice in columns.q.values():
        choice.domain = pyo.UnitInterval
    bounds = [solve(relax_segment_allocation(problem)).bound, solve(columns).bound]
    whole = solve(build_compact(problem)).objective
    assert bounds[0] is not None and bounds[1] is not None and whole is not None
    slack = 1e-6 * float(best.total) + 1e-6
    assert bounds[0] - slack <= bounds[1] <= float(best.total) + slack
    assert whole <= float(best.total) + slack
