"""Every mistake on the command line: exit code, pinned message, nothing on stdout, nothing written, no traceback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str]]
SOLVE = ("solve", "zoo:resnet18", "--hw", "dynaplasia")
HINT = "see 'cmswitch solve --help'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--schedule", "dualmode"],
            "argument --schedule: unknown value 'dualmode' "
            "(did you mean 'dual-mode'? choose from dual-mode, all-compute, static)",
        ),
        (
            ["--schedule", "puma"],
            "argument --schedule: 'puma' is not in this version, which has: dual-mode, all-compute, static",
        ),
        (["--objective", "edp"], "argument --objective: 'edp' is not in this version, which has: latency"),
        (["--phase", "decode"], "argument --phase: 'decode' is not in this version, which has: prefill"),
        (
            ["--level", "mvm"],
            "argument --level: not in this version: there is no multi-level scheduler to stop early; leave the option out",
        ),
        (
            ["--past", "5"],
            "argument --past: not in this version: it belongs to --phase decode, and this version has: prefill; "
            "leave the option out",
        ),
        (
            ["--solver", "higs"],
            "argument --solver: unknown value 'higs' (did you mean 'highs'? choose from auto, combinatorial, brute-force, "
            "cp-sat, highs, highs-pyomo, scip)",
        ),
        (
            ["--formulation", "auot"],
            "argument --formulation: unknown value 'auot' (did you mean 'auto'? choose from auto)",
        ),
        (
            ["--cost-model", "machin"],
            "argument --cost-model: unknown value 'machin' (did you mean 'machine'? choose from machine, eq10)",
        ),
        (
            ["--weights", "warm"],
            "argument --weights: unknown value 'warm' (choose from cold, resident)",
        ),
        (["--shedule", "static"], "unexpected argument '--shedule' (did you mean '--schedule'?)"),
        (["--sched", "static"], "unexpected argument '--sched' (did you mean '--schedule'?)"),
        (["second.onnx"], "unexpected argument 'second.onnx'"),
        (["--threads"], "argument --threads: expected one argument"),
        (["--out", ""], "argument --out: expected a folder, got nothing"),
        (["--dim", "batch"], "argument --dim: expected NAME=VALUE, for example batch=1, got 'batch'"),
        (["--dim", "=4"], "argument --dim: expected NAME=VALUE, for example batch=1, got '=4'"),
        (["--dim", "batch=1", "--dim", "batch=2"], "argument --dim: 'batch' is given as 1 and as 2"),
        (["--value", "sr"], "argument --value: expected NAME=VALUE with a number, for example sr=16000, got 'sr'"),
        (["--value", "=4"], "argument --value: expected NAME=VALUE with a number, for example sr=16000, got '=4'"),
        (
            ["--value", "sr=nan"],
            "argument --value: expected NAME=VALUE with a number, for example sr=16000, got 'sr=nan'",
        ),
        (["--value", "sr=1", "--value", "sr=2"], "argument --value: 'sr' is given as 1 and as 2"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options(refused: Run, options: list[str], message: str) -> None:
    assert refused(*SOLVE, *options) == (2, f"cmswitch solve: error: {message}\n{HINT}\n")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e999", "soon", ""])
def test_time_limit_must_be_positive_and_finite(refused: Run, value: str) -> None:
    code, err = refused(*SOLVE, f"--time-limit={value}")
    assert (code, err.splitlines()[0]) == (
        2,
        f"cmswitch solve: error: argument --time-limit: expected a number of seconds above 0, got '{value}'",
    )


@pytest.mark.parametrize("value", ["-0.1", "1", "nan", "inf", "1%"])
def test_gap_must_be_a_fraction(refused: Run, value: str) -> None:
    code, err = refused(*SOLVE, f"--gap={value}")
    assert (code, err.splitlines()[0]) == (
        2,
        f"cmswitch solve: error: argument --gap: expected a fraction from 0 to below 1 (0.001 is 0.1 %), got '{value}'",
    )


@pytest.mark.parametrize(
    ("option", "smallest", "largest", "value"),
    [
        ("--threads", 1, 1024, "0"),
        ("--threads", 1, 1024, "1.5"),
        ("--seed", 0, 2147483647, "-1"),
        ("--seed", 0, 2147483647, "9" * 5000),
        ("--batch", 1, 2147483647, "0"),
        ("--batch", 1, 2147483647, "-8"),
        ("--seq", 1, 2147483647, "nan"),
        ("--seq", 1, 2147483647, "1_000"),
    ],
)
def test_whole_numbers(refused: Run, option: str, smallest: int, largest: int, value: str) -> None:
    code, err = refused(*SOLVE, option, value)
    expected = f"argument {option}: expected a whole number from {smallest} to {largest}, got '{value}'"
    assert (code, err.splitlines()[0]) == (2, f"cmswitch solve: error: {expected}")


@pytest.mark.parametrize("size", ["-1", "x", ""])
def test_dimension_sizes(refused: Run, size: str) -> None:
    code, err = refused(*SOLVE, "--dim", f"batch={size}")
    expected = f"argument --dim: dimension 'batch': expected a whole number from 0 to 2147483647, got '{size}'"
    assert (code, err.splitlines()[0]) == (2, f"cmswitch solve: error: {expected}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "cmswitch: error: the following arguments are required: COMMAND"),
        (
            ["sovle"],
            "cmswitch: error: unknown command 'sovle' "
            "(did you mean 'solve'? choose from solve, simulate, check, verify, inspect, hw)",
        ),
        (
            ["bake", "m"],
            "cmswitch: error: unknown command 'bake' (choose from solve, simulate, check, verify, inspect, hw)",
        ),
        (["solve", "--hw", "prime"], "cmswitch solve: error: the following arguments are required: MODEL"),
        (["solve", "zoo:resnet18"], "cmswitch solve: error: the following arguments are required: --hw"),
        (
            ["hw", "validat"],
            "cmswitch hw: error: unknown command 'validat' (did you mean 'validate'? choose from validate, schema)",
        ),
    ],
    ids=" ".join,
)
def test_commands(refused: Run, arguments: list[str], message: str) -> None:
    code, err = refused(*arguments)
    assert (code, err.splitlines()[0]) == (2, message)


def test_out_beneath_a_file(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert refused(*SOLVE, "--out", "file/below/it") == (
        2,
        "cmswitch: error: --out file/below/it: 'file' is a file, not a folder; choose another place\n",
    )
    assert refused(*SOLVE, "--out", "file")[0] == 2


def test_out_over_an_input(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("not a network, but the user's")
    assert refused("solve", "plan.json", "--hw", "dynaplasia", "--out", ".") == (
        2,
        "cmswitch: error: --out .: 'plan.json' is an input and would be overwritten; choose another place\n",
    )


def test_out_where_a_folder_has_the_name(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "to" / "plan.json").mkdir(parents=True)
    assert refused(*SOLVE, "--out", "to") == (
        2,
        "cmswitch: error: --out to: 'to/plan.json' is a folder, but a file of that name has to be written\n",
    )


def test_a_closed_pipe_is_not_an_error() -> None:
    script = f"{sys.executable} -m cmswitch hw schema | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("0", "141")
    assert done.stderr == ""


def test_a_full_disk_on_stdout() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m cmswitch hw schema > /dev/full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "cmswitch: error: No space left on device\n")


def test_module_forms_agree(tmp_path: Path) -> None:
    for form in (["cmswitch.solve"], ["cmswitch", "solve"]):
        done = subprocess.run([sys.executable, "-m", *form, "m.onnx"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"cmswitch solve: error: the following arguments are required: --hw\n{HINT}\n"
