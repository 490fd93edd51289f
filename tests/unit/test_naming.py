"""Words of messages: numbers with what they count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cmswitch
from cmswitch.naming import quantity

PLURAL = "arrays|programs|segments|nodes|operators|bytes|rows|columns|chunks|copies|elements|channels|pieces"


def test_one_and_several() -> None:
    assert [quantity(n, "array") for n in (0, 1, 2, 1024)] == ["0 arrays", "1 array", "2 arrays", "1,024 arrays"]
    assert [quantity(n, "copy", "copies") for n in (1, 2)] == ["1 copy", "2 copies"]


@pytest.mark.parametrize("path", sorted(Path(cmswitch.__file__).parent.rglob("*.py")), ids=lambda path: path.stem)
def test_texts_count_by_it(path: Path) -> None:
    """``f"{arrays} arrays"`` is wrong for 1. Cycles of a plan are never few, nor is what is "more than" a limit."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(rf'f"[^"\n]*\{{(?!quantity)[a-z][\w.()\[\] +*]*(?::,)?\}} (?:{PLURAL})\b[^"\n]*"', text)
    assert [line for line in found if "more than" not in line] == []
