"""Any program, legal or not, survives printing and parsing unchanged."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cmswitch.program.program import (
    After,
    Allocate,
    Buffer,
    Emit,
    Fetch,
    Free,
    MemoryArrays,
    Multiply,
    Program,
    SegmentProgram,
    Stage,
    Store,
    Switch,
    TensorDeclaration,
    Vector,
    WriteTile,
)
from cmswitch.program.text import format_arrays, format_program, parse_program

names = st.text(max_size=6)
numbers = st.integers(-5, 10**12)
arrays = st.lists(st.integers(0, 12), max_size=8).map(tuple)
targets = st.sampled_from(["main", "resident"])


def few(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=2).map(tuple)


tiles = st.builds(
    WriteTile,
    names, numbers, numbers, numbers, numbers, numbers, numbers, numbers, numbers, arrays, st.none() | names,
)  # fmt: skip
afters = st.builds(After, names, numbers, numbers, numbers, numbers)
locations = st.builds(Buffer, few(st.tuples(numbers, numbers))) | st.builds(MemoryArrays, arrays)
stages = st.builds(
    Stage,
    names,
    few(names),
    numbers,
    few(st.builds(Fetch, names, targets, numbers, st.none() | afters)),
    st.none() | st.builds(Multiply, numbers, numbers, few(arrays)),
    few(st.builds(Vector, names | st.sampled_from(["relu", "shift-accumulate"]), names, numbers)),
    few(st.builds(Emit, names, few(targets), numbers)),
    few(tiles),
    st.none() | names,
)
segments = st.builds(
    SegmentProgram,
    few(st.builds(Store, names)),
    few(st.builds(Switch, st.sampled_from(["TOC", "TOM"]), arrays)),
    few(st.builds(Allocate, names, locations, st.none() | numbers)),
    few(tiles),
    few(stages),
    few(st.builds(Free, names)),
)
declarations = st.builds(TensorDeclaration, names, numbers, st.sampled_from(["input", "output", "intermediate"]))
programs = st.builds(Program, names, names, names, few(declarations), few(segments), st.booleans())


@settings(max_examples=150)
@given(programs)
def test_round_trip(program: Program) -> None:
    text = format_program(program)
    assert parse_program(text) == program
    assert format_program(parse_program(text)) == text
    assert text.isascii()


@given(arrays)
def test_ranges_of_arrays(numbers: tuple[int, ...]) -> None:
    text = format_arrays(numbers)
    parts = [part.split("..") for part in text[1:-1].split(", ") if part]
    assert tuple(n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)) == numbers
