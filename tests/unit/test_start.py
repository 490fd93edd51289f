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


def test_an_interrupt_while_the_command_line_loads_is_quiet(tmp_path: Path) -> None:
    """``cmswitch.cli`` is replaced by a module that interrupts its own import."""
    script = (
        "import importlib.abc, importlib.machinery, signal, sys\n"
        "class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        return importlib.machinery.ModuleSpec(name, self) if name == 'cmswitch.cli' else None\n"
        "    def exec_module(self, module):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run with Ctrl-C ignored\n"
        "from cmswitch.start import start\n"
        "start()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
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
    assert "this is the best plan so far" in err
    assert "stopped by interrupted" in out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(SOLVE_FILES)
