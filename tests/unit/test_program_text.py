"""The text form of a program: what it looks like, and errors that locate themselves."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from cmswitch.errors import InputError
from cmswitch.program import text
from cmswitch.program.program import After, Allocate, Buffer, Emit, MemoryArrays, Program, Switch, WriteTile
from cmswitch.program.text import Statement, format_arrays, format_program, format_statement, parse_program
from tests.small_programs import CHIP, program, read, segment, stage, tile, to_compute

PAGE = Path(__file__).resolve().parents[2] / "docs" / "program.md"
TEXT = f"""\
program "test"
chip "small" sha256 "{CHIP.sha256}"
weights cold
tensor "x" 8 input
tensor "y" 8 output
tensor "z" 8

segment {{
  mov.store("z")
  CM.switch(TOC, [0..2, 4])
  allocate("z", buffer [0 4, 8 4], window 2)
  allocate("u", arrays [5..6])
  cim.writexb("a", tile 0 0, groups 0 1, bit 0, size 4 4, bytes 16, arrays [0, 2])
  parallel {{
    operator "a" from ["a"] {{
      repeat 4 {{
        load("x", main, 2)
        cim.readxb(rows 8, used 4, copies [0] [2])
        vector.relu("a.relu", 3)
        store("z", [resident, main], 2)
      }}
    }}
    operator "b" from ["b"] {{
      operand after "a" {{
        cim.writexb("b", tile 0 0, groups 0 1, bit 0, size 4 4, bytes 4, arrays [4]) from "z"
      }}
      repeat 2 {{
        load("z", resident, 4) after "a" (2, 1, -1, 3)
        cim.readxb(rows 2, used 4, copies [4])
        store("y", [main], 4)
      }}
    }}
  }}
  free("z")
}}
"""


def example() -> str:
    a = stage("a", 4, [read("x", 2)], [Emit("z", ("resident", "main"), 2)], 8, [(0,), (2,)], 3)
    operand = [tile("b", 4, source="z")]
    fetch = read("z", 4, "resident", After("a", 2, 1, -1, 3))
    b = stage("b", 2, [fetch], [Emit("y", ("main",), 4)], 2, [(4,)], operand=operand, operand_after="a")
    places = [Allocate("z", Buffer(((0, 4), (8, 4))), 2), Allocate("u", MemoryArrays((5, 6)))]
    one = segment([a, b], [tile("a", 0, 2, size=16)], [to_compute(0, 1, 2, 4)], places, ["z"], ["z"])
    return format_program(program([one], {"x": 8}, {"y": 8}, {"z": 8}))


def test_format() -> None:
    assert example() == TEXT


def statements(program: Program) -> Iterator[Statement]:
    """All statements of a program, those within operators too."""
    yield from program.tensors
    for one in program.segments:
        before: Iterable[Statement] = (*one.stores, *one.switches, *one.allocations, *one.writes, *one.frees)
        yield from before
        for operator in one.stages:
            yield operator
            within: Iterable[Statement] = (*operator.operand, *operator.fetches, *operator.vector, *operator.emits)
            yield from within
            if operator.multiply is not None:
                yield operator.multiply


def test_the_page_explains_every_statement_and_no_other() -> None:
    """By the word that each statement starts with."""
    found = list(statements(parse_program(TEXT)))
    assert {type(statement) for statement in found} == set(get_args(Statement)), "TEXT has every statement"
    words = [re.split(r"[( ]", format_statement(statement))[0] for statement in found]
    explained = re.findall(r"^\| `([\w.]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(explained) == sorted({re.sub(r"^vector\..*", "vector", word) for word in words})


def test_the_grammar_of_the_page_is_that_of_the_parser() -> None:
    """Which is also made of the words that the parser looks for."""
    grammar = (text.__doc__ or "").split("::\n\n")[1]
    assert f"```text\n{textwrap.dedent(grammar).strip()}\n```" in PAGE.read_text(encoding="utf-8")
    source = inspect.getsource(text._Parser)
    calls = re.findall(r"_(?:accept|expect|many|next_is)\(([^()]*)\)", source)
    words = {word for call in calls for word in re.findall(r'"(\w+)"', call)}
    assert {"program", "writexb", "recurrent", "window"} <= words
    assert {word for word in words if not re.search(rf"\b{word}\b", grammar)} == set()


def test_comments_and_layout_do_not_matter() -> None:
    squeezed = TEXT.replace("\n", " # a comment\n").replace("  ", "\t")
    assert parse_program(squeezed) == parse_program(TEXT)
    assert format_program(parse_program(squeezed)) == TEXT


def test_arrays_keep_their_order() -> None:
    assert format_arrays((3, 4, 5, 1, 0, 7)) == "[3..5, 1, 0, 7]"
    assert format_arrays(()) == "[]"


def test_one_statement() -> None:
    assert format_statement(Switch("TOM", (1, 2))) == "CM.switch(TOM, [1..2])"
    assert format_statement(WriteTile("o", 1, 2, 3, 4, 5, 6, 7, 8, (9,))).endswith("bytes 8, arrays [9])")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("weights cold", "weights warm", "line 3: expected 'cold' or 'resident', found warm"),
        ('tensor "x" 8', "tensor x 8", "line 4: expected a name in double quotes (tensor), found x"),
        ('tensor "z" 8', 'tensor "z" many', "line 6: expected a number (bytes), found many"),
        ("TOC", "TOX", "line 10: expected 'TOC' or 'TOM', found TOX"),
        ("0..2", "2..0", "line 10: expected a number above 2, found 0"),
        ("[0..2, 4]", "[0..2 4]", "line 10: expected ',' or ']', found 4"),
        ("buffer [", "cache [", "line 11: expected 'buffer' or 'arrays', found cache"),
        ('mov.store("z")', 'free("z")', "line 9: expected mov.store, CM.switch, allocate, cim.writexb (in this order)"),
        ("tile 0 0", "tile 0, 0", "line 13: expected a number (column block), found ,"),
        ("load(", "fetch(", "line 17: expected load, cim.readxb, vector, store (in this order) or '}', found fetch"),
        ("resident, main", "resident, buffer", "line 20: expected 'main' or 'resident', found buffer"),
        ("operand after", "operand before", "line 24: expected '{', found before"),
        ('free("z")\n}', 'free("z")\n', "line 36: expected 'free' or '}', found the end of the text"),
        ("segment {", "segment ?", "line 8: unexpected character '?'"),
        ('"test"', r'"te\qst"', "line 1: "),
    ],
)
def test_errors_name_the_line_and_what_was_expected(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(InputError) as caught:
        parse_program(TEXT.replace(old, new, 1))
    assert str(caught.value).startswith(f"program text, {message}")


def test_nothing_may_follow() -> None:
    with pytest.raises(InputError, match="line 36: expected 'segment' or the end of the text, found tensor"):
        parse_program(TEXT + 'tensor "late" 1\n')
