"""The event simulator against one that steps through every cycle, with explicit queues and single matrix rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import event, given, settings
from hypothesis import strategies as st

from cmswitch.simulator.pipeline import VECTOR_UNIT, Deadlock, run_pipeline
from cmswitch.simulator.problem import Input, Move, SegmentProblem, StageProblem, Tile

LIMIT = 3000
"""Cycles after which the small problems of this test have long finished or are blocked."""


@dataclass
class Job:
    """``cycles`` of work on a resource with a queue; the steps that it completes are told apart by ``what``."""

    order: tuple[int, int, int]
    cycles: int
    what: tuple[str, int]
    left: int = -1


@dataclass
class Operator:
    """An operator by the cycle at which each step of each chunk happened."""

    fetch_left: int = -1
    write_left: int = -1
    awaited_left: int = -1
    fetched: int = 0
    multiplied: int = 0
    entered: int = 0
    in_vector: bool = False
    vectored: int = 0
    available: int = 0
    written: int = 0
    start: int = -1
    finish: int = -1
    operand: int = 0
    rows_done: int = 0
    copy_left: dict[int, tuple[int, int]] = field(default_factory=dict)
    next_row: dict[int, int] = field(default_factory=dict)


class Stepping:
    def __init__(self, problem: SegmentProblem) -> None:
        self.problem, self.now = problem, 0
        self.stages = problem.stages
        self.state = [Operator(operand=2 if s.operand_after is None else 0) for s in self.stages]
        self.queues: dict[int, list[Job]] = defaultdict(list)
        self.running: dict[int, Job] = {}
        self.new: dict[int, list[Job]] = defaultdict(list)
        self.operands: list[int] = []  # those that wait for the write drivers; the first has them
        self.driven = 0  # cycles for which it has had them

    def run(self) -> list[tuple[int, int]] | None:
        """Start and finish of every operator; None if they block one another."""
        while self.now < LIMIT:
            while any(self.settle(index) for index in range(len(self.stages))):
                pass
            self.serve()
            if all(s.finish >= 0 for s in self.state):
                return [(s.start, s.finish) for s in self.state]
            self.now += 1
            self.tick()
        return None

    def need(self, read: Input, chunk: int) -> int:
        total = self.stages[read.producer].chunks
        exact = (read.numerator * chunk + read.offset) / read.denominator
        return min(total, max(0, int(exact) + (exact > int(exact))))

    def chunk_of(self, index: int, row: int) -> int:
        stage = self.stages[index]
        return next(c for c in range(stage.chunks) if row < (c + 1) * stage.rows // stage.chunks)

    def rows_until(self, index: int, chunk: int) -> int:
        return chunk * self.stages[index].rows // self.stages[index].chunks

    def released(self, index: int, read: Input) -> int:
        state, stage = self.state[index], self.stages[index]
        if state.fetched == stage.chunks:
            return self.stages[read.producer].chunks
        return max([0, *(self.need(read, c + 1) - read.span for c in range(state.fetched))])

    def claim(self, index: int, kind: int, moves: tuple[Move, ...], what: str) -> None:
        for number, move in enumerate(moves):
            name = what if move.awaited else f"{what}-stream"
            self.new[move.port].append(Job((index, kind, number), move.cycles, (name, index)))

    def settle(self, index: int) -> bool:
        """Whatever operator ``index`` can do at this instant; whether it did anything."""
        stage, state = self.stages[index], self.state[index]
        before = repr(state)
        slot = state.fetched < stage.chunks and state.fetched - state.multiplied < stage.depth
        ready = all(self.state[r.producer].available >= self.need(r, state.fetched) for r in stage.inputs)
        if state.fetch_left < 0 and slot and ready:
            state.start = self.now if state.start < 0 else state.start
            state.fetch_left = len(stage.fetch)
            self.claim(index, 0, stage.fetch, "fetch")
        if state.fetch_left == 0:
            state.fetched, state.fetch_left = state.fetched + 1, -1
        if state.entered < state.fetched and state.entered - state.vectored < stage.depth and state.operand == 2:
            state.entered += 1
        self.start_rows(index)
        while state.multiplied < state.entered and (
            not stage.copies or state.rows_done >= self.rows_until(index, state.multiplied + 1)
        ):
            state.multiplied += 1
        if not state.in_vector and state.vectored < state.multiplied and state.vectored - state.written < stage.depth:
            if stage.vector:
                state.in_vector = True
                self.new[VECTOR_UNIT].append(Job((index, 2, 0), stage.vector, ("vector", index)))
            else:
                state.vectored += 1
        if state.write_left < 0 and state.written < state.vectored and self.room(index):
            state.write_left, state.awaited_left = len(stage.write), sum(m.awaited for m in stage.write)
            self.claim(index, 3, stage.write, "write")
        if state.awaited_left == 0:
            state.available, state.awaited_left = state.available + 1, -1
        if state.write_left == 0:
            state.written, state.write_left = state.written + 1, -1
        if state.written == stage.chunks and state.finish < 0:
            state.finish = self.now
        after = stage.operand_after
        if after is not None and state.operand == 0 and self.state[after].finish >= 0:
            state.operand = 1
            read = sum(t.read for t in stage.operand)
            self.new[stage.operand[0].port].append(Job((index, 1, 0), read, ("operand", index)))
        return repr(state) != before

    def room(self, index: int) -> bool:
        return all(
            read.window is None or self.released(reader, read) > self.state[index].written - read.window
            for reader, stage in enumerate(self.stages)
            for read in stage.inputs
            if read.producer == index
        )

    def start_rows(self, index: int) -> None:
        stage, state = self.stages[index], self.state[index]
        for copy in range(len(stage.copies)):
            row = state.next_row.get(copy, copy)
            if copy not in state.copy_left and row < stage.rows and self.chunk_of(index, row) < state.entered:
                state.copy_left[copy] = (row, stage.row_cycles)
                state.next_row[copy] = row + len(stage.copies)

    def serve(self) -> None:
        """Queue the requests of this instant in order; start the first of each queue whose resource is idle."""
        for port, jobs in self.new.items():
            self.queues[port] += sorted(jobs, key=lambda j: j.order)
        self.new.clear()
        for port, queue in self.queues.items():
            if queue and port not in self.running:
                job = self.running[port] = queue.pop(0)
                job.left = job.cycles
        # An operand asks for the write drivers in the cycle in which its read starts.
        reading = [job for job in self.running.values() if job.what[0] == "operand"]
        self.operands += sorted(job.what[1] for job in reading if job.left == job.cycles)

    def written(self, tiles: tuple[Tile, ...]) -> bool:
        """Whether the drivers have had these tiles for long enough: each is read, then written once, then all that follow."""
        read = 0
        for number, tile in enumerate(tiles):
            since = self.driven - read
            left = sum(t.copies * t.write for t in tiles[number:])
            if since < max(tile.read, tile.write) or since * self.problem.write_drivers < left:
                return False
            read += tile.read
        return True

    def tick(self) -> None:
        """What ends as the clock reaches ``now``."""
        for port, job in list(self.running.items()):
            job.left -= 1
            if job.left == 0:
                del self.running[port]
                self.ended(*job.what)
        if self.operands:
            self.driven += 1
            if self.written(self.stages[self.operands[0]].operand):
                self.state[self.operands.pop(0)].operand = 2
                self.driven = 0
        for state in self.state:
            for copy, (row, left) in list(state.copy_left.items()):
                state.copy_left[copy] = (row, left - 1)
                if left == 1:
                    del state.copy_left[copy]
                    state.rows_done += 1

    def ended(self, what: str, index: int) -> None:
        state = self.state[index]
        if what == "fetch":
            state.fetch_left -= 1
        elif what.startswith("write"):
            state.write_left -= 1
            state.awaited_left -= what == "write"
        elif what == "vector":
            state.in_vector = False
            state.vectored += 1


@st.composite
def moves(draw: st.DrawFn, stream: bool = False) -> tuple[Move, ...]:
    ports = draw(st.lists(st.integers(0, 2), unique=True, max_size=2))
    awaited = [Move(port, draw(st.integers(1, 5))) for port in ports]
    if stream and awaited and draw(st.booleans()):
        awaited.append(Move(0, draw(st.integers(1, 5)), awaited=False))
    return tuple(awaited)


@st.composite
def problems(draw: st.DrawFn) -> SegmentProblem:
    stages: list[StageProblem] = []
    for index in range(draw(st.integers(1, 4))):
        chunks = draw(st.integers(1, 5))
        inputs: list[Input] = []
        for producer in draw(st.lists(st.integers(0, index - 1), unique=True, max_size=2)) if index else []:
            window = draw(st.none() | st.integers(1, 3))
            if window is None:
                numbers = [draw(st.integers(low, high)) for low, high in ((0, 3), (1, 2), (0, 3), (1, 3))]
            else:
                # A window that is just large enough, on a consumer in step with its producer.
                chunks = stages[producer].chunks
                numbers = [1, 1, draw(st.integers(1, window)), window]
            numerator, denominator, offset, span = numbers
            inputs.append(Input(producer, numerator, denominator, offset, span, window))
        copies = (1,) * draw(st.integers(0, 4))
        rows = draw(st.integers(1, 12)) if copies else 0
        operand: tuple[Tile, ...] = ()
        operand_after = None
        if index and copies and draw(st.booleans()):
            port, operand_after = draw(st.integers(0, 2)), draw(st.integers(0, min(1, index - 1)))
            tile = st.builds(Tile, st.just(port), st.integers(1, 6), st.integers(1, 9), st.just(len(copies)))
            operand = tuple(draw(st.lists(tile, min_size=1, max_size=3)))
        stages.append(
            StageProblem(
                chunks=chunks,
                fetch=draw(moves()),
                inputs=tuple(inputs),
                rows=rows,
                row_cycles=draw(st.integers(1, 5)) if copies else 0,
                copies=copies,
                depth=2 - (1 - len(copies)) * chunks // rows if copies else 2,
                vector=draw(st.integers(0, 5)),
                write=draw(moves(stream=True)),
                operand=operand,
                operand_after=operand_after,
            )
        )
    return SegmentProblem((), (), tuple(stages), draw(st.integers(1, 3)))


@settings(max_examples=150)
@given(problems())
def test_events_equal_steps(problem: SegmentProblem) -> None:
    expected = Stepping(problem).run() if problem.stages else []
    try:
        run = run_pipeline(problem)
    except Deadlock:
        event("deadlock")
        assert expected is None
        return
    assert [(stage.start, stage.finish) for stage in run.stages] == expected
    rows = sum(s.rows * s.row_cycles for s in problem.stages)
    assert run.compute_busy == rows
    assert run.writing == sum(tile.copies * tile.write for s in problem.stages for tile in s.operand)
