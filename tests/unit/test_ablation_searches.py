"""The searches that are compared: on a small network all counts and plans, on real ones what was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import hw
from benchmarks.__main__ import main
from benchmarks.ablation import searches
from benchmarks.ablation.searches import (
    EAGER,
    LAZY,
    PUBLISHED,
    SETTINGS,
    TARGET_NETWORKS,
    UNKEPT,
    VARIANTS,
    Line,
    Variant,
    failures,
    figures,
    with_shares,
)
from benchmarks.networks import CHIPS
from cmswitch import load_network
from cmswitch.graph.zoo.maker import Maker

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "ablation-searches.json"
LIMIT = 60.0


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[Variant, dict[str, object]]:
    """Every variant on six layers, of two shapes in turn, that no segment holds all of; no gap is allowed."""
    maker = Maker("turns")
    width, value = 64, maker.input("tokens", [1, 64, 64])
    for layer, wide in enumerate((96, 64) * 3):
        value = maker.node("MatMul", f"layer{layer}", value, maker.weight(f"weight{layer}", width, wide))
        width = wide
    path = tmp_path_factory.mktemp("models") / "turns.onnx"
    onnx.save(maker.model(value), path)
    network, chip = load_network(str(path)), hw.load_chip("dynaplasia").with_changes(arrays_per_core=8)
    return {variant: figures(network, chip, variant, LIMIT, gap=0.0) for variant in VARIANTS}


def test_no_search_finds_a_better_plan_than_the_lazy_one(found: dict[Variant, dict[str, object]]) -> None:
    cycles = {variant: float(str(figures["predicted_cycles"])) for variant, figures in found.items()}
    lazy = cycles[Variant(LAZY)]
    assert all(lazy <= other * (1 + 1e-9) for other in cycles.values())
    for variant, same in cycles.items():
        if variant.search in (LAZY, EAGER):
            assert same == pytest.approx(lazy), variant
    assert found[Variant(LAZY)]["gap"] == 0.0


def test_counts_are_ordered(found: dict[Variant, dict[str, object]]) -> None:
    needed = {variant: int(str(figures["needed"])) for variant, figures in found.items()}
    assert needed[Variant(UNKEPT)] <= needed[Variant(PUBLISHED)] <= needed[Variant(EAGER)]
    assert all(figures["needed_complete"] for figures in found.values())
    unkept, repeated = found[Variant(UNKEPT)], found[Variant(UNKEPT, cache=False)]
    assert unkept["solved"] == unkept["distinct"] == unkept["needed"]
    assert needed[Variant(UNKEPT)] < int(str(unkept["requests"]))
    assert repeated["solved"] == repeated["requests"] == unkept["requests"]
    assert repeated["distinct"] == unkept["distinct"]
    lazy, unbounded = found[Variant(LAZY)], found[Variant(LAZY, bounds=False)]
    assert int(str(lazy["distinct"])) < int(str(unbounded["distinct"]))
    assert lazy["solved"] == lazy["distinct"]


def test_the_recorded_searches_meet_the_target() -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = with_shares(recorded["rows"])
    assert recorded["summary"] == {"failures": failures(rows)}
    assert SETTINGS.items() <= recorded["parameters"].items()
    lazy = {(r["network"], r["chip"]): r for r in rows if r["search"] == LAZY and r["cache"] and r["bounds"]}
    assert {(network, chip) for network in TARGET_NETWORKS for chip in CHIPS} <= lazy.keys()
    assert failures(rows) == []


def test_too_many_programs_or_a_worse_plan_fail() -> None:
    same = {"network": TARGET_NETWORKS[0], "chip": "dynaplasia", "cache": True, "bounds": True}
    lazy = {**same, "search": LAZY, "distinct": 20, "predicted_cycles": 1000.0, "needed_complete": True, "gap": 0.0001}
    other = {**same, "search": PUBLISHED, "needed": 100, "predicted_cycles": 1000.0}
    assert failures(with_shares([lazy, other])) == []
    (many,) = failures(with_shares([{**lazy, "distinct": 21}, other]))
    assert "lazy search solves 21.00 % of the programs" in many
    (worse,) = failures(with_shares([{**lazy, "predicted_cycles": 1000.5}, other]))
    assert "another search finds 1,000 cycles" in worse  # within the gap, but worse
    (early,) = failures(with_shares([{**lazy, "needed_complete": False, "gap": 0.01}, other]))
    assert "was stopped at a gap of 1.00 %" in early
    (unknown,) = failures(with_shares([lazy]))
    assert "an unknown part" in unknown


def test_a_stopped_run_is_resumed_with_the_lines_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, object]] = []

    def measure(line: Line, limit: float, seed: int) -> dict[str, object]:
        if len(asked) == 7:
            raise KeyboardInterrupt
        asked.append(dict(line.identity))
        counts = {"needed": 5, "distinct": 5, "needed_complete": True, "predicted_cycles": 1.0}
        return {**line.identity, "time_limit": limit, **counts}

    monkeypatch.setattr(searches, "measure", measure)
    arguments = ["ablation", "--part", "searches", "--limit", "1", "--out", str(tmp_path)]
    assert main(arguments) == 1  # stopped
    first = list(asked)
    asked.clear()
    assert main([*arguments, "--limit", "2", "--resume"]) == 1
    assert len(first) == len(asked) == 7 and not [line for line in asked if line in first]
    rows = json.loads((tmp_path / "ablation-searches.json").read_text())["rows"]
    assert sorted(row["time_limit"] for row in rows if "missing" not in row) == [1.0] * 7 + [2.0] * 7
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--resume", "--seed", "5"])
    assert "ablation-searches.json: measured with" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*arguments[:-1], str(tmp_path / "new"), "--resume"])
    assert "no record to resume" in capsys.readouterr().err
