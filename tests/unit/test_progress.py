"""The progress bar writes to a terminal only."""

from __future__ import annotations

import io
import sys

import pytest

from cmswitch.progress import ProgressBar


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def drive(stream: io.StringIO, shown: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a bar writes for two states of a search."""
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressBar(shown) as bar:
        bar.announce("reading m.onnx")
        bar("dual-mode", float("inf"), 10.0)
        bar("dual-mode", 1000.0, 990.0)
    return stream.getvalue()


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = drive(Terminal(), True, monkeypatch)
    assert "reading m.onnx:" in text
    assert "no plan yet, bound 10 cycles" in text
    assert "best 1,000, gap 1.00 %, bound 990 cycles" in text


def test_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drive(Terminal(), False, monkeypatch) == ""
    assert drive(io.StringIO(), True, monkeypatch) == ""
