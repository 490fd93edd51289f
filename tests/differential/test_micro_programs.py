"""Small programs whose cycles are worked out by hand from ``docs/machine-model.md``, against the timing simulator.

Nothing here computes an expected figure: each is read off the timeline above its test. In the timelines ``F``, ``M``,
``V`` and ``W`` are the four stages, a number after them the chunk, ``3-13`` the cycles from 3 up to, but without, 13.
Columns list chunks in order. Unless a test changes it, the chip moves 4 bytes a cycle to and from main memory, 8 on the
buffer's port and 1 per memory-mode array; the vector unit has 4 lanes; a row of an array takes 2 cycles to write, with 2
write drivers; an MVM takes tau = 10 cycles up to 8 rows and 20 up to 16; two arrays at once switch in 3 cycles
to compute mode, in 5 to memory mode. A *small* tile (8 rows of 5 weights, 40 bytes) is read in 10 and written in 16
cycles, a *tall* one (16 rows, 80 bytes) in 20 and 32.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cmswitch.program.program import After, Stage, Vector
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

# -- one operator ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bandwidth", "reload", "execute", "total"),
    [
        # switch 1 array 3. reload: read 40/4 = 10, write 8 x 2 = 16: 16.
        # F 0-3 (10 bytes)   M 3-13   V 13-18 (9 and 5 passes: 3 + 2, not ceil(14/4) = 4)   W 18-21 (9 bytes)
        (4, 16, 21, 40),
        # reload: read 40/2.5 = 16, write 16: 16.   F 0-4   M 4-14   V 14-19   W 19-23 (9/2.5 = 3.6)
        ("2.5", 16, 23, 42),
        # reload: the write may not end before the read, 40/0.8 = 50.   F 0-13 (12.5)   M 13-23   V 23-28   W 28-40 (11.25)
        ("0.8", 50, 40, 93),
    ],
)
def test_one_operator_one_chunk(bandwidth: object, reload: int, execute: int, total: int) -> None:
    chip = CHIP.with_changes(**{"main_memory.bandwidth": bandwidth})
    vector = (Vector("elementwise", "relu", 9), Vector("add", "bias", 5))
    only = Stage("a", ("a",), 1, (load("x", 10),), multiply(1, 0), vector, (out("y", 9),))
    program = network(
        segment(only, switches=to_compute(0), writes=(tile("a", 0),)), inputs={"x": 10}, outputs={"y": 9}, chip=chip
    )
    expect(total, [(0, 3, reload, execute)], program, chip)


def test_waves_of_one_chunk() -> None:
    # switch 3 arrays, two at once: 2 x 3 = 6. reload: one read 0-10, three copies by 2 drivers 3 x 16 / 2 = 24.
    # F 0-7   M 7-37: 7 rows on 3 copies are ceil(7/3) = 3 waves of 10   V 37-41   W 41-43
    only = stage("a", 1, (load("x", 28),), multiply(7, 0, 1, 2), 14, out("y", 7))
    program = network(
        segment(only, switches=to_compute(0, 1, 2), writes=(tile("a", 0, 1, 2),)), inputs={"x": 28}, outputs={"y": 7}
    )
    expect(6 + 24 + 43, [(0, 6, 24, 43)], program)


def test_chunks_of_a_recurrent_operator_follow_one_another() -> None:
    # F 0-4  M 4-14  V 14-16  W 16-17, and only then the next step: F 17-21  M 21-31  V 31-33  W 33-34
    only = replace(stage("a", 2, (load("x", 16),), multiply(2, 0), 7, out("y", 4)), recurrent=True)
    program = network(segment(only, switches=to_compute(0), writes=(tile("a", 0),)), inputs={"x": 32}, outputs={"y": 8})
    expect(3 + 16 + 34, [(0, 3, 16, 34)], program)


def test_waves_run_across_the_ends_of_chunks() -> None:
    # 8 rows in 2 chunks on 3 copies: row 3 (chunk 0) shares its wave with rows 4 and 5 (chunk 1).
    #   F       0-4                      4-8
    #   rows    0,1,2: 4-14  3: 14-24    4,5: 14-24  6,7: 24-34
    #   V       24-26                    34-36
    #   W       26-27                    36-37
    # ceil(8/3) = 3 waves; wave by wave within each chunk it would be 2 + 2.
    only = stage("a", 2, (load("x", 16),), multiply(8, 0, 1, 2), 7, out("y", 4))
    program = network(
        segment(only, switches=to_compute(0, 1, 2), writes=(tile("a", 0, 1, 2),)), inputs={"x": 32}, outputs={"y": 8}
    )
    expect(6 + 24 + 37, [(0, 6, 24, 37)], program)


def test_chunks_of_unequal_rows() -> None:
    # 11 rows in 3 chunks: 0-2, 3-6, 7-10; copy = row mod 4; depth 2 + ceil(3 x 3 / 11) = 3.
    #   F       0-4          4-8                           8-12
    #   rows    0,1,2: 4-14  3: 8-18   4,5,6: 14-24        7: 18-28   8,9,10: 24-34
    #   V       14-16        24-26                         34-36
    #   W       16-17        26-27                         36-37
    # From 4 to 34 the product takes ceil(11/4) = 3 waves. reload of 4 copies by 2 drivers 4 x 16 / 2 = 32, switch of 4 arrays 6.
    only = stage("a", 3, (load("x", 14),), multiply(11, 0, 1, 2, 3), 7, out("y", 4))
    program = network(
        segment(only, switches=to_compute(0, 1, 2, 3), writes=(tile("a", 0, 1, 2, 3),)),
        inputs={"x": 42},
        outputs={"y": 12},
    )
    expect(6 + 32 + 37, [(0, 6, 32, 37)], program)


def test_more_copies_deepen_the_buffers() -> None:
    # depth 2 + ceil(2 x 6 / 6) = 4 chunks, so four fetches before M0 ends.
    #   F   0-2   2-4   4-6    6-8 (4 slots)   12-14 (M0 ends 12)   15-17 (M1 ends 14, asked at 14; W0 asked at 13)
    #   M   2-12  4-14  6-16   12-22           14-24                17-27
    #   V   12-13 14-15 16-17  22-23           24-25                27-28
    #   W   14-15 17-18 18-19  23-24           25-26                28-29
    only = stage("a", 6, (load("x", 8),), multiply(6, 0, 1, 2), 4, out("y", 4))
    program = network(
        segment(only, switches=to_compute(0, 1, 2), writes=(tile("a", 0, 1, 2),)), inputs={"x": 48}, outputs={"y": 24}
    )
    expect(6 + 24 + 29, [(0, 6, 24, 29)], program)


def test_buffers_hold_one_chunk_more_than_can_be_in_mvms() -> None:
    # 8 rows in 4 chunks on 3 copies: rows of up to 2 chunks at once; depth 2 + ceil(2 x 4 / 8) = 3, so F2 starts before M0 ends.
    #   F       0-2          2-4                   4-6                    12-14 (M0 ends 12)
    #   rows    0,1: 2-12    2: 4-14  3: 12-22     4: 12-22  5: 14-24     6,7: 22-32
    #   V       12-13        22-23                 24-25                  32-33
    #   W       14-15        23-24                 25-26                  33-34
    # With room for 2 chunks F2 would be 12-14, row 4 14-24 and row 7, on the same copy, 24-34.
    only = stage("a", 4, (load("x", 8),), multiply(8, 0, 1, 2), 4, out("y", 4))
    program = network(
        segment(only, switches=to_compute(0, 1, 2), writes=(tile("a", 0, 1, 2),)), inputs={"x": 32}, outputs={"y": 16}
    )
    expect(6 + 24 + 34, [(0, 6, 24, 34)], program)


def test_fetch_bound_pipeline() -> None:
    # One main-memory port for fetch (12) and write (1):
    #   F   0-12    12-24   25-37   38-50
    #   M   12-22   24-34   37-47   50-60
    #   V   22-23   34-35   47-48   60-61
    #   W   24-25   37-38   50-51   61-62      (each waits for the fetch under way and goes before the next one)
    only = stage("a", 4, (load("x", 48),), multiply(4, 0), 4, out("y", 4))
    program = network(
        segment(only, switches=to_compute(0), writes=(tile("a", 0),)), inputs={"x": 192}, outputs={"y": 16}
    )
    expect(3 + 16 + 62, [(0, 3, 16, 62)], program)


def test_write_bound_pipeline_pushes_back() -> None:
    #   F   0-1    1-2     11-12 (M0 ends)   27-28 (M1 ends 21)   43-44 (M2 ends 31)
    #   M   1-11   11-21   21-31             31-41                44-54
    #   V   11-12  21-22   31-32 (W0 ends 27)  43-44 (W1 ends)    59-60 (W2 ends)
    #   W   12-27  28-43   44-59             59-74                74-89
    # Without finite buffers all fetches are over by 5 and the last write ends at 87.
    only = stage("a", 5, (load("x", 4),), multiply(5, 0), 4, out("y", 60))
    program = network(
        segment(only, switches=to_compute(0), writes=(tile("a", 0),)), inputs={"x": 20}, outputs={"y": 300}
    )
    expect(3 + 16 + 89, [(0, 3, 16, 89)], program)


# -- contention --------------------------------------------------------------------------------------------------------


def test_two_operators_share_the_vector_unit() -> None:
    #   A   F 0-1    2-3 (after B.F0)  11-12          B   F 1-2    3-4    12-13
    #       M 1-11   11-21   21-31                        M 2-12   12-22  26-36 (V0 ends 26)
    #       V 11-19  26-34   41-49                        V 19-26  34-41  49-56
    #       W 19-24  34-39   49-54                        W 26-27  41-42  56-57
    # Who asks first is served first: A1 (21), B1 (26), A2 (34), B2 (41). Were the tie at 0 broken for B, A would end at 61.
    # reload: reads 0-10, 10-20, writes 0-16, 10-26.
    first = stage("a", 3, (load("p", 4),), multiply(3, 0), 32, out("y", 20))
    second = stage("b", 3, (load("q", 4),), multiply(3, 1), 28, out("z", 4))
    program = network(
        segment(first, second, switches=to_compute(0, 1), writes=(tile("a", 0), tile("b", 1))),
        inputs={"p": 12, "q": 12},
        outputs={"y": 60, "z": 12},
    )
    expect(3 + 26 + 57, [(0, 3, 26, 57)], program)


def test_two_operators_share_main_memory() -> None:
    # Order on the port, by time of asking: A.F0 (0), B.F0 (0), A.F1 (10), B.F1 (20), A.W0 (21), B.W0 (31), A.W1 (41), B.W1 (51)
    #   A   F 0-10   20-30      B   F 10-20  30-40
    #       M 10-20  30-40          M 20-30  40-50
    #       V 20-21  40-41          V 30-31  50-51
    #       W 40-41  42-43          W 41-42  51-52
    first = stage("a", 2, (load("p", 40),), multiply(2, 0), 4, out("y", 4))
    second = stage("b", 2, (load("q", 40),), multiply(2, 1), 4, out("z", 4))
    program = network(
        segment(first, second, switches=to_compute(0, 1), writes=(tile("a", 0), tile("b", 1))),
        inputs={"p": 80, "q": 80},
        outputs={"y": 8, "z": 8},
    )
    expect(3 + 26 + 52, [(0, 3, 26, 52)], program)


def test_reader_and_writer_share_the_port_of_memory_arrays() -> None:
    # 24 bytes a chunk on two arrays: 12 cycles to write, 12 to read.
    #   A   M 1-21   21-41   41-61        B   F 34-46  58-70  82-94
    #       V 21-22  41-42   61-62            M 46-56  70-80  94-104
    #       W 22-34  46-58 (asked at 42)  70-82 (asked at 62)    V, W 104-106 for the last
    # reload: tall read 0-20, written 0-32; small read 20-30, written 20-36.
    producer = stage("a", 3, (load("x", 4),), multiply(3, 0, used_rows=16), 4, out("t", 24, "resident"))
    consumer = stage("b", 3, (stream("t", 24, "a"),), multiply(3, 1), 4, out("y", 4))
    program = network(
        segment(
            producer,
            consumer,
            switches=to_compute(0, 1),
            writes=(tile("a", 0, rows=16), tile("b", 1)),
            allocations=(in_arrays("t", 6, 7, window=2),),
            frees=("t",),
        ),
        inputs={"x": 12},
        outputs={"y": 12},
        between={"t": 72},
    )
    expect(3 + 36 + 106, [(0, 3, 36, 106)], program)


# -- producers and consumers -------------------------------------------------------------------------------------------


def test_window_of_three_rows_fills_up() -> None:
    # need(c) = min(6, c + 2): 2 3 4 5 6 6; after fetching c the chunks below need(c + 1) - 3 = c are released.
    #   A   M 1-11   11-21  21-31  31-41  41-51  51-61
    #       V 11-12  21-22  31-32  41-42  51-52  61-62
    #       W 12-14  22-24  32-34  42-44  52-54  68-70 (chunk 2 is released by B.F3)
    #   B   F 24-26  34-36  46-48  66-68  86-88  106-108     (from 2 on when M of the chunk two before ends)
    #       M 26-46  46-66  66-86  86-106 106-126 126-146
    #       V, W 146-148 for the last
    # reload: small read 0-10, written 0-16; tall read 10-30, written 10-42.
    producer = stage("a", 6, (load("x", 4),), multiply(6, 0), 4, out("t", 16, "resident"))
    consumer = stage("b", 6, (stream("t", 16, "a", 1, 1, 2, 3),), multiply(6, 1, used_rows=16), 4, out("y", 4))
    program = network(
        segment(
            producer,
            consumer,
            switches=to_compute(0, 1),
            writes=(tile("a", 0), tile("b", 1, rows=16)),
            allocations=(in_buffer("t", 0, 48, window=3),),
            frees=("t",),
        ),
        inputs={"x": 24},
        outputs={"y": 24},
        between={"t": 96},
    )
    expect(3 + 42 + 148, [(0, 3, 42, 148)], program)


def test_window_of_three_rows_with_stride_two() -> None:
    # need(c) = 2c + 2: 2 4 6; released after F0: chunks below 4 - 3 = 1, after F1: below 3.
    #   A   M ends 21 + 20c, V one later, available at 24 + 20c: 24 44 64 84 104 124; released in time, never blocked
    #   B   F 44-48  84-88  124-128   M 128-138 for the last   V 138-139   W 139-140
    producer = stage("a", 6, (load("x", 4),), multiply(6, 0, used_rows=16), 4, out("t", 16, "resident"))
    consumer = stage("b", 3, (stream("t", 32, "a", 2, 1, 2, 3),), multiply(3, 1), 4, out("y", 4))
    program = network(
        segment(
            producer,
            consumer,
            switches=to_compute(0, 1),
            writes=(tile("a", 0, rows=16), tile("b", 1)),
            allocations=(in_buffer("t", 0, 48, window=3),),
            frees=("t",),
        ),
        inputs={"x": 24},
        outputs={"y": 12},
        between={"t": 96},
    )
    expect(3 + 36 + 140, [(0, 3, 36, 140)], program)


def test_slow_branch_of_a_join_blocks_the_fast_one() -> None:
    # J adds t (8 chunks from A, window 2) and s (one chunk from S, 16 rows of 10 cycles).
    #   A   F 0-1, 11-12, then when M of the chunk two before ends
    #       M 1-21 21-41 41-61 61-81 81-101 101-121 185-205 (V4 starts to free its slot: ends 185) 205-225
    #       V 21-22 41-42 61-62 81-82 184-185 187-188 205-206 225-226
    #       W 22-23 42-43 182-183 185-186 188-189 191-192 206-207 226-227
    #   S   F 1-11   M 11-171   V 171-172   W 172-180
    #   J   F 180-182 183-185 186-188 189-191 192-194 194-196 207-209 227-229    (s, then t, on the buffer's port)
    #       V 182-184 185-187 188-190 191-193 194-196 196-198 209-211 229-231
    #       W 2 cycles later each, the last 231-233
    # W of A waits for J.F(c - 2); at 182, 185, 188 and 191 both ask for the port and A, first in order, goes first.
    # With a window of 8 chunks A is done before 180 and the segment ends at 200.
    fast = stage("a", 8, (load("x", 4),), multiply(8, 0, used_rows=16), 4, out("t", 8, "resident"))
    slow = stage("s", 1, (load("w", 40),), multiply(16, 1), 4, out("side", 64, "resident"))
    join = stage(
        "j", 8, (stream("side", 8, "s", 0, 1, 1, 1), stream("t", 8, "a")), None, 8, out("y", 8)
    )  # fmt: skip
    program = network(
        segment(
            fast,
            slow,
            join,
            switches=to_compute(0, 1),
            writes=(tile("a", 0, rows=16), tile("s", 1)),
            allocations=(in_buffer("t", 0, 16, window=2), in_buffer("side", 16, 64, window=1)),
            frees=("t", "side"),
        ),
        inputs={"x": 32, "w": 40},
        outputs={"y": 64},
        between={"t": 64, "side": 64},
    )
    expect(3 + 36 + 233, [(0, 3, 36, 233)], program)


def test_row_that_the_next_chunk_needs_again_is_not_released() -> None:
    # As before with need(c) = min(9, c + 2), 9 chunks and a window of 3: J.F(c) releases the chunks below c.
    #   A   M 1-21 ... 121-141 (7 chunks: 3 in the window, 2 wait to be written, 2 wait for V)  188-208  208-228
    #       V 21-22 41-42 61-62 81-82 101-102 187-188 (W3 ends 186) 190-191 (W4 ends 189) 208-209 228-229
    #       W 22-23 42-43 62-63 185-186 (J.F1 ends) 188-189 191-192 194-195 209-210 229-230
    #   S   W 172-181 (72 bytes)
    #   J   F 181-183 183-185 186-188 189-191 192-194 195-197 210-212 230-232 232-234
    #       V 183-185 185-187 188-190 191-193 194-196 197-199 212-214 232-234 234-236   W 236-238 for the last
    fast = stage("a", 9, (load("x", 4),), multiply(9, 0, used_rows=16), 4, out("t", 8, "resident"))
    slow = stage("s", 1, (load("w", 40),), multiply(16, 1), 4, out("side", 72, "resident"))
    join = stage("j", 9, (stream("side", 8, "s", 0, 1, 1, 1), stream("t", 8, "a", 1, 1, 2, 3)), None, 8, out("y", 8))
    program = network(
        segment(
            fast,
            slow,
            join,
            switches=to_compute(0, 1),
            writes=(tile("a", 0, rows=16), tile("s", 1)),
            allocations=(in_buffer("t", 0, 24, window=3), in_buffer("side", 24, 72, window=1)),
            frees=("t", "side"),
        ),
        inputs={"x": 36, "w": 40},
        outputs={"y": 72},
        between={"t": 72, "side": 72},
    )
    expect(3 + 36 + 238, [(0, 3, 36, 238)], program)


@pytest.mark.parametrize(
    ("window", "execute"),
    [
        # t of 8 bytes a chunk on two arrays takes 4 cycles, u in the buffer 1. A alone could write at 12, 22, 32.
        #   A.W  12-16  46-50 (J.F0 ends)  80-84
        #   B    F 16-20   50-54    84-88
        #        M 20-40   54-74    88-108
        #        V 40-41   74-75    108-109
        #        W 41-42   75-76    109-110
        #   J    F 42-46   76-80    110-114  (t 4 cycles, u 1, in parallel)
        #        V 46-48   80-82    114-116
        #        W 48-50   82-84    116-118
        (1, 118),
        #   A.W  12-16  22-26  46-50 (chunk 0 is released by J.F0)
        #   B    F 16-20  26-30  50-54   M 20-40  40-60  60-80   V 80-81, W 81-82 for the last
        #   J    F 42-46  62-66  82-86   V 86-88, W 88-90 for the last
        (2, 90),
    ],
)
def test_residual_join_holds_back_its_early_branch(window: int, execute: int) -> None:
    early = stage("a", 3, (load("x", 4),), multiply(3, 0), 4, out("t", 8, "resident"))
    late = stage("b", 3, (stream("t", 8, "a"),), multiply(3, 1, used_rows=16), 4, out("u", 8, "resident"))
    join = stage("j", 3, (stream("u", 8, "b"), stream("t", 8, "a")), None, 8, out("y", 8))
    program = network(
        segment(
            early,
            late,
            join,
            switches=to_compute(0, 1),
            writes=(tile("a", 0), tile("b", 1, rows=16)),
            allocations=(in_arrays("t", 6, 7, window=window), in_buffer("u", 0, 8, window=1)),
            frees=("t", "u"),
        ),
        inputs={"x": 12},
        outputs={"y": 24},
        between={"t": 24, "u": 24},
    )
    expect(3 + 42 + execute, [(0, 3, 42, execute)], program)


def test_spilled_tensor_passes_through_main_memory() -> None:
    # Everything on one port: A.F 1, A.W 5, B.F 5, B.W 1.
    #   A   F 0-1    1-2    11-12        B   F 17-22  27-32  38-43 (B.W0 asked at 33, B.F2 at 37)
    #       M 1-11   11-21  21-31            M 22-32  32-42  43-53
    #       V 11-12  21-22  31-32            V 32-33  42-43  53-54
    #       W 12-17  22-27  32-37            W 37-38  43-44  54-55
    producer = stage("a", 3, (load("x", 4),), multiply(3, 0), 4, out("t", 20))
    consumer = stage("b", 3, (load("t", 20, "main", After("a", 1, 1, 1, 1)),), multiply(3, 1), 4, out("y", 4))
    program = network(
        segment(producer, consumer, switches=to_compute(0, 1), writes=(tile("a", 0), tile("b", 1))),
        inputs={"x": 12},
        outputs={"y": 12},
        between={"t": 60},
    )
    expect(3 + 26 + 55, [(0, 3, 26, 55)], program)


def test_tensor_that_also_streams_to_main_memory_is_available_on_chip_first() -> None:
    #   A   M 1-11  11-21   V 11-12  21-22   W buffer 12-14  22-24, main 12-16  22-26
    #   B   F 14-16 24-26   M 16-26  26-36   V 26-27  36-37   W 27-28  37-38
    producer = stage("a", 2, (load("x", 4),), multiply(2, 0), 4, out("t", 16, "resident", "main"))
    consumer = stage("b", 2, (stream("t", 16, "a"),), multiply(2, 1), 4, out("y", 4))
    program = network(
        segment(
            producer,
            consumer,
            switches=to_compute(0, 1),
            writes=(tile("a", 0), tile("b", 1)),
            allocations=(in_buffer("t", 0, 32),),
            frees=("t",),
        ),
        inputs={"x": 8},
        outputs={"t": 32, "y": 8},
    )
    expect(3 + 26 + 38, [(0, 3, 26, 38)], program)


def test_vector_only_operator_alone() -> None:
    #   F   0-3   3-6   7-10
    #   V   3-5   6-8   10-12
    #   W   6-7   10-11 (F2 has the port)   12-13
    only = stage("v", 3, (load("x", 12),), None, 8, out("y", 4))
    expect(13, [(0, 0, 0, 13)], network(segment(only), inputs={"x": 36}, outputs={"y": 12}))


def test_vector_only_operator_with_more_chunks_than_its_producer() -> None:
    # need(c) = ceil((c + 1) / 2): 1 1 2 2 3 3.
    #   A   M 1-21  21-41  41-61   V 21-22  41-42  61-62   W 22-24  42-44  62-64
    #   B   F 24-25  25-26  44-45  45-46  64-65  65-66
    #       V 25-29  29-33  45-49  49-53  65-69  69-73
    #       W 29-33  33-37  49-53  53-57  69-73  73-77
    producer = stage("a", 3, (load("x", 4),), multiply(3, 0, used_rows=16), 4, out("t", 16, "resident"))
    resize = stage("b", 6, (stream("t", 8, "a", 1, 2, 1, 1),), None, 16, out("y", 16))
    program = network(
        segment(
            producer,
            resize,
            switches=to_compute(0),
            writes=(tile("a", 0, rows=16),),
            allocations=(in_buffer("t", 0, 32, window=2),),
            frees=("t",),
        ),
        inputs={"x": 12},
        outputs={"y": 96},
        between={"t": 48},
    )
    expect(3 + 32 + 77, [(0, 3, 32, 77)], program)
