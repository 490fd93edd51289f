"""The import contracts of pyproject.toml hold, and the command line starts without heavy packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]
HEAVY = ("pyomo", "onnx", "highspy", "ortools", "numpy", "pydantic", "simpy", "networkx")


def test_import_contracts_hold(capsys: pytest.CaptureFixture[str]) -> None:
    code = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)
    assert code == 0, capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from cmswitch.cli import main; code = main(['solve', '--help']); "
        f"sys.exit(code or ' '.join(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stderr.strip() == ""
    assert "--schedule" in done.stdout
