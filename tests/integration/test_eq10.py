"""``--cost-model eq10`` on a real network: one command, its report, and the check of its plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cmswitch import cli


@pytest.mark.parametrize("schedule", ["dual-mode", "all-compute", "static"])
def test_resnet18(schedule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "result"
    command = ["solve", "zoo:resnet18", "--hw", "dynaplasia", "--cost-model", "eq10", "--schedule", schedule]
    assert cli.main([*command, "--json", "--out", str(out)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["options"]["cost_model"] == "eq10"
    assert report["options"]["schedule_used"] == schedule
    solve, latency = report["solve"], report["latency"]
    assert (solve["termination"], solve["status"]) == ("optimal", "optimal")
    assert solve["bound_cycles"] <= solve["objective_cycles"] == latency["predicted_cycles"]
    assert solve["gap"] <= 0.001
    assert latency["simulated_cycles"] >= latency["roofline_cycles"]
    assert latency["simulated_cycles"] != latency["predicted_cycles"]
    assert any("published equations" in warning for warning in report["warnings"])
    rounded_up = sum(sum(segment["predicted_cycles"].values()) for segment in report["segments"])
    assert 0 <= rounded_up - latency["predicted_cycles"] <= 3 * len(report["segments"])
    assert any(segment["predicted_cycles"]["write_back"] for segment in report["segments"])

    assert json.loads((out / "plan.json").read_text())["cost_model"] == "eq10"
    assert cli.main(["check", str(out / "plan.json")]) == 0
    assert cli.main(["simulate", str(out / "program.mop"), "--hw", "dynaplasia", "--json"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed[printed.index("{") :])["total_cycles"] == latency["simulated_cycles"]
