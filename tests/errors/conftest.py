"""A command that must be refused, for the tests of messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cmswitch.cli import main

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command that must fail in an otherwise empty folder; returns the exit code and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        before = sorted(tmp_path.rglob("*"))
        contents = {p: p.read_bytes() for p in before if p.is_file()}
        code = main(arguments)
        out, err = capsys.readouterr()
        assert out == ""
        assert sorted(tmp_path.rglob("*")) == before
        assert {p: p.read_bytes() for p in before if p.is_file()} == contents
        assert "Traceback" not in err
        return code, err

    return run
