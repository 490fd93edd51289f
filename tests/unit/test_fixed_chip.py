"""A chip whose arrays cannot be memory compiles under every schedule, to what computes on all arrays."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from cmswitch import cli, commands
from cmswitch.checker import check_plan
from cmswitch.options import SCHEDULES
from cmswitch.pipeline import Options, compile_network
from tests.unit.test_checker import CHAIN, CHIP

FIXED = CHIP.with_changes(**{"modes": {"switchable": False}})


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_computes_on_all_arrays(schedule: str) -> None:
    result = compile_network(CHAIN, FIXED, Options(schedule=schedule, weights="cold", gap=0.0))
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


def test_weights_stay_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From Python as from the command line."""
    (tmp_path / "fixed.yaml").write_text(FIXED.to_json())
    monkeypatch.setattr(commands, "load_network", lambda options: CHAIN)
    out = tmp_path / "out"
    assert cli.main(["solve", "zoo:chain", "--hw", str(tmp_path / "fixed.yaml"), "--out", str(out), "--quiet"]) == 0
    result = compile_network(CHAIN, FIXED)
    assert result.plan.to_json() == (out / "plan.json").read_text()
    assert result.weights == json.loads((out / "report.json").read_text())["options"]["weights"] == "resident"
    assert result.plan.resident_weights
    cold = compile_network(CHAIN, FIXED, Options(weights="cold"))
    assert (cold.weights, cold.plan.resident_weights) == ("cold", False)
    assert cold.plan.predicted_cycles > result.plan.predicted_cycles
    assert compile_network(CHAIN, CHIP).weights == "cold"


def predicted_where_switching_is_free() -> int:
    """Cycles of the all-compute plan on the same chip with arrays that become compute arrays at no cost."""
    free = CHIP.with_changes(**{"modes.to_compute_cycles": 0})
    return compile_network(CHAIN, free, Options(schedule="all-compute", gap=0.0)).plan.predicted_cycles
