"""Files of one run are written together or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cmswitch.errors import InputError
from cmswitch.output import OutputFolder


def test_writes_all_and_replaces_older_ones(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path / "a" / "b", ("x", "y"))
    assert not (tmp_path / "a").exists()
    folder.write({"x": "1\n", "y": "2\n"})
    folder.write({"x": "3\n", "y": "4\n"})
    assert {p.name: p.read_text() for p in (tmp_path / "a" / "b").iterdir()} == {"x": "3\n", "y": "4\n"}


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("old")
    folder = OutputFolder(tmp_path, ("x", "y"))
    written: list[int] = []

    def full(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot write: No space left on device"):
        folder.write({"x": "new", "y": "new"})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"x": "old"}


def test_a_failure_leaves_no_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        OutputFolder(tmp_path / "a" / "b", ("x",)).write({"x": "1"})
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "x").symlink_to(tmp_path / "model")
    OutputFolder(tmp_path / "o", ("x",), [tmp_path / "model"]).write({"x": "1"})
    assert (tmp_path / "model").read_text() == "mine"


@pytest.mark.parametrize("place", ["file", "file/below", "file/../file/x", "link/x"])
def test_refused_places(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="not a folder; choose another place"):
        OutputFolder(tmp_path / place, ("x",))
