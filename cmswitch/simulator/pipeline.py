"""The execute phase of one segment as events: fetch, MVM, vector and write stages, chunk by chunk (machine model).

Everything that can happen at an instant happens at once; requests for a resource that are made at that instant are then
served in topological order. Serving first come first served, a resource knows when a request starts as soon as it is made,
so a move costs one event.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Literal

import simpy

from cmswitch.naming import quantity
from cmswitch.simulator.problem import Move, SegmentProblem, StageProblem
from cmswitch.simulator.reload import run_reload
from cmswitch.simulator.timing import Waits

VECTOR_UNIT, WRITE_DRIVERS = -1, -2
"""The vector unit and the write drivers (all together) among the port numbers."""

_FETCH, _OPERAND, _VECTOR, _WRITE = range(4)
_ACTIONS = ("fetch", "operand", "vector", "write")
_Cause = Literal["input", "port", "window", "vector_unit", "operand"]


@dataclass(frozen=True)
class Span:
    """Work of a stage of operator ``stage`` on a port (None: its compute arrays), for the trace."""

    port: int | None
    stage: int
    action: str
    start: int
    cycles: int


@dataclass(frozen=True)
class Blocked:
    """An operator that cannot go on: ``cause`` and the operator that it waits for, if it is one."""

    stage: int
    cause: _Cause
    on: int | None


class Deadlock(Exception):
    """No operator can go on although some have not finished."""

    def __init__(self, blocked: tuple[Blocked, ...]) -> None:
        self.blocked = blocked
        super().__init__(f"{quantity(len(blocked), 'operator')} stuck, each waiting for another")


@dataclass(frozen=True)
class StageRun:
    """Start of the first fetch, end of the last write, and waits of one operator."""

    start: int
    finish: int
    waits: Waits


@dataclass(frozen=True)
class PipelineRun:
    """An execute phase: its length, the operators, cycles in use by port and peak of computing arrays."""

    cycles: int
    stages: tuple[StageRun, ...]
    busy: dict[int, int]
    writing: int
    compute_busy: int
    peak_arrays: int
    spans: tuple[Span, ...]


@dataclass
class _Stage:
    """Where one operator is: chunks that have passed each point, and since when it waits."""

    problem: StageProblem
    index: int
    free: list[int]
    """When each copy is free."""
    readers: list[tuple[int, int]] = field(default_factory=list)
    """(stage, input) of consumers in the segment."""
    operand_readers: list[int] = field(default_factory=list)
    fetching: bool = False
    fetched: int = 0
    issued: int = 0
    """Chunks whose MVMs have been given to the copies."""
    multiplied: int = 0
    in_vector: bool = False
    vectored: int = 0
    writing: bool = False
    available: int = 0
    written: int = 0
    started: int | None = None
    finished: int | None = None
    operand_ready: bool = True
    released: list[int] = field(default_factory=list)
    """Per input: chunks of its producer that this operator no longer needs."""
    since: dict[str, int] = field(default_factory=dict)
    waits: dict[_Cause, int] = field(default_factory=lambda: defaultdict(int))

    def need(self, number: int, chunk: int, total: int) -> int:
        """Chunks of the producer of input ``number``, of ``total``, that chunk ``chunk`` waits for."""
        read = self.problem.inputs[number]
        return min(total, max(0, -((read.numerator * chunk + read.offset) // -read.denominator)))

    def begin_wait(self, cause: _Cause, now: int) -> None:
        self.since.setdefault(cause, now)

    def end_wait(self, cause: _Cause, now: int) -> None:
        self.waits[cause] += now - self.since.pop(cause, now)


@dataclass(frozen=True, order=True)
class _Request:
    """A claim of ``cycles`` on ``port`` that calls ``granted`` with the cycle at which it starts.

    ``order`` (stage, action, number) breaks ties among requests made at the same cycle; waiting counts under ``cause``, if
    there is one.
    """

    order: tuple[int, int, int]
    port: int = field(compare=False)
    cycles: int = field(compare=False)
    cause: _Cause | None = field(compare=False)
    granted: Callable[[int], None] = field(compare=False)


def run_pipeline(problem: SegmentProblem, trace: bool = False) -> PipelineRun:
    """Execute the stages of a segment. Raises Deadlock if they block one another."""
    return _Pipeline(problem, trace).run()


class _Pipeline:
    def __init__(self, problem: SegmentProblem, trace: bool) -> None:
        self._env = simpy.Environment()
        self._now = 0
        self._stages = [_Stage(p, i, [0] * len(p.copies)) for i, p in enumerate(problem.stages)]
        self._write_drivers = problem.write_drivers
        self._writing = 0
        self._free: dict[int, int] = defaultdict(int)
        self._busy: dict[int, int] = defaultdict(int)
        self._requests: list[_Request] = []
        self._flush_at: int | None = None
        self._active: dict[int, int] = defaultdict(int)
        self._compute_busy = 0
        self._spans: list[Span] | None = [] if trace else None
        for stage in self._stages:
            stage.released = [0] * len(stage.problem.inputs)
            for number, read in enumerate(stage.problem.inputs):
                self._stages[read.producer].readers.append((stage.index, number))
            if stage.problem.operand_after is not None:
                stage.operand_ready = False
                self._stages[stage.problem.operand_after].operand_readers.append(stage.index)

    def run(self) -> PipelineRun:
        self._advance(*range(len(self._stages)))
        self._env.run()
        runs = []
        for stage in self._stages:
            if stage.started is None or stage.finished is None:
                raise Deadlock(tuple(self._blocked(s) for s in self._stages if s.finished is None))
            runs.append(StageRun(stage.started, stage.finished, replace(Waits(), **stage.waits)))
        for stage in self._stages:
            for arrays, free in zip(stage.problem.copies, stage.free, strict=True):
                if free:
                    self._active[free] -= arrays
        peak = max(accumulate(self._active[time] for time in sorted(self._active)), default=0)
        cycles = max((run.finish for run in runs), default=0)
        busy, spans = dict(self._busy), tuple(self._spans or ())
        return PipelineRun(cycles, tuple(runs), busy, self._writing, self._compute_busy, peak, spans)

    # --- what happens at one instant ----------------------------------------------------------------------------------

    def _advance(self, *indices: int) -> None:
        """Let these operators, and those that they set going, do all they can now."""
        agenda = list(indices)
        while agenda:
            stage = self._stages[agenda.pop()]
            moved = True
            while moved:
                moved = self._try_fetch(stage, agenda)
                moved |= self._try_multiply(stage)
                moved |= self._try_vector(stage)
                moved |= self._try_write(stage, agenda)

    def _try_fetch(self, stage: _Stage, agenda: list[int]) -> bool:
        problem, chunk = stage.problem, stage.fetched
        if stage.fetching or chunk == problem.chunks or chunk - stage.multiplied >= problem.depth:
            return False
        if problem.recurrent and chunk > stage.written:
            return False
        if self._missing_input(stage) is not None:
            stage.begin_wait("input", self._now)
            return False
        stage.end_wait("input", self._now)
        if stage.started is None:
            stage.started = self._now
        stage.fetching = True
        self._move(stage, _FETCH, problem.fetch, self._fetched, agenda)
        return True

    def _missing_input(self, stage: _Stage) -> int | None:
        """A producer that has not made enough available for the next chunk."""
        for number, read in enumerate(stage.problem.inputs):
            producer = self._stages[read.producer]
            if producer.available < stage.need(number, stage.fetched, producer.problem.chunks):
                return read.producer
        return None

    def _fetched(self, stage: _Stage, agenda: list[int]) -> None:
        stage.fetching = False
        stage.fetched += 1
        for number, read in enumerate(stage.problem.inputs):
            total = self._stages[read.producer].problem.chunks
            last = stage.fetched == stage.problem.chunks
            released = total if last else stage.need(number, stage.fetched, total) - read.span
            if released > stage.released[number]:
                stage.released[number] = released
                agenda.append(read.producer)

    def _try_multiply(self, stage: _Stage) -> bool:
        problem, chunk = stage.problem, stage.issued
        if chunk == stage.fetched or chunk - stage.vectored >= problem.depth:
            return False
        if not stage.operand_ready:
            stage.begin_wait("operand", self._now)
            return False
        stage.end_wait("operand", self._now)
        stage.issued += 1
        done = self._multiply(stage, chunk) if problem.copies else self._now
        if done > self._now:
            self._at(done, lambda: self._multiplied(stage))
        else:
            stage.multiplied += 1
        return True

    def _multiply(self, stage: _Stage, chunk: int) -> int:
        """Deal the rows of a chunk to the copies, each one row after another; when the last row is done."""
        problem, now, free = stage.problem, self._now, stage.free
        first, end = chunk * problem.rows // problem.chunks, (chunk + 1) * problem.rows // problem.chunks
        copies, rows = len(free), end - first
        if not rows:
            return max(now, *free)
        done, started = now, max(now, free[first % copies])
        for row in range(min(rows, copies)):
            copy = (first + row) % copies
            begin = max(now, free[copy])
            cycles = -((row - rows) // copies) * problem.row_cycles
            if begin > free[copy] or not free[copy]:
                if free[copy]:
                    self._active[free[copy]] -= problem.copies[copy]
                self._active[begin] += problem.copies[copy]
            free[copy] = begin + cycles
            self._compute_busy += cycles * problem.copies[copy]
            done = max(done, free[copy])
        self._record(None, stage.index, "multiply", started, done - started)
        return done

    def _multiplied(self, stage: _Stage) -> None:
        stage.multiplied += 1
        self._advance(stage.index)

    def _try_vector(self, stage: _Stage) -> bool:
        problem = stage.problem
        if stage.in_vector or stage.vectored == stage.multiplied or stage.vectored - stage.written >= problem.depth:
            return False
        if not problem.vector:
            stage.vectored += 1
            return True
        stage.in_vector = True

        def done() -> None:
            stage.in_vector = False
            stage.vectored += 1
            self._advance(stage.index)

        self._claim(stage, _VECTOR, 0, VECTOR_UNIT, problem.vector, "vector_unit", done)
        return True

    def _try_write(self, stage: _Stage, agenda: list[int]) -> bool:
        problem, chunk = stage.problem, stage.written
        if stage.writing or chunk == stage.vectored:
            return False
        if self._full_window(stage) is not None:
            stage.begin_wait("window", self._now)
            return False
        stage.end_wait("window", self._now)
        stage.writing = True
        self._move(stage, _WRITE, problem.write, self._written, agenda, self._made_available)
        return True

    def _full_window(self, stage: _Stage) -> int | None:
        """A consumer that has not released the place of the chunk to be written next."""
        for index, number in stage.readers:
            consumer = self._stages[index]
            window = consumer.problem.inputs[number].window
            if window is not None and stage.written - window >= consumer.released[number]:
                return index
        return None

    def _made_available(self, stage: _Stage, agenda: list[int]) -> None:
        stage.available += 1
        agenda.extend(index for index, _ in stage.readers)

    def _written(self, stage: _Stage, agenda: list[int]) -> None:
        stage.writing = False
        stage.written += 1
        if stage.written == stage.problem.chunks:
            stage.finished = self._now
            for index in stage.operand_readers:
                self._read_operand(self._stages[index])

    def _blocked(self, stage: _Stage) -> Blocked:
        if stage.fetched < stage.problem.chunks and (producer := self._missing_input(stage)) is not None:
            return Blocked(stage.index, "input", producer)
        if (consumer := self._full_window(stage)) is not None:
            return Blocked(stage.index, "window", consumer)
        return Blocked(stage.index, "operand", stage.problem.operand_after)

    # --- dynamic operands ---------------------------------------------------------------------------------------------

    def _read_operand(self, stage: _Stage) -> None:
        """Read all tiles of a dynamic operand in one claim of its port; writing begins with it."""
        tiles = stage.problem.operand
        read = sum(tile.read for tile in tiles)

        def granted(start: int) -> None:
            if start > self._now:
                self._at(start, partial(self._write_operand, stage))
            else:
                self._write_operand(stage)

        if read:
            self._queue(_Request((stage.index, _OPERAND, 0), tiles[0].port, read, "port", granted))
        else:
            self._write_operand(stage)

    def _write_operand(self, stage: _Stage) -> None:
        """The write drivers take one operand after another, each as long as its reload rule says."""
        run = run_reload(stage.problem.operand, self._write_drivers)
        self._writing += run.writing
        self._claim(stage, _OPERAND, 1, WRITE_DRIVERS, run.cycles, None, partial(self._operand_written, stage))

    def _operand_written(self, stage: _Stage) -> None:
        stage.operand_ready = True
        self._advance(stage.index)

    # --- resources ----------------------------------------------------------------------------------------------------

    def _move(
        self,
        stage: _Stage,
        action: int,
        moves: tuple[Move, ...],
        done: Callable[[_Stage, list[int]], None],
        agenda: list[int],
        awaited_done: Callable[[_Stage, list[int]], None] | None = None,
    ) -> None:
        """Claim the ports of all moves at once; call ``awaited_done`` and ``done`` when those awaited and all have ended."""
        left = [len(moves), sum(move.awaited for move in moves)]

        def report(awaited: bool, agenda: list[int]) -> None:
            if awaited and not left[1] and awaited_done is not None:
                awaited_done(stage, agenda)
            if not left[0]:
                done(stage, agenda)
                agenda.append(stage.index)

        def ended(awaited: bool) -> None:
            left[0] -= 1
            left[1] -= awaited
            agenda: list[int] = []
            report(awaited, agenda)
            self._advance(*agenda)

        if not left[1]:
            report(True, agenda)
        for number, move in enumerate(moves):
            self._claim(stage, action, number, move.port, move.cycles, "port", partial(ended, move.awaited))

    def _claim(
        self,
        stage: _Stage,
        action: int,
        number: int,
        port: int,
        cycles: int,
        cause: _Cause | None,
        done: Callable[[], None],
    ) -> None:
        """Queue for a port and call ``done`` when the work on it has ended."""
        order = (stage.index, action, number)
        self._queue(_Request(order, port, cycles, cause, lambda start: self._at(start + cycles, done)))

    def _queue(self, request: _Request) -> None:
        """Serve the requests of this cycle once nothing else can happen in it."""
        heapq.heappush(self._requests, request)
        if self._flush_at != self._now:
            # events of one cycle are in order of creation
            self._flush_at = self._now
            self._at(self._now, self._flush)

    def _at(self, time: int, action: Callable[[], None]) -> None:
        def happen(_: simpy.Event) -> None:
            self._now = time
            action()

        simpy.Timeout(self._env, time - self._now).callbacks.append(happen)

    def _flush(self) -> None:
        """Serve in order; an operand whose read starts now asks for the write drivers, and still is in order."""
        while self._requests:
            request = heapq.heappop(self._requests)
            start = max(self._now, self._free[request.port])
            index, action, _ = request.order
            if request.cause is not None:
                self._stages[index].waits[request.cause] += start - self._now
            self._free[request.port] = start + request.cycles
            self._busy[request.port] += request.cycles
            self._record(request.port, index, _ACTIONS[action], start, request.cycles)
            request.granted(start)
        self._flush_at = None

    def _record(self, port: int | None, stage: int, action: str, start: int, cycles: int) -> None:
        if self._spans is not None:
            self._spans.append(Span(port, stage, action, start, cycles))
