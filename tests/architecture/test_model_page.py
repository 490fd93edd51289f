"""formulations/MODEL.md has the equations of the docstrings, under the same ids; and no program is missing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "formulations"
SECTION = re.compile(r"^### `(\w+)`\n(.*?)^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {match[1]: match[3] for match in SECTION.finditer((PACKAGE / "MODEL.md").read_text(encoding="utf-8"))}
TREES = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.glob("*.py")}
PROGRAMS = {
    name
    for name, tree in TREES.items()
    if any(isinstance(node, ast.FunctionDef) and node.name.startswith("build_") for node in tree.body)
}


def equations(docstring: str) -> list[str]:
    """The objective and the numbered rows: the indented block from ``minimise`` on, blanks made equal."""
    lines = docstring.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("    minimise"))
    after = [n for n, line in enumerate(lines) if n > first and line.strip() and not line.startswith("    ")]
    return [" ".join(line.split()) for line in lines[first : min(after, default=len(lines))] if line.strip()]


def ids(rows: list[str]) -> list[str]:
    """The ids of numbered rows, in order."""
    return [match[1] for row in rows if (match := re.match(r"\((\d+)\)", row))]


def test_every_program_has_a_section() -> None:
    assert set(SECTIONS) == PROGRAMS


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_equations_and_ids_are_those_of_the_docstring(name: str) -> None:
    own = equations(ast.get_docstring(TREES[name], clean=False) or "")
    shown = [" ".join(line.split()) for line in SECTIONS[name].splitlines() if line.strip()]
    assert ids(own) == sorted(set(ids(own)), key=int) and ids(own)
    assert ids(shown) == ids(own)
    assert shown == own, "change the docstring and formulations/MODEL.md together"
