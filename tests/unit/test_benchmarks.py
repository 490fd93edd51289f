"""The benchmarks' machinery on one tiny network: processes, figures, verdicts, records."""

from __future__ import annotations

import json
import re
import resource
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from benchmarks import accuracy, compile_time, record, sensitivity, verification
from benchmarks.__main__ import BENCHMARKS, COMMANDS, main
from benchmarks.networks import MINILM, MODELS_VARIABLE, NAMES, UsageError, find_cases
from benchmarks.runner import Answer, Compiled, SegmentCycles, run_python
from benchmarks.settings import Outcome, Settings
from cmswitch.graph.zoo.maker import Maker

PLAN = Compiled(
    schedule="dual-mode",
    schedule_used="dual-mode",
    termination="optimal",
    gap=0.0,
    predicted_cycles=1000,
    bound_cycles=1000,
    simulated_cycles=1020,
    roofline_cycles=500,
    memory_fraction=0.25,
    segments=(SegmentCycles(400, 400, 500, 500), SegmentCycles(380, 400, 500, 520)),
    plan_sha256="a",
    program_sha256="b",
    violations=(),
)
COMPUTE = replace(PLAN, schedule="all-compute", simulated_cycles=1530)
NOT_THE_RECORD = (
    " is not the run that benchmarks/results records; give --out DIR, for example --out trial "
    "(--out benchmarks/results replaces the record)"
)
SAME = Answer({"dual-mode": PLAN})


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    maker = Maker("tiny")
    hidden = maker.node("MatMul", "up", maker.input("tokens", [1, 1024, 64]), maker.weight("up.weight", 64, 96))
    model = maker.model(maker.node("MatMul", "down", hidden, maker.weight("down.weight", 96, 64)))
    onnx.save(model, tmp_path / "tiny.onnx")
    return str(tmp_path / "tiny.onnx")


def test_a_whole_run_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that is no whole run where it is told to."""
    given: list[Path] = []
    monkeypatch.chdir(tmp_path)

    def publish(outcome: Outcome, folder: Path, name: str, seed: int) -> int:
        given.append(folder)
        return 0

    monkeypatch.setattr(Outcome, "publish", publish)
    outcome = Outcome((), {}, "", (1, 1), lambda figure: None, False, {})
    monkeypatch.setitem(BENCHMARKS, "accuracy", replace(BENCHMARKS["accuracy"], run=lambda settings: outcome))
    assert main(["accuracy"]) == 0
    assert main(["accuracy", "--quick", "--out", "benchmarks/results"]) == 0
    assert main(["accuracy", "--quick", "--out", "trial"]) == 0
    assert given == [Path("benchmarks/results"), Path("benchmarks/results"), Path("trial")]


def test_help_says_what_each_measures_and_explains_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, one in (BENCHMARKS | COMMANDS).items():
        assert one.about in shown
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        options = capsys.readouterr().out.split("options:\n")[1]
        assert all(len(option.split()) > 4 for option in re.split(r"\n  (?=-)", options)), options


def test_accuracy_of_a_tiny_network(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["accuracy", "--networks", tiny, "--chips", "dynaplasia", "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("network ")
    assert "error on execute phases: mean" in shown.out
    assert "accuracy [1/1] tiny dynaplasia" in shown.err
    found = json.loads((tmp_path / "out" / "accuracy.json").read_text())
    (row,) = found["rows"]
    assert (found["name"], found["seed"], found["parameters"]["time_limit"]) == ("accuracy", 0, 60.0)
    assert (row["network"], row["identical"], row["fails"]) == ("tiny", "yes", [])
    assert row["simulated_cycles"] >= row["roofline_cycles"] > 0
    assert sum(segment[1] for segment in row["segments"]) == row["simulated_execute_cycles"]


def test_compile_time_of_a_tiny_network(tiny: str) -> None:
    case = find_cases([tiny])[0]
    row = compile_time.measure(compile_time.Line(case, "dynaplasia"), Settings([case], ["dynaplasia"], 60, True))
    seconds = {name: row[f"{name}_seconds"] for name in compile_time.ACTIVITIES}
    assert all(isinstance(value, float) for value in seconds.values())
    assert float(str(row["cpu_seconds"])) > float(str(seconds["total"]))
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6  # by its parent, which counts too
    assert 20 < float(str(row["peak_mb"])) < held + 500
    assert row["termination"] in ("optimal", "gap")


def test_verification_of_a_tiny_network(tiny: str) -> None:
    """Weights of another number of copies or places give other programs; one that is the same is not executed again."""
    outcome = verification.run(Settings(find_cases([tiny]), ["dynaplasia"], 10, True))
    assert not outcome.failed
    assert [row["schedule"] for row in outcome.rows] == [schedule for schedule, _ in verification.RUNS]
    assert {(row["products"], row["exact_products"]) for row in outcome.rows} == {(2, 2)}
    assert all((row["program_as"] is None) == (row["cpu_seconds"] is not None) for row in outcome.rows)
    assert "dual-mode" in [row["program_as"] for row in outcome.rows]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"exact_operators": 1, "first_deviation": "up"}, "first to deviate: up"),
        ({"error": "read before written"}, "stopped: read before written"),
        ({"products": 0}, "no product was executed"),
        ({"importer_error": 0.1}, "importer differs by 0.1"),
        ({"missing": "killed", "failed": True}, "no result: killed"),
    ],
)
def test_a_verification_that_fails_says_why(change: dict[str, object], why: str) -> None:
    row = {
        "operators": 2,
        "exact_operators": 2,
        "products": 2,
        "error": None,
        "first_deviation": None,
        "importer_error": 0.0,
    }
    assert verification.broken_rules(row) == []
    assert verification.broken_rules({**row, **change}) == [why]


def test_a_failure_is_a_row_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    case = find_cases([str(tmp_path / "bad.onnx")])[0]
    settings = Settings([case], ["dynaplasia"], 60, True)
    row = compile_time.measure(compile_time.Line(case, "dynaplasia"), settings)
    assert row["failed"] is True
    assert "exit code 2" in str(row["missing"]) and "not an ONNX model" in str(row["missing"])
    outcome = accuracy.run(settings)
    assert outcome.failed
    assert "missing: InputError: " in outcome.text
    assert "FAIL bad on dynaplasia (line_buffer): no result" in outcome.text


def test_a_model_that_is_not_there_is_missing_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODELS_VARIABLE, raising=False)
    outcome = accuracy.run(Settings(find_cases([MINILM]), ["dynaplasia"], 60, True))
    assert not outcome.failed
    assert f"missing: {MODELS_VARIABLE} is not set" in outcome.text


def test_every_named_network_but_minilm_has_a_model() -> None:
    assert [case.name for case in find_cases(NAMES) if case.model is None and case.name != MINILM] == []
    with pytest.raises(UsageError, match="did you mean 'zoo:vgg16'"):
        find_cases(["zoo:vgg"])


def test_a_process_is_measured() -> None:
    used = run_python(["-c", "import sys; data = bytearray(200_000_000); print(sys.stdin.read())"], "hello")
    assert (used.stdout, used.failure) == ("hello\n", None)
    assert used.peak_mb > 200  # more if the process that started it is larger: the kernel counts from the fork on
    assert 0 < used.cpu_seconds < 60


def test_a_process_that_fails_or_takes_too_long_says_so() -> None:
    assert run_python(["-c", "import sys; sys.exit('no luck')"]).failure == "exit code 1: no luck"
    endless = run_python(["-c", "import time; time.sleep(60)"], timeout=0.3)
    assert endless.failure is not None and endless.failure.startswith("killed after")
    assert endless.seconds < 30


def test_a_line_that_holds_everything() -> None:
    found = accuracy.judge({"dual-mode": PLAN, "all-compute": COMPUTE}, SAME)
    assert found["fails"] == []
    assert found["speedup"] == 1.5
    assert found["total_error"] == pytest.approx(-20 / 1020)
    assert found["execute_error"] == pytest.approx(-20 / 800)
    assert found["worst_segment_error"] == pytest.approx(-0.05)


@pytest.mark.parametrize(
    ("plan", "again", "rule"),
    [
        (replace(PLAN, predicted_cycles=1200), SAME, "total error above 8 %"),
        (replace(PLAN, segments=(SegmentCycles(300, 400, 1, 1),)), SAME, "execute error above 8 %"),
        (replace(PLAN, roofline_cycles=1021), SAME, "faster than the roofline"),
        (replace(PLAN, bound_cycles=1001), SAME, "bound above the plan"),
        (replace(PLAN, violations=("too many arrays",)), SAME, "plan checker"),
        (replace(PLAN, plan_sha256="c"), SAME, "two runs differ"),
        (PLAN, Answer(failure="crashed"), "two runs differ"),
    ],
)
def test_each_rule_can_fail(plan: Compiled, again: Answer, rule: str) -> None:
    assert accuracy.judge({"dual-mode": plan, "all-compute": COMPUTE}, again)["fails"] == [rule]


def test_a_dual_mode_plan_may_not_be_slower_than_all_compute() -> None:
    slower = {"dual-mode": PLAN, "all-compute": replace(COMPUTE, simulated_cycles=1019)}
    assert accuracy.judge(slower, SAME)["fails"] == ["slower than all-compute"]
    unfinished = {**slower, "dual-mode": replace(PLAN, termination="time_limit")}
    assert accuracy.judge(unfinished, None)["fails"] == []


def test_runs_that_the_time_limit_ends_are_not_compared() -> None:
    other = Answer({"dual-mode": replace(PLAN, termination="time_limit", plan_sha256="c")})
    for again in (other, None):
        found = accuracy.judge({"dual-mode": PLAN, "all-compute": COMPUTE}, again)
        assert (found["identical"], found["fails"]) == (None, [])


def test_the_mean_error_has_a_bar() -> None:
    row = {
        "network": "n",
        "chip": "c",
        "input_reuse": "expanded",
        "total_error": -0.05,
        "execute_error": 0.01,
        "fails": [],
    }
    summary = accuracy.summarize([row, {**row, "total_error": 0.02}])
    assert summary["mean_total_error"] == pytest.approx(0.035)
    assert summary["worst_total_error"] == 0.05
    assert summary["failures"] == ["all lines: mean error on total above 3 %"]


@pytest.mark.parametrize("chip", sensitivity.SWEEPS)
def test_every_assumption_includes_the_preset(chip: str) -> None:
    import hw

    preset = hw.load_chip(chip)
    for changes in sensitivity.SWEEPS[chip].values():
        assert [preset.with_changes(**change).sha256 for change in changes].count(preset.sha256) == 1


def test_a_value_that_the_preset_has_is_compiled_once(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = []

    def compile_job(job: object) -> Answer:
        jobs.append(job)
        return Answer({"dual-mode": PLAN, "all-compute": COMPUTE})

    monkeypatch.setattr(sensitivity, "compile_job", compile_job)
    outcome = sensitivity.run(Settings(find_cases([tiny]), ["dynaplasia"], 60, quick=False))
    assumptions = sensitivity.SWEEPS["dynaplasia"]
    assert len(outcome.rows) == sum(map(len, assumptions.values()))
    assert len(jobs) == len(outcome.rows) - len(assumptions) + 1
    assert {row["gain"] for row in outcome.rows} == {1.5}


def test_a_table_shows_missing_results() -> None:
    columns = (record.Column("name", "name"), record.Column("time", "time", record.cycles))
    rows: list[record.Row] = [
        {"name": "one", "time": 1234},
        {"name": "three", "missing": "no file"},
        {"name": "two", "time": None},
    ]
    assert record.table(columns, rows).splitlines() == [
        "name    time",
        "one    1,234",
        "three  missing: no file",
        "two        -",
    ]


def test_without_matplotlib_there_is_no_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(record, "import_module", refuse)
    assert not record.write_plot(tmp_path / "accuracy.png", (1, 1), lambda figure: None)
    assert "no accuracy.png: matplotlib is not installed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["accuracy", "--networks", "lenet", "--out", "o"], "unknown network 'lenet'"),
        (["accuracy", "--chips", "nonesuch", "--out", "o"], "nonesuch"),
        (["accuracy", "--networks", "zoo:vgg16", "--out", __file__], "is a file, not a folder"),
        (["operators", "--chips", "prime", "--out", "o"], "operators takes no --networks and no --chips"),
        (["compile_time", "--quick", "--time-limit", "3"], f"compile_time with --time-limit, --quick{NOT_THE_RECORD}"),
        (["accuracy", "--chips", "prime"], f"accuracy with --chips{NOT_THE_RECORD}"),
        (["fuzz", "--n", "3", "--jobs", "1"], f"fuzz with --n{NOT_THE_RECORD}"),
        (["ablation", "--part", "searches", "--limit", "3"], f"ablation with --limit{NOT_THE_RECORD}"),
        (["speed"], "invalid choice: 'speed'"),
        (["accuracy", "--time-limit", "0"], "expected a number of seconds above 0"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leave:
        main(arguments)
    assert leave.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["accuracy", "fuzz", "ablation"])
def test_records_beneath_a_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SystemExit) as leave:
        main([name, "--out", f"{file}/below"])
    assert leave.value.code == 2
    expected = f"error: --out {file}/below: '{file}' is a file, not a folder; choose another place\n"
    assert capsys.readouterr().err.endswith(expected)
