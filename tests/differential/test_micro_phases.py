"""Small programs whose phases are worked out by hand; notation and chip as in ``test_micro_programs.py``."""

from __future__ import annotations

import pytest

from cmswitch.program.program import SegmentProgram, Store, Switch
from tests.differential.micro import (
    CHIP,
    expect,
    in_arrays,
    in_buffer,
    load,
    multiply,
    network,
    out,
    segment,
    stage,
    stream,
    tile,
    to_compute,
)

# -- reload, switches and what lasts over a cut ------------------------------------------------------------------------


def test_tiles_of_three_copies_share_two_write_drivers() -> None:
    # Row block 1 (4 rows, 20 bytes: read 5, write 8) comes first, row block 0 (16 rows: read 20, write 32) second.
    #   read 0-5, 5-25   one array 0-8, 5-37   all writing by 2 drivers: 3 x (8 + 32) / 2 from 0: 60, 3 x 32 / 2 from 5: 53
    # switch 6 arrays 9.   F 0-2   M 2-22 (3 rows, 3 copies, the largest tile's tau)   V 22-23   W 23-24
    only = stage("a", 1, (load("x", 8),), multiply(3, (0, 1), (2, 3), (4, 5), used_rows=16), 4, out("y", 4))
    program = network(
        segment(
            only,
            switches=to_compute(0, 1, 2, 3, 4, 5),
            writes=(tile("a", 1, 3, 5, rows=4, row_block=1), tile("a", 0, 2, 4, rows=16)),
        ),
        inputs={"x": 8},
        outputs={"y": 4},
    )
    expect(9 + 60 + 24, [(0, 9, 60, 24)], program)


def test_writing_of_the_last_tile_by_all_drivers_ends_the_reload() -> None:
    # Column block 0 (16 x 8, 128 bytes): read 0-32, written in 32. Column block 1 (8 x 1, 8 bytes): read 32-34, written in 16.
    #   three copies by 2 drivers: 3 x 16 / 2 from 32: 56 (one array: 48); 3 x (32 + 16) / 2 from 0: 72
    # With 5 drivers: 32 + ceil(48 / 5) = 42, ceil(144 / 5) = 29, but one array 32 + 16 = 48.
    # With 2 drivers and 0.5 bytes a cycle: read 0-256, 256-272; 256 + 24 = 280, the last to end.
    # The execute phase: F 0-2   M 2-22   V 22-23   W 23-24; at 0.5 bytes a cycle F 0-16   M 16-36   V 36-37   W 37-45.
    only = stage("a", 1, (load("x", 8),), multiply(3, (0, 1), (2, 3), (4, 5), used_rows=16), 4, out("y", 4))
    tiles = (tile("a", 0, 2, 4, rows=16, columns=8), tile("a", 1, 3, 5, columns=1, column_block=1))
    for drivers, bandwidth, reload, execute in ((2, 4, 72, 24), (5, 4, 48, 24), (2, "0.5", 280, 45)):
        chip = CHIP.with_changes(**{"array.arrays_written_at_once": drivers, "main_memory.bandwidth": bandwidth})
        program = network(
            segment(only, switches=to_compute(0, 1, 2, 3, 4, 5), writes=tiles),
            inputs={"x": 8},
            outputs={"y": 4},
            chip=chip,
        )
        expect(9 + reload + execute, [(0, 9, reload, execute)], program, chip)


def test_reload_bound_by_main_memory_has_the_tail_of_its_last_tile() -> None:
    # One byte a cycle. Column block 0 (16 x 8): read 0-128, written in 32 but not before 128. Column block 1 (16 x 1):
    # read 128-144, written 128-160.   F 0-8   M 8-28   V 28-29   W 29-33
    chip = CHIP.with_changes(**{"main_memory.bandwidth": 1})
    only = stage("a", 1, (load("x", 8),), multiply(1, (0, 1), used_rows=16), 4, out("y", 4))
    tiles = (tile("a", 0, rows=16, columns=8), tile("a", 1, rows=16, columns=1, column_block=1))
    program = network(
        segment(only, switches=to_compute(0, 1), writes=tiles), inputs={"x": 8}, outputs={"y": 4}, chip=chip
    )
    expect(3 + 160 + 33, [(0, 3, 160, 33)], program, chip)


@pytest.mark.parametrize(
    ("at_once", "first", "second"),
    [
        (1, 9, 19),  # 3 to compute mode: 3 x 3; then 2 to memory mode and 3 to compute mode: 2 x 5 + 3 x 3
        (2, 6, 11),  # 2 x 3; 1 x 5 + 2 x 3
        (8, 3, 8),  # 1 x 3; 1 x 5 + 1 x 3: the two directions add
    ],
)
def test_switches_in_both_directions(at_once: int, first: int, second: int) -> None:
    # Segment 1: three copies, reload 3 x 16 / 2 = 24 in both segments.   F 0-2   M 2-12   V 12-13   W 13-15 (8 bytes)
    # Segment 2: its weights go to arrays 3 to 5, its output u to arrays 0 and 1 (8 bytes at 2 a cycle).
    #   B   F 0-2   M 2-12   V 12-13   W 13-17        D   F 17-21   V 21-22   W 22-23
    chip = CHIP.with_changes(**{"modes.switched_at_once": at_once})
    before = segment(
        stage("a", 1, (load("x", 8),), multiply(3, 0, 1, 2), 4, out("t", 8)),
        switches=to_compute(0, 1, 2),
        writes=(tile("a", 0, 1, 2),),
    )
    after = segment(
        stage("b", 1, (load("t", 8),), multiply(3, 3, 4, 5), 4, out("u", 8, "resident")),
        stage("d", 1, (stream("u", 8, "b"),), None, 4, out("y", 4)),
        switches=(Switch("TOM", (0, 1)), Switch("TOC", (3, 4, 5))),
        writes=(tile("b", 3, 4, 5),),
        allocations=(in_arrays("u", 0, 1, window=1),),
        frees=("u",),
    )
    program = network(before, after, inputs={"x": 8}, outputs={"y": 4}, between={"t": 8, "u": 8}, chip=chip)
    expect(first + 24 + 15 + second + 24 + 23, [(0, first, 24, 15), (0, second, 24, 23)], program, chip)


def kept_producer() -> SegmentProgram:
    """Execute 24: F 0-1 1-2   M 1-11 11-21   V 11-12 21-22   W 12-14 22-24 (into the buffer)."""
    return segment(
        stage("a", 2, (load("x", 4),), multiply(2, 0), 4, out("t", 16, "resident")),
        switches=to_compute(0),
        writes=(tile("a", 0),),
        allocations=(in_buffer("t", 0, 32),),
    )


def kept_consumer(*frees: str) -> SegmentProgram:
    """Execute 24: F 0-2 2-4 (from the buffer)   M 2-12 12-22   V 12-13 22-23   W 13-14 23-24."""
    return segment(
        stage("b", 2, (load("t", 16, "resident"),), multiply(2, 1), 4, out("u", 4)),
        switches=to_compute(1),
        writes=(tile("b", 1),),
        frees=frees,
    )


def test_kept_tensor_is_read_on_chip_and_stored_when_it_is_dropped() -> None:
    # Segment 3 stores t: 32 bytes, 8 cycles in main memory (4 on the buffer's port). It then reads t and u from there.
    #   F   0-5   5-10 (4 + 1 cycles)   M 5-15   15-25   V 15-16   25-26   W 16-17   26-27
    last = segment(
        stage("c", 2, (load("t", 16), load("u", 4)), multiply(2, 2), 4, out("y", 4)),
        stores=(Store("t"),),
        switches=to_compute(2),
        writes=(tile("c", 2),),
    )
    program = network(
        kept_producer(), kept_consumer(), last, inputs={"x": 8}, outputs={"y": 8}, between={"t": 32, "u": 8}
    )
    expect(43 + 43 + 54, [(0, 3, 16, 24), (0, 3, 16, 24), (8, 3, 16, 27)], program)


def test_resident_weights_save_the_first_reload_only() -> None:
    # Switching is free here, so that it does not matter in which mode resident weights find their arrays.
    chip = CHIP.with_changes(**{"modes.to_compute_cycles": 0})
    program = network(
        kept_producer(),
        kept_consumer("t"),
        inputs={"x": 8},
        outputs={"u": 8},
        between={"t": 32},
        chip=chip,
        resident_weights=True,
    )
    expect(24 + 16 + 24, [(0, 0, 0, 24), (0, 0, 16, 24)], program, chip)


# -- dynamic operands --------------------------------------------------------------------------------------------------


def test_dynamic_operand_produced_in_the_segment() -> None:
    #   P   F 0-1    3-4 (after Q.F0)   M 1-11   11-21   V 11-12   21-22   W 12-16   22-26 (k in the buffer)
    #   operand: P has finished at 26. Tiles of 32 bytes: read 26-30, 30-34; 2 x (16 + 16) of writing by 2
    #   drivers 26-58 (the second tile alone, from 30 on, would end at 46).
    #   Q   F 1-3    4-6    6-8 (two copies: depth 3)
    #       M 58-68  58-68  68-78
    #       V 68-70  70-72  78-80
    #       W 70-71  72-73  80-81
    # switch 5 arrays 9; reload: the one small tile of P, 16.
    producer = stage("p", 2, (load("x", 4),), multiply(2, 0), 4, out("k", 32, "resident"))
    operand = (tile("q", 1, 3, columns=4, source="k"), tile("q", 2, 4, columns=4, column_block=1, source="k"))
    product = stage("q", 3, (load("w", 8),), multiply(3, (1, 2), (3, 4)), 8, out("y", 4), operand, "p")
    program = network(
        segment(
            producer,
            product,
            switches=to_compute(0, 1, 2, 3, 4),
            writes=(tile("p", 0),),
            allocations=(in_buffer("k", 0, 64),),
            frees=("k",),
        ),
        inputs={"x": 8, "w": 24},
        outputs={"y": 12},
        between={"k": 64},
    )
    expect(9 + 16 + 81, [(0, 9, 16, 81)], program)


def test_dynamic_operand_that_exists_is_written_in_the_reload_phase() -> None:
    # Segment 1: k is written to one memory-mode array, 40 bytes a chunk at 1 a cycle.
    #   F 0-1 1-2   M 1-11 11-21   V 11-12 21-22   W 12-52 52-92
    # Segment 2: its tiles are read from there, 0-40 and 40-80; the writes (16) end no earlier: 40 and 80.
    #   F 0-2   M 2-22 (2 rows)   V 22-23   W 23-24
    before = segment(
        stage("p", 2, (load("x", 4),), multiply(2, 0), 4, out("k", 40, "resident")),
        switches=to_compute(0),
        writes=(tile("p", 0),),
        allocations=(in_arrays("k", 7),),
    )
    after = segment(
        stage("q", 1, (load("w", 8),), multiply(2, (1, 2)), 4, out("y", 4)),
        switches=to_compute(1, 2),
        writes=(tile("q", 1, source="k"), tile("q", 2, column_block=1, source="k")),
        frees=("k",),
    )
    program = network(before, after, inputs={"x": 8, "w": 8}, outputs={"y": 4}, between={"k": 80})
    expect(3 + 16 + 92 + 3 + 80 + 24, [(0, 3, 16, 92), (0, 3, 80, 24)], program)
