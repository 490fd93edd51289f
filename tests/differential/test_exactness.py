"""The lazy search, an enumeration that shares no code with it, and one program over everything find the same optimum."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given, settings

from cmswitch.allocation.machine_pricing import MachinePricer
from cmswitch.allocation.segment import Limits, SegmentBuilder
from cmswitch.allocation.solving import Allocator
from cmswitch.costs.dependence import Dependences
from cmswitch.costs.workload import build_workload
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator, Read, Tensor, VectorWork, Write
from cmswitch.segmentation.schedule import Found, Space, find_plan
from formulations.monolithic import build_monolithic, evaluate_monolithic, read_monolithic
from hw import load_chip
from solvers import Status, solve
from tests.differential.monolithic_problem import monolithic_problem
from tests.differential.network_strategies import Case, cases
from tests.differential.oracle import PlanSpace, Run

NEVER = bool  # bool() is False: nothing stops the search


def enumerated(case: Case) -> Fraction:
    """Cycles of the best of all plans."""
    return PlanSpace(case.network, case.chip, case.compute, case.memory, case.resident).best()


def space_of(case: Case, builder: SegmentBuilder, solver: str) -> Space:
    """The plan space of a case."""
    return Space(MachinePricer(builder, Limits(case.compute, case.memory), Allocator(solver), case.resident))


def searched(case: Case, solver: str) -> Found:
    """What the compiler finds with no gap allowed."""
    builder = SegmentBuilder(build_workload(case.network, case.chip, case.compute))
    return find_plan(space_of(case, builder, solver), "any", 0.0, NEVER)


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


@settings(max_examples=30)
@given(cases())
def test_a_wider_space_proves_the_best_plans_of_both(case: Case) -> None:
    builder, narrow = SegmentBuilder(build_workload(case.network, case.chip, case.compute)), replace(case, memory=0)
    dual = space_of(case, builder, "combinatorial")
    compute_only = find_plan(space_of(narrow, builder, "combinatorial"), "all-compute", 0.0, NEVER, wider=dual)
    best = enumerated(narrow)
    assert compute_only.cost == best
    assert compute_only.bound == pytest.approx(float(best))
    found, best = find_plan(dual, "dual-mode", 0.0, NEVER, known=compute_only), enumerated(case)
    assert found.cost == best
    assert found.bound == pytest.approx(float(best))


def switching_decides() -> Case:
    """A network whose all-compute plan becomes twice as fast once the arrays that switch are decided with it."""
    chip = load_chip("dynaplasia").with_changes(
        **{
            "arrays_per_core": 6,
            "precision.weight_bits": 4,
            "precision.accumulator_bits": 16,
            "array.rows": 6,
            "array.columns": 8,
            "array.max_active_rows": 3,
            "array.cycles_per_pass": "0.5",
            "buffer.capacity_bytes": 20,
            "buffer.bandwidth": "0.5",
            "main_memory.bandwidth": "2.5",
            "modes.bandwidth": "0.25",
            "modes.to_compute_cycles": 50,
            "vector.lanes": 4,
        }
    )
    first = Operator(
        "first",
        ("first",),
        MatrixProduct(rows=1, inner=1, columns=2, groups=1, weight="w0"),
        chunks=1,
        reads=(Read(0, "matrix", 3, 6, Need.whole(1)),),
        vector=(VectorWork("softmax", "softmax", 2, False),),
        writes=(Write(1), Write(2)),
    )
    second = Operator(
        "second",
        ("second",),
        MatrixProduct(rows=4, inner=3, columns=2, groups=1, weight="w1"),
        chunks=4,
        reads=(Read(2, "matrix", 2, 4, Need(1, 4, 5, 2)),),
        vector=(),
        writes=(Write(3),),
    )
    tensors = (Tensor("in", 3, None), Tensor("out", 2, 0, True), Tensor("between", 2, 0), Tensor("last", 8, 1, True))
    return Case(Network("tiny", (first, second), tensors, 2), chip, compute=5, memory=1, resident=True)


@settings(max_examples=30)
@given(cases())
@example(switching_decides())
def test_no_gap_lets_a_worse_plan_replace_one_that_is_known(case: Case) -> None:
    builder, gap = SegmentBuilder(build_workload(case.network, case.chip, case.compute)), 0.3
    dual = space_of(case, builder, "combinatorial")
    compute_only = find_plan(space_of(replace(case, memory=0), builder, "combinatorial"), "any", gap, NEVER, wider=dual)
    assert find_plan(dual, "any", gap, NEVER, known=compute_only).cost <= compute_only.cost


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
