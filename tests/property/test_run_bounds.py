"""Bounds of all runs from one flow: never above the optimum, whatever the flow; and what they rule out is never needed."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from cmswitch.allocation.machine_pricing import MachinePricer
from cmswitch.allocation.pricing import Price
from cmswitch.allocation.runs import Runs
from cmswitch.allocation.segment import Limits, SegmentBuilder
from cmswitch.allocation.solving import Allocator
from cmswitch.costs.workload import build_workload
from formulations import solve_segment
from formulations.flow import flow_of
from tests.differential.network_strategies import Case, cases


def solved(case: Case) -> tuple[MachinePricer, dict[tuple[int, int], Price]]:
    """The segments of a case that fit, and their optimal prices when any tensor may be kept."""
    workload = build_workload(case.network, case.chip, case.compute)
    pricer = MachinePricer(SegmentBuilder(workload), Limits(case.compute, case.memory), Allocator("combinatorial"))
    cells = len(workload.cells)
    prices = {}
    for first in range(cells):
        for last in range(first + 1, cells + 1):
            price = pricer.relaxed(first, last)
            if not math.isinf(price.bound):
                pricer.solve(price, bool)
                prices[first, last] = price
    return pricer, prices


def check(runs: Runs, prices: dict[tuple[int, int], Price]) -> None:
    for run, price in prices.items():
        assert runs.bounds[run] <= price.cost


@settings(max_examples=30)
@given(cases())
def test_flows_of_linear_programs_bound_every_run(case: Case) -> None:
    pricer, prices = solved(case)
    for run in prices:
        pricer.runs.add(*run)
    check(pricer.runs, prices)


@settings(max_examples=60)
@given(cases(), st.randoms(use_true_random=False))
def test_any_prices_bound_every_run(case: Case, random: object) -> None:
    pricer, prices = solved(case)
    runs = pricer.runs
    draw = random.random  # type: ignore[attr-defined]
    program = runs.sequence.program(0, len(runs.sequence.stages))
    for _ in range(3):
        of_rows = [draw() * (draw() < 0.5) * (-1 if tag == ("arrays",) else 1) for tag in program.tags]
        runs.use(flow_of(runs.sequence, program, of_rows))
    check(runs, prices)


@settings(max_examples=30)
@given(cases())
def test_narrowing_keeps_the_optimum(case: Case) -> None:
    pricer, prices = solved(case)
    for (first, last), price in prices.items():
        if price.exact is not None:
            problem = pricer.builder.build(first, last, {}, pricer.limits, relaxed=True).problem
            narrow = pricer.runs.narrowed(first, last, problem, price.cost)
            found = solve_segment(narrow).cost
            assert found is not None and found.total == price.exact.total


def test_the_bound_of_a_chain_is_close_to_its_optimum() -> None:
    import hw
    from cmswitch import load_network

    chip = hw.load_chip("prime")
    workload = build_workload(load_network("zoo:resnet18"), chip)
    pricer = MachinePricer(SegmentBuilder(workload), Limits(chip.arrays, 0), Allocator(gap=0.01))
    shorter, price = pricer.relaxed(0, 8), pricer.relaxed(0, 9)
    quick = price.bound
    pricer.tighten(price, lambda: False)
    bound = price.bound
    pricer.solve(price, bool)
    assert quick < 0.9 * price.cost
    assert 0.95 * price.cost <= bound <= price.cost
    assert shorter.bound > 0.8 * price.cost  # raised by the flow of the longer run
