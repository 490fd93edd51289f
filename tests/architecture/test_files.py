"""Files stay small, and nothing that a run or an editor leaves behind is part of the project."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = 500
LARGEST_BYTES = 1_000_000
STRAY = re.compile(r"(^|/)(__pycache__|out|build|dist)/|\.(pyc|orig|rej|tmp|bak|swp|log|lp|mps)$|~$|\.DS_Store$")
GENERATED = re.compile(r"^(out|build|dist)/|(^|/)(\.[^/]*|__pycache__|[^/]*\.egg-info)/")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")


def project_files() -> list[Path]:
    """Files under version control or about to be; without git, those that are not hidden or generated."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        return [ROOT / name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]
    found = [p for p in ROOT.rglob("*") if p.is_file()]
    return [p for p in found if not GENERATED.search(str(p.relative_to(ROOT)))]


PYTHON_FILES = [p for p in project_files() if p.suffix == ".py"]


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < MOST_LINES
    assert not UNFINISHED.search(text)


def test_no_stray_artefacts() -> None:
    names = [str(p.relative_to(ROOT)) for p in project_files()]
    assert [name for name in names if STRAY.search(name)] == []


def test_no_large_files() -> None:
    assert [p for p in project_files() if p.stat().st_size > LARGEST_BYTES] == []


def test_every_folder_of_a_package_is_in_the_wheel() -> None:
    """A folder without ``__init__.py`` is importable from the tree and missing from the wheel."""
    packages = ("benchmarks", "cmswitch", "formulations", "hw", "solvers")
    folders = {p.parent for p in PYTHON_FILES if p.relative_to(ROOT).parts[0] in packages}
    assert [str(f.relative_to(ROOT)) for f in sorted(folders) if not (f / "__init__.py").is_file()] == []
