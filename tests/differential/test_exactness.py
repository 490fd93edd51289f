"""The lazy search, an enumeration that shares no code with it, and one program over everything find the same optimum."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings

from cmswitch.allocation.machine_pricing import MachinePricer
from cmswitch.allocation.segment import Limits, SegmentBuilder
from cmswitch.allocation.solving import Allocator
from cmswitch.costs.dependence import Dependences
from cmswitch.costs.workload import build_workload
from cmswitch.segmentation.monolithic import monolithic_problem
from cmswitch.segmentation.schedule import Found, Space, find_plan
from formulations.monolithic import build_monolithic, evaluate_monolithic, read_monolithic
from solvers import Status, solve
from tests.differential.network_strategies import Case, cases
from tests.differential.oracle import PlanSpace, Run

NEVER = bool  # bool() is False: nothing stops the search


def enumerated(case: Case) -> Fraction:
    """Cycles of the best of all plans."""
    return PlanSpace(case.network, case.chip, case.compute, case.memory, case.resident).best()


def searched(case: Case, solver: str) -> Found:
    """What the compiler finds with no gap allowed."""
    workload = build_workload(case.network, case.chip, case.compute)
    limits = Limits(case.compute, case.memory)
    pricer = MachinePricer(SegmentBuilder(workload), limits, Allocator(solver), case.resident)
    return find_plan(Space(pricer), "any", 0.0, NEVER)


@settings(max_examples=60)
@given(cases())
def test_cells_and_windows_are_the_same(case: Case) -> None:
    workload = build_workload(case.network, case.chip, case.compute)
    space = PlanSpace(case.network, case.chip, case.compute, case.memory)
    assert [(c.operator, c.first_block, c.last_block) for c in workload.cells] == space.cells
    dependences, operators = Dependences(workload.network), workload.network.operators
    for number, tensor in enumerate(workload.network.tensors):
        readers = {i: [r for r in operators[i].reads if r.tensor == number] for i in workload.network.consumers[number]}
        if readers and tensor.producer is not None:
            runs = [Run(space, i, 0, max(1, len(space.blocks[i]))) for i in readers]
            last = len(operators) - 1
            assert dependences.window(number, readers, last) == space.window(number, runs, last)


@settings(max_examples=50)
@given(cases())
def test_the_search_finds_the_best_plan_of_the_space(case: Case) -> None:
    best, found = enumerated(case), searched(case, "combinatorial")
    assert found.cost == best
    assert found.bound == pytest.approx(float(best))


@settings(max_examples=25)
@given(cases(operators=3, arrays=4))
def test_the_search_finds_it_with_highs(case: Case) -> None:
    best, found = enumerated(case), searched(case, "highs")
    assert found.cost == best
    assert found.bound == pytest.approx(float(best))


@settings(max_examples=20)
@given(cases(operators=3, arrays=4))
def test_one_program_over_everything_finds_it(case: Case) -> None:
    workload = build_workload(case.network, case.chip, case.compute)
    problem = monolithic_problem(
        MachinePricer(SegmentBuilder(workload), Limits(case.compute, case.memory), Allocator(), case.resident)
    )
    model = build_monolithic(problem)
    result = solve(model)
    assert result.status is Status.OPTIMAL and result.objective is not None
    best = enumerated(case)
    assert evaluate_monolithic(problem, read_monolithic(model, problem)) == best
    assert result.objective == pytest.approx(float(best))
