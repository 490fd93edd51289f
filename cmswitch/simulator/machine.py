"""The timing simulation of a whole program: checks, phases of each segment, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cmswitch.program.program import Allocate, Program, SegmentProgram
from cmswitch.program.text import format_statement
from cmswitch.simulator.energy import program_energy
from cmswitch.simulator.legality import SimulationError, check_program
from cmswitch.simulator.lower import lower_segment
from cmswitch.simulator.pipeline import VECTOR_UNIT, Blocked, Deadlock, PipelineRun, run_pipeline
from cmswitch.simulator.problem import BUFFER, FIRST_ARRAYS, MAIN, SegmentProblem
from cmswitch.simulator.reload import ReloadRun, run_reload
from cmswitch.simulator.timing import Busy, SegmentTiming, StageTiming, Timing
from cmswitch.simulator.trace import TracedSegment, chrome_trace
from hw import Chip


@dataclass(frozen=True)
class _Run:
    """The simulation of one segment problem."""

    store_cycles: int
    reload: ReloadRun
    execute: PipelineRun
    busy: Busy


def simulate(program: Program, chip: Chip, trace: bool = False) -> Timing:
    """Run a program on a chip by the machine model; with ``trace``, also record what was in use when.

    Raises SimulationError for a program that breaks a rule of the machine or that cannot finish.
    """
    places = check_program(program, chip)
    program = _paid(program)
    sizes = {tensor.name: tensor.bytes for tensor in program.tensors}
    runs: dict[SegmentProblem, _Run] = {}
    timings: list[SegmentTiming] = []
    traced: list[TracedSegment] = []
    busy, peak, switches, kept = Busy(), 0, 0, dict[str, Allocate]()
    for index, (segment, place) in enumerate(zip(program.segments, places, strict=True)):
        stored = [(kept[store.tensor], sizes[store.tensor]) for store in segment.stores]
        lowered = lower_segment(segment, place, stored, chip)
        run = runs.get(lowered.problem)
        if run is None:
            try:
                run = runs[lowered.problem] = _run(lowered.problem, trace)
            except Deadlock as deadlock:
                raise _deadlock_error(deadlock, segment, index) from deadlock
        timing, changed = _segment_timing(segment, run, chip)
        timings.append(timing)
        busy, peak, switches = busy + run.busy, max(peak, run.execute.peak_arrays), switches + changed
        kept = dict(place.execute)
        if trace:
            traced.append(TracedSegment(segment, timing, run.execute.spans, lowered.array_ports))
    total = sum(timing.total_cycles for timing in timings)
    return Timing(
        total_cycles=total,
        segments=tuple(timings),
        busy=busy,
        peak_active_arrays=peak,
        switches=switches,
        switch_cycles=sum(timing.switch_cycles for timing in timings),
        first_reload_cycles=timings[0].reload_cycles if timings else 0,
        energy=program_energy(program, places, chip, total),
        trace=chrome_trace(program.network, traced, chip.arrays) if trace else None,
    )


def _paid(program: Program) -> Program:
    """The program without the writes that cost nothing because their weights are resident from the start."""
    if not program.resident_weights or not program.segments:
        return program
    first = program.segments[0]
    writes = tuple(tile for tile in first.writes if tile.source is not None)
    return replace(program, segments=(replace(first, writes=writes), *program.segments[1:]))


def _run(problem: SegmentProblem, trace: bool) -> _Run:
    reload = run_reload(problem.reload, problem.write_drivers)
    execute = run_pipeline(problem, trace)
    by_port = dict(execute.busy)
    for port, cycles in [(move.port, move.cycles) for move in problem.store] + [
        (t.port, t.read) for t in problem.reload
    ]:
        by_port[port] = by_port.get(port, 0) + cycles
    busy = Busy(
        main_memory=by_port.get(MAIN, 0),
        buffer=by_port.get(BUFFER, 0),
        memory_arrays=sum(cycles for port, cycles in by_port.items() if port >= FIRST_ARRAYS),
        vector_unit=by_port.get(VECTOR_UNIT, 0),
        write_drivers=reload.writing + execute.writing,
        compute_arrays=execute.compute_busy,
    )
    return _Run(max((move.cycles for move in problem.store), default=0), reload, execute, busy)


def _segment_timing(segment: SegmentProgram, run: _Run, chip: Chip) -> tuple[SegmentTiming, int]:
    to_compute = sum(len(switch.arrays) for switch in segment.switches if switch.mode == "TOC")
    to_memory = sum(len(switch.arrays) for switch in segment.switches if switch.mode == "TOM")
    stages = tuple(
        StageTiming(stage.operator, result.start, result.finish, result.waits)
        for stage, result in zip(segment.stages, run.execute.stages, strict=True)
    )
    timing = SegmentTiming(
        store_cycles=run.store_cycles,
        switch_cycles=chip.switch_cycles(to_compute, to_memory),
        reload_cycles=run.reload.cycles,
        execute_cycles=run.execute.cycles,
        stages=stages,
    )
    return timing, to_compute + to_memory


def _deadlock_error(deadlock: Deadlock, segment: SegmentProgram, index: int) -> SimulationError:
    def explain(blocked: Blocked) -> str:
        name = segment.stages[blocked.stage].operator
        on = "" if blocked.on is None else f" {segment.stages[blocked.on].operator!r}"
        return {
            "input": f"{name!r} waits for more output of{on}",
            "window": f"{name!r} cannot write: its window is full until{on} releases it",
            "operand": f"{name!r} waits for its operand from{on}",
        }[blocked.cause]

    reasons = "; ".join(explain(blocked) for blocked in deadlock.blocked)
    statement = format_statement(segment.stages[deadlock.blocked[0].stage])
    return SimulationError(f"deadlock, a window is too small or a dependence is circular: {reasons}", statement, index)
