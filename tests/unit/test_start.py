"""The process around the command line: signals while it loads and while it solves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cmswitch.commands import SOLVE_FILES

SOLVE = [sys.executable, "-m", "cmswitch", "solve", "zoo:bert-large", "--hw", "dynaplasia", "--gap", "0"]


SIGNALS = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
LOADING = """
import importlib.abc, importlib.machinery, sys
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == 'cmswitch.cli' else None
    def exec_module(self, module):
        signal.raise_signal({number})
        module.main = lambda arguments: 0
sys.meta_path.insert(0, Finder())
"""
"""Replaces ``cmswitch.cli`` by a module that interrupts its own import."""
INSPECTING = """
import sys
from cmswitch import commands
commands.inspect = lambda *given: signal.raise_signal({number})
sys.argv[1:] = ['inspect', 'zoo:resnet18']
"""


def run(script: str, number: signal.Signals, handling: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a process that handles ``number`` like ``handling`` when it starts."""
    lines = (
        "import signal",
        f"signal.signal({number.value}, signal.{handling})",  # whatever the tests were started with
        script.format(number=number.value),
        "from cmswitch.start import start",
        "sys.exit(start())",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@SIGNALS
@pytest.mark.parametrize("script", [LOADING, INSPECTING], ids=["loading", "inspecting"])
def test_a_signal_before_there_is_a_result_is_told_in_a_line(script: str, number: signal.Signals, code: int) -> None:
    handling = "default_int_handler" if number is signal.SIGINT else "SIG_DFL"
    assert run(script, number, handling) == (code, "", "cmswitch: interrupted before there was a result\n")


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    assert run(LOADING, signal.SIGTERM, "SIG_IGN") == (0, "", "")


@SIGNALS
def test_a_signal_while_solving_keeps_the_best_plan(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = subprocess.Popen(
        [*SOLVE, "--out", str(tmp_path / "out"), "-v"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "operators" in line:  # the network is read, what follows is the compilation
            break
    time.sleep(4)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code
    assert "Traceback" not in err
    assert "stopping with the best plan so far; the next Ctrl-C ends it without one" in err
    assert "this is the best plan so far" in err
    assert "stopped by interrupted" in out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(SOLVE_FILES)
