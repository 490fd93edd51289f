"""The comparison of forms and solvers: what its rows say, what fails it, and that the compiler follows the recorded advice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.ablation import agreement
from benchmarks.ablation.comparison import Measurer, Task, default_settings
from benchmarks.ablation.figures import FACTORS, disagreements, finalists, profiles, recommend, summarize, tables
from benchmarks.ablation.pairs import BACKENDS, DEFAULT, FORMS, PAIRS, BoxesPair, Run
from benchmarks.ablation.segments import SIZES, HarvestedSegment, read_segments
from benchmarks.record import Row
from cmswitch.allocation import solving
from solvers import SolverFailure, solver_names

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "ablation-segments.json"
SMALL = min(read_segments(), key=lambda s: (s.operators, s.published.arrays, s.name))


def line(pair: str, segment: str = "a", seconds: float = 1.0, objective: float = 100.0, **more: Any) -> dict[str, Any]:
    """A row of a pair that solved a segment."""
    form, solver = pair.split(":")
    row = {
        "segment": segment,
        "form": form,
        "solver": solver,
        "chip": "prime",
        "operators": 2,
        "size": "1-3",
        "cost_model": "machine",
        "termination": "optimal",
        "solved": True,
        "build_seconds": 0.0,
        "solve_seconds": seconds,
        "cpu_seconds": seconds,
        "programs": 1,
        "nodes": 1,
        "objective": objective,
        "exact": str(objective).removesuffix(".0"),
        "bound": objective,
        "gaps": {"1": 0.0},
        "root_bound": objective,
    }
    return {**row, **more}


def test_every_form_goes_to_every_backend() -> None:
    assert set(BACKENDS) == {*solver_names()} - {"brute-force"}
    assert set(PAIRS) >= {f"{form}:{solver}" for form in FORMS for solver in BACKENDS}
    assert DEFAULT.name == "default:auto"


def test_costs_and_bounds_that_contradict_each_other() -> None:
    right = [line("option:highs"), line("column:scip"), line("boxes:combinatorial", objective=100.00001)]
    assert disagreements(right) == []
    assert disagreements([*right, line("compact:scip", objective=100.1)]) == [
        "a: compact:scip ends at 100.1, option:highs at 100"
    ]
    early = line("compact:scip", objective=100.1, bound=90.0, solved=False)
    assert disagreements([*right, early]) == []
    assert disagreements([*right, {**early, "bound": 100.05}]) == [
        "a: compact:scip proves 100.05, option:highs costs 100"
    ]
    without = {**early, "exact": None, "objective": None}
    assert disagreements([*right, without]) == []
    assert disagreements([*right, {**without, "bound": 101.0}]) == [
        "a: compact:scip proves 101, option:highs costs 100"
    ]
    assert disagreements([*right, {**without, "termination": "infeasible", "bound": 0.0}]) == [
        "a: compact:scip finds no allocation, option:highs one of 100"
    ]
    elsewhere = line("literal:highs", objective=7.0, cost_model="published")
    assert disagreements([*right, elsewhere]) == []


def test_profiles_and_recommendation() -> None:
    rows = [line("option:highs", s, t) for s, t in (("a", 1.0), ("b", 4.0))]
    rows += [line("option:scip", s, t) for s, t in (("a", 2.0), ("b", 2.5))]
    rows += [line("column:scip", "a", 0.1), line("column:scip", "b", 0.1, solved=False)]
    rows += [line("option:highs", "c", 100.0)]  # of which the others have nothing
    found = profiles(rows, "machine")
    assert found["column:scip"] == [0.5] * len(FACTORS)
    assert found["option:scip"][0] == 0.5 and found["option:scip"][-1] == 1.0
    assert found["option:highs"][:2] == [0.0, 0.5]
    pairs = ["option:highs", "option:scip", "column:scip"]
    assert recommend(rows, pairs) == {"machine": {"1-3": "option:scip"}}
    assert recommend(rows, ["option:highs", "column:scip"]) == {
        "machine": {"1-3": "option:highs"}
    }  # the other solves less


def test_the_best_of_the_sample_and_the_default_go_on() -> None:
    seconds = {
        "option:highs": 4.0,
        "option:scip": 2.0,
        "boxes:combinatorial": 1.0,
        "compact:highs": 3.0,
        "default:auto": 9.0,
    }
    rows = [line(pair, seconds=taken) for pair, taken in seconds.items()] + [
        line("column:scip", seconds=0.1, solved=False)
    ]
    rows += [line("bisection:combinatorial", cost_model="published")]
    going_on = ["option:scip", "boxes:combinatorial", "compact:highs", "default:auto", "bisection:combinatorial"]
    assert finalists(rows, "default:auto") == going_on
    rows += [
        line("compact:highs", "b", 0.5),
        line("option:highs", "b", 0.1),
    ]  # to which the other finalists did not come
    assert recommend(rows, going_on)["machine"] == {"1-3": "boxes:combinatorial"}


def test_what_was_not_reached_is_missing_and_the_rest_is_told() -> None:
    rows = [
        line("default:auto"),
        line("option:highs"),
        {"segment": "b", "form": "option", "solver": "highs", "missing": "stopped"},
    ]
    summary = summarize(rows, "default:auto", ["default:auto", "option:highs"])
    assert summary["missing"] == 1 and summary["disagreements"] == []
    assert [(t["size"], t["met"]) for t in summary["targets"]] == [("1-3", False), ("4-7", False), ("8-12", False)]
    assert "recommended for machine, 1-3 operators: default:auto" in tables(rows, summary)
    assert tables([], summarize([], "default:auto", []))


def test_a_pair_that_has_no_result_says_why() -> None:
    class Broken(BoxesPair):
        def run(self, segment: HarvestedSegment, limit: float, seed: int) -> Run:
            raise SolverFailure("its process was killed")

    row = Measurer([1.0, 2.0], seed=0).measure(Task(SMALL, Broken()))
    assert (row["missing"], row["size"]) == ("its process was killed", "1-3")


def test_a_run_on_a_few_segments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = ["boxes:combinatorial", "option:highs"]
    arguments = [
        "ablation",
        "--part",
        "segments",
        "--n",
        "3",
        "--limit",
        "20",
        "--out",
        str(tmp_path),
        "--only",
        *pairs,
    ]
    assert main(arguments) == 0
    found = json.loads((tmp_path / "ablation-segments.json").read_text())
    assert [row["size"] for row in found["rows"]] == [size for size in SIZES for _ in pairs]
    assert all(row["solved"] and row["root_bound"] <= row["objective"] * (1 + 1e-6) for row in found["rows"])
    assert set(found["rows"][0]["gaps"]) == {"1", "10", "20"}
    assert found["parameters"]["default"] == default_settings()
    assert "cost model machine" in capsys.readouterr().out


def test_a_disagreement_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lying(BoxesPair):
        def run(self, segment: HarvestedSegment, limit: float, seed: int) -> Run:
            honest = super().run(segment, limit, seed)
            assert honest.cost is not None
            return Run("optimal", 0.0, honest.solve, honest.cost * 2, float(honest.cost * 2))

    lying = Lying()
    lying.form = "lying"
    monkeypatch.setitem(PAIRS, lying.name, lying)
    arguments = ["ablation", "--part", "segments", "--n", "1", "--out", str(tmp_path)]
    assert main([*arguments, "--only", "boxes:combinatorial", lying.name]) == 1
    assert main([*arguments, "--only", "boxes:combinatorial"]) == 0


def test_agreement_counts_what_each_pair_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["ablation", "--part", "agreement", "--n", "2", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*arguments, "--only", "boxes:combinatorial", "option:highs", "bisection:combinatorial"]) == 0
    found = json.loads((tmp_path / "ablation-agreement.json").read_text())
    assert [(row["form"], row["segments"], row["neither"]) for row in found["rows"]] == [
        ("boxes", 2, 0),
        ("option", 2, 0),
        ("bisection", 2, 0),
    ]
    solved = {row["form"]: row["solved"] for row in found["rows"]}
    assert solved["bisection"] == 2 and solved["boxes"] >= 1
    assert found["summary"]["reached"] == 2 and found["summary"]["disagreements"] == []
    assert found["parameters"]["default"] == default_settings()
    assert "disagreements: 0" in capsys.readouterr().out


def test_agreement_fails_where_two_pairs_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: object) -> list[Row]:
        return [line("boxes:combinatorial"), line("option:highs", objective=101.0)]

    monkeypatch.setattr(agreement, "_measured", measured)
    assert main(["ablation", "--part", "agreement", "--n", "1", "--out", str(tmp_path)]) == 1
    found = json.loads((tmp_path / "ablation-agreement.json").read_text())
    assert found["summary"]["disagreements"] == ["a: option:highs ends at 101, boxes:combinatorial at 100"]
    assert found["summary"]["compared"] == {"machine": 1}


def test_the_recorded_agreement_is_of_all_pairs_on_all_segments() -> None:
    found = json.loads((RECORD.parent / "ablation-agreement.json").read_text())
    assert [f"{row['form']}:{row['solver']}" for row in found["rows"]] == list(PAIRS)
    assert {row["segments"] for row in found["rows"]} == {len(read_segments())}
    assert found["summary"]["disagreements"] == []
    assert found["parameters"]["default"] == default_settings()


def test_a_run_that_is_stopped_begins_no_other_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> list[Row]:
        return [line("boxes:combinatorial")]  # of one segment

    monkeypatch.setattr(agreement, "_measured", stopped)
    assert main(["ablation", "--n", "2", "--out", str(tmp_path)]) == 1
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["ablation-agreement.json"]


def test_an_interrupt_before_the_first_result_leaves_a_record_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> list[Row]:
        return []

    monkeypatch.setattr(agreement, "_measured", interrupted)
    assert main(["ablation", "--part", "agreement", "--n", "2", "--out", str(tmp_path)]) == 130
    assert not list(tmp_path.iterdir())
    assert "interrupted; nothing was recorded" in capsys.readouterr().err


def test_forms_are_shown_side_by_side_on_the_same_segments() -> None:
    rows = [line("default:auto", "a"), line("option:highs", "a"), line("default:auto", "b", 9.0)]
    rows += [line(pair, "a", cost_model="published") for pair in ("literal:highs", "throughput:scip")]
    text = tables(rows, summarize(rows, "default:auto", ["default:auto"]))
    assert "1.000 (1 of 1, auto)" in text and "of 2, auto" not in text


def test_pairs_that_find_nothing_are_told_of() -> None:
    rows = [line(pair, objective=0.0, solved=False, gaps={}) for pair in ("option:highs", "option:scip")]
    rows = [{**row, "objective": None, "exact": None} for row in rows]
    assert "recommended for machine" in tables(rows, summarize(rows, "default:auto", ["option:highs"]))


def test_searches_take_no_segments(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["ablation", "--part", "searches", "--n", "3", "--out", "o"])
    assert "--only and --n choose pairs and segments" in capsys.readouterr().err


def test_a_pair_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["ablation", "--only", "option:hihgs", "--out", "o"])
    assert "unknown pair 'option:hihgs' (did you mean 'option:highs'" in capsys.readouterr().err


def test_the_default_follows_the_recorded_recommendation() -> None:
    """The record is about the present default, its advice follows from its rows, and the default is what it advises: itself,
    or what it begins with on segments of that size."""
    found = json.loads(RECORD.read_text())
    assert found["parameters"]["default"] == default_settings()
    summary = found["summary"]
    assert (summary["default"], summary["disagreements"]) == (DEFAULT.name, [])
    assert summary["recommendation"] == recommend(found["rows"], summary["finalists"])
    advice = summary["recommendation"]["machine"]
    assert set(advice) == set(SIZES)
    for size, counts in SIZES.items():
        first = {"boxes:combinatorial" if n <= solving.MOST_COMBINATORIAL else f"option:{solving.MILP}" for n in counts}
        assert advice[size] == DEFAULT.name or first == {advice[size]}, size
    assert set(summary["recommendation"]["published"].values()) == {
        "bisection:combinatorial"
    }  # as Allocator.solve_eq10
    held = [sum(s.size == size for s in read_segments()) for size in SIZES]
    assert [(t["segments"], t["solved"], t["met"]) for t in summary["targets"]] == [(n, n, True) for n in held]
