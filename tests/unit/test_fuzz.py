"""The fuzzer: its networks compile unbroken, its cases are reproducible, and it notices what it is there to notice."""

from __future__ import annotations

import json
import random
from pathlib import Path

import onnx
import pytest

from benchmarks.__main__ import main
from benchmarks.fuzz import bases, runs
from benchmarks.fuzz.broken_bytes import DAMAGES
from benchmarks.fuzz.broken_chips import CHANGES as CHIP_CHANGES
from benchmarks.fuzz.broken_networks import CHANGES as NETWORK_CHANGES
from benchmarks.fuzz.cases import Case, write_case
from cmswitch.cli import main as cmswitch
from cmswitch.commands import SOLVE_FILES


@pytest.mark.parametrize("name", bases.SMALL)
def test_the_networks_compile_as_they_are(name: str, tmp_path: Path) -> None:
    path = tmp_path / "whole.onnx"
    onnx.save(bases.load(name), path)
    assert cmswitch(["solve", str(path), "--hw", "dynaplasia", *bases.SIZES.get(name, []), "--quiet"]) == 0


def test_a_case_is_the_same_every_time(tmp_path: Path) -> None:
    for number in range(20):
        folders = [tmp_path / f"{number}-{again}" for again in range(2)]
        cases = []
        for folder in folders:
            folder.mkdir()
            cases.append(write_case(3, number, folder, 1.0))
        assert cases[0].changes == cases[1].changes
        contents = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
        assert contents[0] == contents[1]


def test_other_seeds_and_numbers_are_other_cases(tmp_path: Path) -> None:
    written = set()
    for seed, number in ((0, 1), (0, 3), (1, 1)):
        write_case(seed, number, tmp_path, 1.0)
        written.add((tmp_path / "chip.yaml").read_bytes())
    assert len(written) == 3


def test_every_change_can_be_made_again_and_again() -> None:
    chance = random.Random(0)
    for name in bases.SMALL:
        model = bases.load(name)
        for _ in range(300):
            chance.choice(NETWORK_CHANGES)(model, chance)
    lines = ["name: x", "  rows: 5"]
    content = bytearray(b"name: x")
    for _ in range(200):
        chance.choice(CHIP_CHANGES)[0](lines, chance)
        chance.choice(DAMAGES)(content, chance)
        content, lines = content[:1000], [line[:1000] for line in lines[:100]]


def finished(out: Path) -> Case:
    out.mkdir(parents=True)
    for name in SOLVE_FILES:
        (out / name).write_text("{}")
    return Case([], out, "base", [])


def test_a_proper_ending_is_no_failure(tmp_path: Path) -> None:
    assert runs.judge(finished(tmp_path / "out"), 0, "", 1.0, 10.0) == ""
    assert runs.judge(Case([], tmp_path / "none", "base", []), 2, "cmswitch: error: no", 1.0, 10.0) == ""


@pytest.mark.parametrize(
    ("code", "text", "seconds", "why"),
    [
        (70, "cmswitch: internal error: KeyError", 1.0, "exit code 70: cmswitch: internal error: KeyError"),
        (3, "solver", 1.0, "exit code 3: solver"),
        (-11, "", 1.0, "exit code -11: "),
        (0, "Traceback (most recent call last)\nKeyError", 1.0, "traceback: KeyError"),
        (0, "", 11.0, "took 11.0 s"),
        (0, "a\n" * 61, 1.0, "a message of 61 lines"),
        (1, " ", 1.0, "exit code 1 without a message"),
        (2, "no", 1.0, "exit code 2, but in --out: plan.json, program.mop, report.json, trace.json"),
    ],
)
def test_each_rule_can_fail(tmp_path: Path, code: int, text: str, seconds: float, why: str) -> None:
    assert runs.judge(finished(tmp_path / "out"), code, text, seconds, 10.0) == why


def test_partial_output_and_json_that_is_none(tmp_path: Path) -> None:
    case = finished(tmp_path / "out")
    (case.out / "report.json").write_text('{"gap": NaN}')
    assert runs.judge(case, 0, "", 1.0, 10.0) == "report.json is not JSON: it contains NaN"
    (case.out / "report.json").unlink()
    assert runs.judge(case, 0, "", 1.0, 10.0) == "exit code 0, but in --out: plan.json, program.mop, trace.json"


def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--n", "4", "--real", "2", "--jobs", "1", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("input ")
    assert "fuzz [8/8] failures: 0" in shown.err
    found = json.loads((tmp_path / "fuzz.json").read_text())
    assert [(row["input"], row["run"], row["cases"]) for row in found["rows"]] == [
        ("network", "worker", 3), ("network", "command", 1), ("chip", "worker", 3), ("chip", "command", 1),
    ]  # fmt: skip
    assert found["summary"] == {"failures": []}
    assert main(["fuzz", "--case", "3"]) == 0
    assert capsys.readouterr().out.startswith("case 3: ")


def test_a_case_that_takes_too_long_is_killed_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "GRACE_SECONDS", 0.0)
    worker = runs.Worker(runs.Plan(seed=0, time_limit=0.3, case_limit=0.01))  # less than a process takes to start
    try:
        assert worker.run(0, False).why.startswith("killed after")
        monkeypatch.setattr(runs, "GRACE_SECONDS", 300.0)
        assert worker.run(1, False).why.startswith("took ")
        process = worker._process
    finally:
        worker.close()
    assert process is not None
    assert process.exitcode == 0  # by itself: what is killed leaves its semaphores behind
