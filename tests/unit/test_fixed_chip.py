"""A chip whose arrays cannot be memory compiles under every schedule, to what computes on all arrays."""

from __future__ import annotations

import math

import pytest

from cmswitch.checker import check_plan
from cmswitch.options import SCHEDULES
from cmswitch.pipeline import Options, compile_network
from tests.unit.test_checker import CHAIN, CHIP

FIXED = CHIP.with_changes(**{"modes": {"switchable": False}})


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_computes_on_all_arrays(schedule: str) -> None:
    result = compile_network(CHAIN, FIXED, Options(schedule=schedule, gap=0.0))
    assert result.schedule_used == "all-compute"
    assert (result.plan.compute_limit, result.plan.memory_limit) == (8, 0)
    assert {(s.compute_mode, s.memory_arrays, s.switch) for s in result.plan.segments} == {(8, 0, 0)}
    assert check_plan(result.plan, CHAIN, FIXED).violations == ()
    assert (result.timing.switch_cycles, result.timing.busy.memory_arrays) == (0, 0)
    assert result.plan.predicted_cycles == predicted_where_switching_is_free()


def test_progress_is_told_before_there_is_a_plan() -> None:
    told: list[tuple[str, float, float]] = []
    compile_network(CHAIN, FIXED, Options(schedule="static"), progress=lambda *state: told.append(state))
    assert told[0] == ("static", math.inf, 0.0)


def predicted_where_switching_is_free() -> int:
    """Cycles of the all-compute plan on the same chip with arrays that become compute arrays at no cost."""
    free = CHIP.with_changes(**{"modes.to_compute_cycles": 0})
    return compile_network(CHAIN, free, Options(schedule="all-compute", gap=0.0)).plan.predicted_cycles
