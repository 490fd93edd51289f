"""Programs that were tampered with: the numbers show it, also where every rule of legality still holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

import hw
from cmswitch.program.program import Program, SegmentProgram, Stage, WriteTile
from cmswitch.simulator import simulate
from cmswitch.simulator.legality import SimulationError
from tests.numeric import Case, Drawing, compiled_case

CHIP = hw.load_chip("dynaplasia").with_changes(
    **{
        "arrays_per_core": 40,
        "array.rows": 8,
        "array.max_active_rows": 8,
        "array.columns": 64,
        "buffer.capacity_bytes": 4096,
    }
)


@cache
def case() -> Case:
    """Two dense layers of several tiles, tensors in the buffer, and a product of activations."""
    drawing = Drawing(1)
    data = drawing.input("tokens", 4, 16)
    left = drawing.node("Relu", drawing.node("MatMul", data, drawing.weight(16, 16)))
    right = drawing.node("Transpose", drawing.node("MatMul", data, drawing.weight(16, 16)), perm=[1, 0])
    return compiled_case(drawing.model(drawing.node("MatMul", left, right)), CHIP)


def with_segment(change: Callable[[SegmentProgram], SegmentProgram]) -> Program:
    """The program with its first segment changed."""
    program = case().result.program
    return replace(program, segments=(change(program.segments[0]), *program.segments[1:]))


def with_tiles(change: Callable[[list[WriteTile]], list[WriteTile]]) -> Program:
    """The program with the constant tiles of its first product changed."""

    def changed(segment: SegmentProgram) -> SegmentProgram:
        name = segment.writes[0].operator
        mine = [tile for tile in segment.writes if tile.operator == name]
        rest = [tile for tile in segment.writes if tile.operator != name]
        return replace(segment, writes=(*change(mine), *rest))

    return with_segment(changed)


def with_stage(number: int, change: Callable[[Stage], Stage]) -> Program:
    """The program with one stage of its first segment changed."""

    def changed(segment: SegmentProgram) -> SegmentProgram:
        stages = list(segment.stages)
        stages[number] = change(stages[number])
        return replace(segment, stages=tuple(stages))

    return with_segment(changed)


def swapped_tiles() -> Program:
    """Two tiles lie in each other's arrays."""

    def swap(tiles: list[WriteTile]) -> list[WriteTile]:
        first, second, *rest = tiles
        return [replace(first, arrays=second.arrays), replace(second, arrays=first.arrays), *rest]

    return with_tiles(swap)


def swapped_arrays_of_a_copy() -> Program:
    """One readxb names two arrays in the wrong order."""

    def swap(stage: Stage) -> Stage:
        assert stage.multiply is not None
        (first, second, *rest), *others = stage.multiply.copies
        return replace(stage, multiply=replace(stage.multiply, copies=((second, first, *rest), *others)))

    return with_stage(0, swap)


def same_tile_twice() -> Program:
    """The second tile is written with the numbers of the first."""

    def repeat(tiles: list[WriteTile]) -> list[WriteTile]:
        first, second, *rest = tiles
        return [first, replace(first, arrays=second.arrays), *rest]

    return with_tiles(repeat)


def forgotten_tile() -> Program:
    """A tile is never written: its partial sums are missing."""
    return with_tiles(lambda tiles: tiles[1:])


def one_row_too_few() -> Program:
    """A tile is written without its last row."""
    return with_tiles(lambda tiles: [replace(tiles[0], rows=tiles[0].rows - 1), *tiles[1:]])


def one_column_too_few() -> Program:
    """A tile is written without its last column."""
    return with_tiles(lambda tiles: [replace(tiles[0], columns=tiles[0].columns - 1), *tiles[1:]])


def forgotten_switch() -> Program:
    """Arrays stay in memory mode."""
    return with_segment(lambda segment: replace(segment, switches=()))


def forgotten_array_of_a_switch() -> Program:
    """One array stays in memory mode."""

    def shorten(segment: SegmentProgram) -> SegmentProgram:
        switch = segment.switches[0]
        return replace(segment, switches=(replace(switch, arrays=switch.arrays[1:]),))

    return with_segment(shorten)


def stale_operand() -> Program:
    """A dynamic operand is taken from another tensor of the same size."""

    def other(stage: Stage) -> Stage:
        source = stage.fetches[0].tensor
        return replace(stage, operand=tuple(replace(tile, source=source) for tile in stage.operand))

    return with_stage(2, other)


def wrong_input() -> Program:
    """A product streams what another operator made."""

    def other(stage: Stage) -> Stage:
        fetch = replace(stage.fetches[0], tensor=str(stage.operand[0].source))
        return replace(stage, fetches=(fetch, *stage.fetches[1:]))

    return with_stage(2, other)


def stale_buffer() -> Program:
    """A tensor goes to main memory alone and is read from its place in the buffer."""

    def elsewhere(stage: Stage) -> Stage:
        return replace(stage, emits=tuple(replace(emit, targets=("main",)) for emit in stage.emits))

    return with_stage(1, elsewhere)


def lost_output() -> Program:
    """An operator keeps its result to itself."""
    return with_stage(0, lambda stage: replace(stage, emits=()))


POISONED = [
    swapped_tiles,
    swapped_arrays_of_a_copy,
    same_tile_twice,
    forgotten_tile,
    one_row_too_few,
    one_column_too_few,
    forgotten_switch,
    forgotten_array_of_a_switch,
    stale_operand,
    wrong_input,
    stale_buffer,
    lost_output,
]

LEGAL = {swapped_tiles, swapped_arrays_of_a_copy, one_row_too_few, one_column_too_few}
"""What the timing simulator accepts."""

IN_ONE_COPY = {swapped_arrays_of_a_copy, forgotten_array_of_a_switch}
"""What only the rows show that go to one copy."""


def test_untouched_program_is_exact() -> None:
    found = case().verify()
    assert found.exact
    assert [o.status for o in found.operators] == ["exact"] * 3


@pytest.mark.parametrize("poison", POISONED, ids=lambda poison: poison.__name__)
def test_numbers_show_it(poison: Callable[[], Program]) -> None:
    program = poison()
    assert program != case().result.program
    found = case().verify(program)
    assert not found.exact
    assert found.error is not None or found.first_deviation is not None


@pytest.mark.parametrize(
    "poison",
    [p for p in POISONED if p not in IN_ONE_COPY and p is not stale_buffer],
    ids=lambda poison: poison.__name__,
)
def test_a_sample_of_rows_shows_it(poison: Callable[[], Program]) -> None:
    """What is wrong in all copies; but a tensor of a sampled run is the network's own wherever it lies."""
    assert case().verify(sample=2).exact
    assert not case().verify(poison(), sample=2).exact


@pytest.mark.parametrize("poison", POISONED, ids=lambda poison: poison.__name__)
def test_what_legality_sees(poison: Callable[[], Program]) -> None:
    try:
        simulate(poison(), CHIP)
        accepted = True
    except SimulationError:
        accepted = False
    assert accepted == (poison in LEGAL)
