"""Programs whose cycles are worked out by hand from ``docs/machine-model.md``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cmswitch.program.program import After, Allocate, Buffer, Emit, MemoryArrays, Program, SegmentProgram, Switch
from cmswitch.simulator import SimulationError, Timing, Waits, machine, simulate
from cmswitch.simulator.pipeline import PipelineRun, run_pipeline
from cmswitch.simulator.problem import BUFFER, MAIN, Move, SegmentProblem, StageProblem, Tile
from cmswitch.simulator.timing import Energy
from tests.small_programs import CHIP, program, read, segment, stage, tile, to_compute

TO_MAIN = Emit("y", ("main",), 1)


def run_one(one: SegmentProgram, outputs: dict[str, int] | None = None, others: dict[str, int] | None = None) -> Timing:
    return simulate(program([one], {"x": 8}, {"y": 4} if outputs is None else outputs, others), CHIP)


def test_one_operator_and_all_phases() -> None:
    conv = stage("conv", 4, [read("x", 2)], [TO_MAIN], rows=4, copies=[(0,)], vector=3)
    timing = run_one(segment([conv], [tile("conv", 0, size=16)], [to_compute(0)]))
    (only,) = timing.segments
    assert (only.store_cycles, only.switch_cycles) == (0, 2)
    # The tile is read in 16 cycles, which is longer than writing it: 12 by one driver.
    assert only.reload_cycles == 16
    # Fetch [0,2], four MVMs back to back [2,22], the last vector work [22,25] and write [25,26].
    assert only.execute_cycles == 26
    assert timing.total_cycles == 44
    assert timing.first_reload_cycles == 16
    assert (timing.switches, timing.switch_cycles, timing.peak_active_arrays) == (1, 2, 1)
    busy = timing.busy
    assert (busy.main_memory, busy.vector_unit, busy.write_drivers, busy.compute_arrays) == (16 + 8 + 4, 12, 12, 20)


def test_fetch_bound_pipeline_is_double_buffered() -> None:
    conv = stage("conv", 4, [read("x", 7)], [Emit("z", ("resident",), 2)], rows=4, copies=[(0,)], vector=3)
    keep = [Allocate("z", Buffer(((0, 8),)))]
    timing = run_one(segment([conv], [tile("conv", 0)], [to_compute(0)], keep, ["z"]), outputs={}, others={"z": 8})
    # Fetches back to back [0,28] behind which MVM 5, vector 3 and write 2/2 = 1 of the last chunk remain.
    assert timing.segments[0].execute_cycles == 28 + 5 + 3 + 1


def test_rows_are_dealt_to_copies_across_chunks() -> None:
    conv = stage("conv", 2, [read("x", 1)], [TO_MAIN], rows=8, copies=[(0,), (1,), (2,)])
    timing = run_one(segment([conv], [tile("conv", 0, 1, 2)], [to_compute(0, 1, 2)]), outputs={"y": 2})
    # Rows 0-3 fetched at 1: copies 0,1,2 [1,6], row 3 on copy 0 [6,11]. Rows 4-7 fetched at 2: rows 4,5 on copies 1,2 [6,11],
    # rows 6,7 on copies 0,1 [11,16]: ceil(8/3) x 5 = 15 in all. Write [16,17].
    assert timing.segments[0].execute_cycles == 17
    assert timing.peak_active_arrays == 3
    assert timing.busy.compute_arrays == 8 * 5


def test_chunk_without_rows_and_vector_only_operator() -> None:
    # One row in two chunks: chunk 0 has floor(1/2) = 0 rows. Fetch [0,1], [1,2]; the row [2,7]; writes [1,2]+..., last [7,8].
    conv = stage("conv", 2, [read("x", 1)], [Emit("z", ("resident",), 2)], rows=1, copies=[(0,)])
    # Waits for both chunks: fetch 2 bytes [8,9], vector 4 [9,13], write 1 [13,14].
    pool = stage("pool", 1, [read("z", 2, "resident", After("conv", 0, 1, 2, 2))], [TO_MAIN], vector=4)
    keep = [Allocate("z", Buffer(((60, 4),)))]
    one = segment([conv, pool], [tile("conv", 0)], [to_compute(0)], keep, ["z"])
    timing = run_one(one, outputs={"y": 1}, others={"z": 4})
    assert timing.segments[0].execute_cycles == 14
    assert [(s.operator, s.start, s.finish) for s in timing.segments[0].stages] == [("conv", 0, 8), ("pool", 8, 14)]


@pytest.mark.parametrize(
    ("tiles", "cycles"),
    [
        # (bytes, copies) in program order; one array is written in 12 cycles by one of two drivers.
        ([(4, 2), (4, 1), (4, 1)], 24),  # reads [0,4] [4,8] [8,12]; all writing (24 + 12 + 12) / 2; 8 + 12 is less
        ([(4, 1), (4, 2), (4, 1)], 24),  # the same in another order, for all drivers start at 0
        ([(4, 1), (4, 1), (4, 1)], 20),  # the last tile is read from 8 on; all writing takes only 36 / 2
        ([(8, 1), (20, 1)], 28),  # read [0,8] [8,28]; 8 + 12 and (12 + 12) / 2 are less
        ([(20, 1), (4, 3)], 38),  # three copies of the second tile from 20 on: 20 + 36 / 2; all from 0 on 48 / 2
    ],
)
def test_reload_ends_with_a_read_an_array_or_all_writing(tiles: list[tuple[int, int]], cycles: int) -> None:
    stages, writes, array = [], [], 0
    for number, (size, count) in enumerate(tiles):
        arrays = range(array, array := array + count)
        name = f"o{number}"
        copies = [(a,) for a in arrays]
        stages.append(stage(name, 1, [read("x", 1)], [Emit(f"y{number}", ("main",), 1)], rows=1, copies=copies))
        writes.append(tile(name, *arrays, size=size))
    outputs = {f"y{number}": 1 for number in range(len(tiles))}
    timing = run_one(segment(stages, writes, [to_compute(*range(array))]), outputs=outputs)
    assert timing.segments[0].reload_cycles == cycles
    assert timing.busy.write_drivers == 12 * array


def test_vector_unit_serves_first_come_first_served() -> None:
    a = stage("a", 1, [read("x", 1)], [Emit("y", ("main",), 1)], rows=1, copies=[(0,)], vector=6)
    b = stage("b", 1, [read("x", 1)], [Emit("z", ("main",), 1)], rows=1, copies=[(1,)], vector=6)
    one = segment([a, b], [tile("a", 0), tile("b", 1)], [to_compute(0, 1)])
    timing = run_one(one, outputs={"y": 1, "z": 1})
    # Both ask for main memory at 0: a [0,1], b [1,2] (topological order). MVM a [1,6], b [2,7].
    # Vector a [6,12], b [12,18]. Write a [12,13], b [18,19].
    first, second = timing.segments[0].stages
    assert (first.finish, second.finish) == (13, 19)
    assert second.waits == Waits(port=1, vector_unit=5)
    assert timing.peak_active_arrays == 2


def window_program(window: int) -> Program:
    a = stage("a", 6, [read("x", 1)], [Emit("z", ("resident",), 2)], rows=6, copies=[(0,)])
    b = stage("b", 6, [read("z", 2, "resident", After("a", 1, 1, 2, 2))], [TO_MAIN], rows=12, copies=[(1,)])
    keep = [Allocate("z", Buffer(((0, 4),)), window)]
    one = segment([a, b], [tile("a", 0), tile("b", 1)], [to_compute(0, 1)], keep, ["z"])
    return program([one], {"x": 6}, {"y": 6}, {"z": 12})


def test_window_blocks_its_producer() -> None:
    timing = simulate(window_program(2), CHIP)
    # a: MVM k [1+5k, 6+5k]. b waits for chunks 0..c+1 of a: its chunk 0 at 12, fetch [12,13], MVM c [13+10c, 23+10c].
    # b fetches chunk 1 at 17 and chunk c >= 2 when a slot is free: [3+10c, 4+10c]; then it has released c+1 chunks.
    # a writes chunk 5 when b has released chunk 3, at 34: done at 31, blocked 3 cycles. b ends its MVMs at 73, write [73,74].
    a, b = timing.segments[0].stages
    assert (a.finish, a.waits.window) == (35, 3)
    assert (b.start, b.finish) == (12, 74)
    # The input is missing until 12 and, for chunk 1, from 13 to 17; later the slot is what is missing.
    assert b.waits == Waits(input=12 + 4)


def test_window_too_small_is_a_deadlock_that_names_the_operators() -> None:
    with pytest.raises(
        SimulationError, match=r"deadlock.*'a' cannot write.*until 'b' releases.*'b' waits for more output of 'a'"
    ):
        simulate(window_program(1), CHIP)


def test_dynamic_operand_is_written_when_its_producer_has_finished() -> None:
    a = stage("a", 2, [read("x", 1)], [Emit("k", ("resident",), 2)], rows=2, copies=[(0,)])
    operand = [tile("b", 1, 2, source="k")]
    b = stage("b", 2, [read("x", 1)], [TO_MAIN], 2, [(1,), (2,)], operand=operand, operand_after="a")
    keep = [Allocate("k", Buffer(((0, 4),)))]
    one = segment([a, b], [tile("a", 0)], [to_compute(0, 1, 2)], keep, ["k"])
    timing = run_one(one, outputs={"y": 2}, others={"k": 4})
    # Main memory: a [0,1], b [1,2], a [2,3], b [3,4]. a's MVMs [1,11], its last write [11,12].
    # The operand is read [12,14] and written [12,24] into both copies, a driver each. MVMs [24,29], writes [29,30] [30,31].
    b_timing = timing.segments[0].stages[1]
    assert timing.segments[0].execute_cycles == 31
    assert b_timing.waits.operand == 24 - 2
    assert timing.busy.buffer == 2 + 2


def test_write_drivers_take_one_operand_after_another() -> None:
    a = stage("a", 1, [read("x", 1)], [Emit("k", ("main",), 8)], rows=1, copies=[(0,)])
    stages = [a]
    for name, array in (("b", 1), ("c", 3)):
        tiles = [tile(name, array, source="k"), tile(name, array + 1, source="k", row_block=1)]
        copies = [(array, array + 1)]
        output = [Emit(f"y{name}", ("main",), 1)]
        stages.append(stage(name, 1, [read("x", 1)], output, 1, copies, operand=tiles, operand_after="a"))
    one = segment(stages, [tile("a", 0)], [to_compute(0, 1, 2, 3, 4)])
    timing = run_one(one, outputs={"yb": 1, "yc": 1}, others={"k": 8})
    # Fetches a [0,1] b [1,2] c [2,3]. a's MVM [1,6], write [6,14]. Main memory: b's two tiles [14,22], c's [22,30].
    # Two tiles of 4 bytes, read in 4 + 4: the second is read from 4 on and written in 12, in all 16 (all writing 24 / 2).
    # Drivers: b [14,30]; c asks at 22 and has them [30,46]. MVM b [30,35], c [46,51]; writes [35,36], [51,52].
    assert [s.finish for s in timing.segments[0].stages] == [14, 36, 52]
    assert timing.segments[0].stages[2].waits.operand == 46 - 3
    assert timing.busy.write_drivers == 12 * 5


def test_operands_that_ask_for_the_write_drivers_together_are_served_in_topological_order() -> None:
    outputs = [Emit("k", ("main",), 4), Emit("l", ("resident",), 4)]
    a = stage("a", 1, [read("x", 1)], outputs, rows=1, copies=[(0,)])
    to_b, to_c = [tile("b", 1, 2, source="k")], [tile("c", 3, source="l")]
    b = stage("b", 1, [read("x", 1)], [TO_MAIN], 1, [(1,), (2,)], operand=to_b, operand_after="a")
    c = stage("c", 1, [read("x", 1)], [Emit("z", ("main",), 1)], 1, [(3,)], operand=to_c, operand_after="a")
    keep = [Allocate("l", Buffer(((0, 4),)))]
    one = segment([a, b, c], [tile("a", 0)], [to_compute(0, 1, 2, 3)], keep, ["l"])
    timing = run_one(one, outputs={"y": 1, "z": 1}, others={"k": 4, "l": 4})
    # a: MVM [1,6], writes to main memory [6,10] and buffer [6,8]. Reads start at 10: b [10,14], c [10,12].
    # Write drivers: both copies of b [10,22], then c [22,34]. b: MVM [22,27], write [27,28]; c: [34,39], [39,40].
    assert [s.finish for s in timing.segments[0].stages] == [10, 28, 40]


def test_operand_whose_read_had_to_queue_asks_for_the_write_drivers_when_it_starts() -> None:
    idle = StageProblem(1, (), (), 0, 0, (), 2, 0, (), (), None)
    early, late = replace(idle, write=(Move(MAIN, 2),)), replace(idle, write=(Move(BUFFER, 10),))
    product = replace(idle, rows=1, row_cycles=1, copies=(1,))
    b = replace(product, operand=(Tile(BUFFER, 1, 5, 1),), operand_after=1)
    c = replace(product, operand=(Tile(MAIN, 1, 5, 1),), operand_after=0)
    other = replace(idle, fetch=(Move(MAIN, 8),))
    run = run_pipeline(SegmentProblem((), (), (early, late, b, c, other), 1))
    # Main memory: early [0,2], other [2,10], c's operand (asked at 2) [10,11]. Buffer: late [0,10], b's operand [10,11].
    # Both ask for the one driver at 10: b [10,15], c [15,20]; an MVM of 1 each.
    assert [stage.finish for stage in run.stages] == [2, 10, 16, 21, 10]
    assert (run.cycles, run.writing) == (21, 10)


def test_output_that_streams_to_main_memory_is_available_when_its_on_chip_write_is_done() -> None:
    a = stage("a", 1, [read("x", 1)], [Emit("z", ("resident", "main"), 6)], rows=1, copies=[(0,)])
    b = stage("b", 1, [read("z", 6, "resident", After("a", 0, 1, 1, 1))], [TO_MAIN], vector=1)
    keep = [Allocate("z", MemoryArrays((4, 5, 6)))]
    one = segment([a, b], [tile("a", 0)], [to_compute(0)], keep, ["z"])
    timing = run_one(one, outputs={"y": 1}, others={"z": 6})
    # a: fetch [0,1], MVM [1,6], write to 3 arrays [6,8], to main memory [6,12]. b: fetch [8,10], vector [10,11];
    # main memory is busy until 12, so its write is [12,13].
    a_timing, b_timing = timing.segments[0].stages
    assert (a_timing.finish, b_timing.start, b_timing.finish) == (12, 8, 13)
    assert b_timing.waits == Waits(input=8, port=1)
    assert timing.busy.memory_arrays == 4


def test_output_that_is_needed_whole_moves_chunk_by_chunk() -> None:
    a = stage("a", 2, [read("x", 1)], [Emit("z", ("resident",), 4)], rows=2, copies=[(0,)])
    b = stage("b", 2, [read("z", 4, "resident", After("a", 0, 1, 2, 2))], [TO_MAIN], vector=1)
    keep = [Allocate("z", Buffer(((0, 8),)))]
    one = segment([a, b], [tile("a", 0)], [to_compute(0)], keep, ["z"])
    timing = run_one(one, outputs={"y": 2}, others={"z": 8})
    # a: MVMs [1,6] [6,11], 4 bytes to the buffer [6,8] [11,13]. b: fetch [13,15] [15,17], vector [17,18], write [18,19].
    a_timing, b_timing = timing.segments[0].stages
    assert (a_timing.finish, b_timing.start, b_timing.finish) == (13, 13, 19)


def two_segments() -> Program:
    """y is kept in two arrays, stored at the cut, and read from main memory afterwards; arrays change mode both ways."""
    a = stage("a", 2, [read("x", 1)], [Emit("z", ("resident",), 10)], rows=2, copies=[(0,)])
    first = segment([a], [tile("a", 0)], [to_compute(0, 1, 2, 3, 4)], [Allocate("z", MemoryArrays((6, 7)))])
    b = stage("b", 2, [read("z", 1)], [TO_MAIN], rows=2, copies=[(6,)])
    second = segment([b], [tile("b", 6)], [Switch("TOM", (0,)), to_compute(6)], stores=["z"])
    return program([first, second], {"x": 2}, {"y": 2}, {"z": 20})


def test_store_and_switch_phases() -> None:
    first, second = simulate(two_segments(), CHIP).segments
    # 5 arrays, 4 at once: 2 x 2 cycles.
    assert first.switch_cycles == 4
    # Fetch [0,1], MVMs [1,11], last write of 10 bytes over 2 arrays [11,16].
    assert first.execute_cycles == 16
    # 20 bytes leave over main memory (20 cycles) and the two arrays (10) at the same time; one array each way: 2 + 3.
    assert (second.store_cycles, second.switch_cycles) == (20, 5)


def test_resident_weights_save_the_first_reload_only() -> None:
    cold = two_segments()
    timing = simulate(replace(cold, resident_weights=True), CHIP)
    assert [s.reload_cycles for s in timing.segments] == [0, 12]
    assert timing.first_reload_cycles == 0
    assert simulate(cold, CHIP).total_cycles == timing.total_cycles + 12


def test_operand_of_an_earlier_segment_is_read_from_where_it_lives() -> None:
    a = stage("a", 1, [read("x", 1)], [Emit("k", ("resident",), 40)], rows=1, copies=[(0,)])
    first = segment([a], [tile("a", 0)], [to_compute(0, 1)], [Allocate("k", Buffer(((0, 40),)))])
    b = stage("b", 1, [read("x", 1)], [TO_MAIN], rows=1, copies=[(1,)])
    second = segment([b], [tile("b", 1, size=40, source="k")], frees=["k"])
    timing = simulate(program([first, second], {"x": 1}, {"y": 1}, {"k": 40}), CHIP)
    # 40 bytes at 2 bytes/cycle: the write (12) ends with the read (20).
    assert timing.segments[1].reload_cycles == 20
    assert timing.busy.buffer == 20 + 20


def test_equal_segments_are_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[SegmentProblem] = []

    def counted(problem: SegmentProblem, trace: bool) -> PipelineRun:
        calls.append(problem)
        return run_pipeline(problem, trace)

    monkeypatch.setattr(machine, "run_pipeline", counted)
    segments = []
    for number in range(3):
        a = stage(f"a{number}", 2, [read("x", 1)], [Emit(f"z{number}", ("resident",), 2)], rows=2, copies=[(number,)])
        place = Buffer(((8 * number, 4),)) if number else Buffer(((0, 2), (10, 2)))
        keep = [Allocate(f"z{number}", place)]
        segments.append(segment([a], [tile(f"a{number}", number)], [to_compute(number)], keep, [f"z{number}"]))
    timing = simulate(program(segments, {"x": 2}, {}, {f"z{n}": 4 for n in range(3)}), CHIP)
    assert len(calls) == 1
    assert [s.execute_cycles for s in timing.segments] == [12, 12, 12]
    assert timing.segments[2].stages[0].operator == "a2"


def test_energy_counts_what_the_chip_gives_and_lists_the_rest() -> None:
    timing = simulate(two_segments(), CHIP)
    energy = timing.energy
    assert energy.by_component["mvm"] == 10 * (2 + 2)
    assert energy.by_component["main_memory_read"] == 2 * (4 + 2 + 4 + 2)
    assert energy.by_component["array_write"] == 0.5 * 8
    # 1 mW at 100 MHz is 10 pJ per cycle.
    assert energy.by_component["static"] == 10 * timing.total_cycles
    assert energy.not_modelled == ("vector", "buffer", "memory_arrays", "main_memory_write", "switch")
    assert energy.total_pj == sum(energy.by_component.values())


def test_conversions_are_part_of_an_mvm_that_has_a_figure() -> None:
    """Otherwise they are not modelled, and with a figure of their own they count."""

    def energy(**figures: int) -> Energy:
        chip = CHIP.with_changes(energy=figures)
        return simulate(replace(two_segments(), chip_sha256=chip.sha256), chip).energy

    assert "adc" not in {*energy(mvm_pj=10).not_modelled, *energy(mvm_pj=10).by_component}
    assert {"mvm", "adc"} <= set(energy(vector_pass_pj=1).not_modelled)
    both = energy(mvm_pj=10, adc_conversion_pj=2)
    passes = -(-CHIP.precision.input_bits // CHIP.array.dac_bits)  # all rows at once
    assert both.by_component["adc"] == 2 * (2 + 2) * passes * CHIP.array.columns


def test_trace_is_json_with_a_track_per_resource() -> None:
    timing = simulate(two_segments(), CHIP, trace=True)
    assert timing.trace is not None
    events = json.loads(json.dumps(timing.trace))["traceEvents"]
    tracks = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    resources = {"main memory", "buffer", "vector unit", "write drivers", "operator a", "arrays [0]"}
    assert {"segments", "phases", *resources} <= set(tracks)
    spans = [e for e in events if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in spans) == timing.total_cycles
    by_track: dict[int, int] = {}
    for event in sorted((e for e in spans if e["tid"] == tracks["main memory"]), key=lambda e: e["ts"]):
        assert event["ts"] >= by_track.get(event["tid"], 0)
        by_track[event["tid"]] = event["ts"] + event["dur"]
    assert {e["args"]["mode"] for e in spans if "cname" in e} == {"compute", "memory", "switch"}
    assert simulate(two_segments(), CHIP).trace is None
    assert simulate(two_segments(), CHIP) == timing
