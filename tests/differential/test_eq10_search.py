"""Cost model ``eq10``: the search finds what an enumeration over cuts, kept tensors, modes and allocations finds, the checker
agrees on what it costs, and the simulator executes it."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings

from cmswitch.allocation.eq10_pricing import Eq10Pricer
from cmswitch.allocation.segment import Limits, SegmentBuilder
from cmswitch.allocation.solving import Allocator
from cmswitch.checker import check_plan, load_plan
from cmswitch.costs.workload import Workload, build_workload
from cmswitch.lowering import lower
from cmswitch.segmentation.schedule import Found, Space, find_plan
from cmswitch.simulator import simulate
from tests.differential.network_strategies import Case, cases
from tests.differential.oracle_eq10 import Eq10Space

NEVER = bool  # bool() is False: nothing stops the search


def searched(case: Case, solver: str) -> tuple[Found, Workload]:
    """What the compiler finds with no gap allowed."""
    workload = build_workload(case.network, case.chip)
    limits = Limits(case.compute, case.memory)
    pricer = Eq10Pricer(SegmentBuilder(workload), limits, Allocator(solver), case.resident)
    return find_plan(Space(pricer), "dual-mode", 0.0, NEVER), workload


@settings(max_examples=60)
@given(cases(operators=3, arrays=4))
def test_the_search_finds_the_best_plan_of_the_space(case: Case) -> None:
    space = Eq10Space(case)
    assume(space.can_hold_each_cell)
    best, (found, _) = space.best(), searched(case, "combinatorial")
    assert found.cost == best
    assert found.bound == pytest.approx(float(best))


@settings(max_examples=15)
@given(cases(operators=3, arrays=4))
def test_the_search_finds_it_with_highs(case: Case) -> None:
    space = Eq10Space(case)
    assume(space.can_hold_each_cell)
    best, (found, _) = space.best(), searched(case, "highs")
    assert float(found.cost) == pytest.approx(float(best), rel=1e-5)
    assert found.bound <= float(best) * (1 + 1e-9)


@settings(max_examples=60)
@given(cases())
def test_plans_are_legal_cost_what_they_state_and_run(case: Case) -> None:
    assume(Eq10Space(case).can_hold_each_cell)
    found, workload = searched(case, "combinatorial")
    report = check_plan(load_plan(found.plan.to_json()), case.network, case.chip)
    assert report.violations == ()
    assert report.cost == found.cost
    assert simulate(lower(found.plan, workload), case.chip).total_cycles > 0
