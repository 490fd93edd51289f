"""Every altered program is reported with the rule that it breaks and the statement that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from cmswitch.errors import CmswitchError
from cmswitch.program.program import (
    After,
    Allocate,
    Buffer,
    Emit,
    Fetch,
    Free,
    MemoryArrays,
    Program,
    SegmentProgram,
    Stage,
    Store,
    Switch,
    WriteTile,
)
from cmswitch.simulator import SimulationError, simulate
from tests.small_programs import CHIP, Place, program, read, segment, stage, tile, to_compute


def legal() -> Program:
    """Two copies of a two-tile operator, a dynamic operand, a kept tensor, a tensor through main memory, switches both ways."""
    a = stage("a", 2, [read("x", 4)], [Emit("k", ("resident", "main"), 8)], rows=4, copies=[(0, 1), (2, 3)], vector=2)
    operand = [tile("b", 4, source="k")]
    b = stage(
        "b", 2, [read("x", 4)], [Emit("m", ("main",), 4)], rows=2, copies=[(4,)], operand=operand, operand_after="a"
    )
    first = segment(
        [a, b],
        [tile("a", 0, 2), tile("a", 1, 3, row_block=1)],
        [to_compute(0, 1, 2, 3, 4)],
        [Allocate("k", MemoryArrays((6, 7)))],
    )
    c = stage("c", 2, [read("m", 4), read("k", 8, "resident")], [Emit("w", ("resident",), 4)], rows=2, copies=[(1,)])
    wait = After("c", 1, 1, 1, 1)
    d = stage("d", 2, [read("w", 4, "resident", wait)], [Emit("y", ("main",), 4)], rows=2, copies=[(2,)])
    second = segment(
        [c, d],
        [tile("c", 1), tile("d", 2)],
        [Switch("TOM", (3, 4))],
        [Allocate("w", Buffer(((0, 8),)), 2), Allocate("v", MemoryArrays((3,)))],
        ["w", "v", "k"],
    )
    third = segment([stage("e", 1, [read("k", 16)], [Emit("z", ("main",), 4)], vector=4)])
    tensors = {"k": 16, "m": 8, "w": 8, "v": 8}
    return program([first, second, third], {"x": 8}, {"y": 8, "z": 4}, tensors)


def edit(index: int, change: Callable[[SegmentProgram], SegmentProgram]) -> Program:
    original = legal()
    segments = [change(s) if number == index else s for number, s in enumerate(original.segments)]
    return replace(original, segments=tuple(segments))


def with_stage(segment: int, number: int, change: Callable[[Stage], Stage]) -> Program:
    def changed(one: SegmentProgram) -> SegmentProgram:
        stages = [change(s) if n == number else s for n, s in enumerate(one.stages)]
        return replace(one, stages=tuple(stages))

    return edit(segment, changed)


def with_targets(segment: int, number: int, *targets: Place) -> Program:
    return with_stage(segment, number, lambda s: replace(s, emits=(replace(s.emits[0], targets=targets),)))


def with_copies(segment: int, number: int, *copies: tuple[int, ...]) -> Program:
    def changed(one: Stage) -> Stage:
        assert one.multiply is not None
        return replace(one, multiply=replace(one.multiply, copies=copies))

    return with_stage(segment, number, changed)


def with_writes(segment: int, *tiles: WriteTile) -> Program:
    return edit(segment, lambda s: replace(s, writes=tiles))


def with_places(*allocations: Allocate) -> Program:
    return edit(1, lambda s: replace(s, allocations=allocations))


def with_fetch(segment: int, number: int, fetch: Fetch) -> Program:
    return with_stage(segment, number, lambda s: replace(s, fetches=(fetch,)))


def with_emit(segment: int, number: int, emit: Emit) -> Program:
    return with_stage(segment, number, lambda s: replace(s, emits=(emit,)))


def with_switches(segment: int, *switches: Switch) -> Program:
    return edit(segment, lambda s: replace(s, switches=switches))


def with_frees(segment: int, *tensors: str) -> Program:
    return edit(segment, lambda s: replace(s, frees=tuple(map(Free, tensors))))


def with_operand(*tiles: WriteTile) -> Program:
    return with_stage(0, 1, lambda s: replace(s, operand=tiles))


def with_stores(*tensors: str) -> Program:
    return edit(1, lambda s: replace(s, stores=tuple(map(Store, tensors))))


def test_the_unaltered_program_is_legal() -> None:
    assert simulate(legal(), CHIP).total_cycles > 0


A0, A1 = tile("a", 0, 2), tile("a", 1, 3, row_block=1)
C0, D0 = tile("c", 1), tile("d", 2)
TO_COMPUTE = to_compute(0, 1, 2, 3, 4)
W, V = Allocate("w", Buffer(((0, 8),)), 2), Allocate("v", MemoryArrays((3,)))
LARGER_V = replace(legal(), tensors=(*legal().tensors[:-1], replace(legal().tensors[-1], bytes=17)))


def after(operator: str) -> After:
    return After(operator, 1, 1, 1, 1)


ALTERED: dict[str, tuple[Program, int, str, str]] = {
    # name: program, segment, start of the statement that is reported, part of the rule
    "weight write dropped": (with_writes(0, A1), 0, "cim.readxb", "array 0 does not hold"),
    "other weight write dropped": (with_writes(1, C0), 1, "cim.readxb", "array 2 does not hold"),
    "operand write dropped": (with_operand(), 0, 'operator "b"', "needs tiles"),
    "switch to compute dropped": (with_switches(0), 0, "cim.writexb", "in memory mode"),
    "switch of an array dropped": (with_switches(0, to_compute(0, 1, 2, 3)), 0, "cim.writexb", "array 4"),
    "switch to memory dropped": (with_switches(1), 1, 'allocate("v"', "allocated to a tensor in compute"),
    "switch repeated": (with_switches(1, to_compute(1)), 1, "CM.switch", "redundant switch"),
    "switched there and back": (with_switches(0, TO_COMPUTE, Switch("TOM", (4,))), 0, "CM.switch(TOM", "twice"),
    "array switched under a tensor": (with_switches(1, to_compute(6)), 1, "CM.switch", "still holds tensor 'k'"),
    "array named twice": (with_switches(0, to_compute(0, 0)), 0, "CM.switch", "named twice"),
    "main target of a tensor read later": (with_targets(0, 0, "resident"), 2, 'load("k"', "written to main memory"),
    "only target dropped": (with_targets(0, 1), 0, 'store("m"', "goes nowhere"),
    "output never stored": (with_emit(2, 0, Emit("m", ("main",), 4)), 2, 'tensor "z" 4 output', "network output"),
    "output stored in part": (with_emit(1, 1, Emit("y", ("main",), 3)), 2, 'tensor "y" 8 output', "network output"),
    "write to a clashing array": (with_writes(0, tile("a", 0, 1), A1), 0, "cim.writexb", "1 is in two places at once"),
    "write to an array of a tensor": (with_writes(0, tile("a", 0, 6), A1), 0, "cim.writexb", "array 6"),
    "write to another array": (with_writes(1, tile("c", 0), D0), 1, "cim.readxb", "array 1 does not hold"),
    "write to a missing array": (with_writes(1, tile("c", 8), D0), 1, "cim.writexb", "does not exist"),
    "operand clashes with weights": (with_operand(tile("b", 0, source="k")), 0, "cim.writexb", "in two places"),
    "operand of another operator": (with_operand(tile("a", 4, source="k")), 0, "cim.writexb", "not of operator 'b'"),
    "operand from elsewhere": (with_operand(tile("b", 4, source="m")), 0, "cim.writexb", "does not write tensor 'm'"),
    "copies share an array": (with_copies(0, 0, (0, 1), (2, 1)), 0, "cim.readxb", "array 1 is in two places"),
    "array of another operator": (with_copies(1, 1, (1,)), 1, "cim.readxb", "array 1 is in two places"),
    "copy lacks a tile": (with_copies(0, 0, (0, 1), (2,)), 0, "cim.readxb", "do not hold the same tiles"),
    "copy holds a tile twice": (with_copies(0, 0, (0, 2), (1, 3)), 0, "cim.readxb", "holds a tile twice"),
    "row block missing": (with_writes(0, A0, replace(A1, row_block=2)), 0, "cim.readxb", "lacks row block 1"),
    "grid incomplete": (with_writes(0, A0, replace(A1, column_block=1)), 0, "cim.readxb", "lacks tile"),
    "groups missing": (with_writes(0, A0, replace(A1, row_block=0, group=2)), 0, "cim.readxb", "lacks groups"),
    "fewer rows than stated": (with_writes(1, tile("c", 1, rows=3), D0), 1, "cim.readxb", "uses 3 rows"),
    "tile larger than an array": (with_writes(1, tile("c", 1, rows=5), D0), 1, "cim.writexb", "1 to 4 rows"),
    "allocation dropped": (edit(0, lambda s: replace(s, allocations=())), 0, 'store("k"', "never allocated"),
    "allocation of a window dropped": (with_places(V), 1, 'store("w"', "never allocated"),
    "freed too early": (with_frees(0, "k"), 1, 'load("k", resident', "freed in segment 0"),
    "freed twice": (with_frees(2, "k"), 2, 'free("k")', "freed in segment 1"),
    "window not freed": (with_frees(1, "k", "v"), 1, 'allocate("w"', "window of 'w' is not freed"),
    "no arrays": (with_places(W, Allocate("v", MemoryArrays(()))), 1, 'allocate("v"', "no arrays"),
    "tensor larger than its arrays": (LARGER_V, 1, 'allocate("v"', "17 bytes"),
    "window larger than its place": (with_places(Allocate("w", Buffer(((0, 7),)), 2), V), 1, 'store("w"', "8 bytes"),
    "arrays of another tensor": (with_places(W, Allocate("v", MemoryArrays((7,)))), 1, 'allocate("v"', "tensor 'k'"),
    "buffer over capacity": (with_places(Allocate("w", Buffer(((60, 8),)), 2), V), 1, 'allocate("w"', "64 bytes"),
    "buffer overlap": (with_places(W, Allocate("v", Buffer(((6, 8),)))), 1, 'allocate("v"', "overlap"),
    "allocated twice": (with_places(W, W, V), 1, 'allocate("w"', "already has a place"),
    "not waiting": (with_fetch(1, 1, read("w", 4, "resident")), 1, 'load("w"', "without waiting for operator 'c'"),
    "unknown producer": (with_fetch(1, 1, read("w", 4, "resident", after("x"))), 1, 'load("w"', "not an earlier"),
    "read from where it is not": (with_fetch(1, 1, read("w", 4, "main", after("c"))), 1, 'load("w"', "to main first"),
    "read before it exists": (with_fetch(0, 0, read("y", 4)), 0, 'load("y"', "not completely written to main"),
    "undeclared tensor": (with_fetch(0, 0, read("q", 4)), 0, 'load("q"', "not declared"),
    "store of what is not on chip": (with_stores("m"), 1, 'mov.store("m")', "no place on chip"),
    "stored, then read on chip": (with_stores("k"), 1, 'load("k", resident', "freed in segment 1"),
    "operator twice": (edit(2, lambda s: replace(s, stages=s.stages * 2)), 2, 'operator "e"', "once in a segment"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_altered_program_is_reported(name: str) -> None:
    altered, segment_index, statement, rule = ALTERED[name]
    with pytest.raises(SimulationError) as caught:
        simulate(altered, CHIP)
    assert caught.value.segment == segment_index
    assert caught.value.statement.startswith(statement)
    assert rule in caught.value.rule
    assert str(caught.value) == f"segment {segment_index}: {caught.value.statement}: {caught.value.rule}"
    assert isinstance(caught.value, CmswitchError)


def dropped() -> Iterator[tuple[str, Program]]:
    """The program without one statement that matters, for every such statement."""
    for index, one in enumerate(legal().segments):
        for field in ("switches", "allocations", "writes", "stages"):
            for number in range(len(getattr(one, field))):
                if (index, field, number) == (1, "allocations", 1):
                    continue

                def drop(s: SegmentProgram, field: str = field, number: int = number) -> SegmentProgram:
                    statements = getattr(s, field)
                    return replace(s, **{field: statements[:number] + statements[number + 1 :]})

                yield f"segment {index} {field} {number}", edit(index, drop)


@pytest.mark.parametrize(("name", "altered"), list(dropped()), ids=[name for name, _ in dropped()])
def test_every_statement_that_matters_is_missed(name: str, altered: Program) -> None:
    with pytest.raises(SimulationError):
        simulate(altered, CHIP)


def test_other_chip() -> None:
    other = CHIP.with_changes(**{"main_memory.bandwidth": 2})
    with pytest.raises(SimulationError, match="compiled for another chip description"):
        simulate(legal(), other)


def test_chip_without_switching_computes_from_the_start() -> None:
    fixed = CHIP.with_changes(**{"modes.switchable": False, "modes.capacity_fraction": 0, "modes.bandwidth": 0})
    one = segment([stage("a", 1, [read("x", 1)], [Emit("y", ("main",), 1)], 1, [(0,)])], [tile("a", 0)])
    assert simulate(program([one], {"x": 1}, {"y": 1}, chip=fixed), fixed).switches == 0
    switching = program([replace(one, switches=(to_compute(1),))], {"x": 1}, {"y": 1}, chip=fixed)
    with pytest.raises(SimulationError, match="cannot switch"):
        simulate(switching, fixed)
