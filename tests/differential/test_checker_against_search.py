"""The plan checker finds legal, and exactly as long as stated, what the search returns: two implementations of the rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import cmswitch
import hw
from cmswitch.allocation.machine_pricing import MachinePricer
from cmswitch.allocation.segment import Limits, SegmentBuilder
from cmswitch.allocation.solving import Allocator
from cmswitch.checker import check_plan, load_plan
from cmswitch.costs.workload import build_workload
from cmswitch.errors import InfeasibleError
from cmswitch.options import SCHEDULES
from cmswitch.pipeline import Options, compile_network
from cmswitch.segmentation.schedule import Space, find_plan
from tests.differential.network_strategies import Case, cases

LOOSE = 0.05


@given(case=cases())
@settings(max_examples=40)
def test_plans_of_small_networks(case: Case) -> None:
    limits = Limits(case.compute, case.memory)
    try:
        workload = build_workload(case.network, case.chip, limits.compute)
    except InfeasibleError:
        return
    pricer = MachinePricer(SegmentBuilder(workload), limits, Allocator("combinatorial", LOOSE), case.resident)
    found = find_plan(Space(pricer), "dual-mode", LOOSE, lambda: False)
    report = check_plan(load_plan(found.plan.to_json()), case.network, case.chip)
    assert report.violations == ()
    assert report.cost == found.cost


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_plans_of_resnet18(schedule: str) -> None:
    network, chip = cmswitch.load_network("zoo:resnet18"), hw.load_chip("dynaplasia")
    result = compile_network(network, chip, Options(schedule=schedule, gap=LOOSE, time_limit=2))
    report = check_plan(result.plan, network, chip)
    assert report.violations == ()
