r"""The operators of a network in their order, and a linear program that bounds any run of them as one segment.

Every run of the sequence is a segment; what is known of an operator here holds in all of them. Its tensors are at their least
traffic wherever they may live, so that only the copies remain to be chosen, and with those relaxed the rows of
:mod:`formulations.allocation` become a linear program in the starts, finishes and copies of the run (:meth:`Sequence.program`).
Its dual prices turn into one bound of every run at once (:mod:`formulations.flow`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from formulations.pipeline import Pipeline, pipeline
from formulations.segment import Dependence, StageData
from formulations.stagetime import first_chunk_cycles, mvm_cycles, operand_write_cycles

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """The least piece of an operator that a segment holds: arrays and write cycles (one driver) of one copy; ``reads`` are the
    tiles of constant weights, as (cycles by which the writing of one outlasts its read, cycles of reading all of those)."""

    operator: int
    arrays: int
    copy_write_cycles: int
    reads: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Sequence:
    """``stages`` are whole operators whose operand, if dynamic, arises outside the segment; ``moved[k]`` the least cycles of
    fetching and writing over all chunks, ``busy[k]`` the least of what else keeps the operator busy, both wherever tensors live.

    ``cells`` cut the operators into what segments are made of; of an operator of several cells only the weights count.
    ``dependences`` are between whole operators; those that no segment contains may be missing.
    """

    stages: tuple[StageData, ...]
    moved: tuple[int, ...]
    busy: tuple[int, ...]
    cells: tuple[Cell, ...]
    dependences: tuple[Dependence, ...]
    compute_arrays: int
    write_drivers: int

    @cached_property
    def first_cell(self) -> tuple[int, ...]:
        """For each operator the position of its first cell, and at the end the number of cells."""
        starts: list[int] = []
        for position, cell in enumerate(self.cells):
            if len(starts) <= cell.operator:
                starts.append(position)
        return (*starts, len(self.cells))

    @cached_property
    def times(self) -> tuple[Times, ...]:
        """Cycles of each operator by its copies."""
        whole = [end - start == 1 for start, end in pairwise(self.first_cell)]
        return tuple(_times(self, k) if one else _nothing() for k, one in enumerate(whole))

    @cached_property
    def edges(self) -> Pipeline:
        """The precedence rows that matter."""
        return pipeline(self)

    @cached_property
    def producer(self) -> dict[int, int]:
        """The producer of each dynamic operand."""
        return {dep.after: dep.before for dep in self.edges.operands}

    @cached_property
    def vector(self) -> Vector:
        """Vector cycles of each operator."""
        return np.array([t.vector for t in self.times])

    def preceding(self, j: int) -> Vector:
        """For each operator before j the vector cycles that must precede the start of j."""
        share = np.array([float(stage.vector_cycles) for stage in self.stages[:j]])
        for dep in self._into[j]:
            chunks = self.stages[dep.before].chunks
            first = chunks if dep.operand else min(dep.first, chunks)
            share[dep.before] = self.stages[dep.before].vector_cycles * first / chunks
        return share

    @cached_property
    def _into(self) -> list[list[Dependence]]:
        into: list[list[Dependence]] = [[] for _ in self.stages]
        for dep in self.dependences:
            into[dep.after].append(dep)
        return into

    @cached_property
    def reading(self) -> Vector:
        """By (first, last - 1) cell of a run what reading its weights takes, and the last writing that follows.

        The longest tails are read first, so that the tiles with a tail of t or more are all read when at least t is left.
        """
        result = np.zeros((len(self.cells), len(self.cells)))
        for least in sorted({tail for cell in self.cells for tail, _ in cell.reads}):
            each = [float(sum(read for tail, read in cell.reads if tail >= least)) for cell in self.cells]
            until = np.concatenate(([0.0], np.cumsum(each)))
            read = until[None, 1:] - until[:-1, None]
            result = np.maximum(result, np.where(read > 0, read + max(0, least), 0.0))
        return result

    def program(self, first: int, last: int) -> Program:
        """The linear program of the operators ``first`` to ``last`` (exclusive) as one segment."""
        return _Writer(self, first, last).program()


@dataclass(frozen=True)
class Times:
    """Cycles of an operator by its ``copies`` (one entry each), and whatever the copies.

    ``mvm`` over all chunks, ``chunk`` of MVMs in the first chunk, ``busy`` over all chunks without MVMs, ``operand`` for writing
    a dynamic operand in the segment, ``writing`` in the reload phase; ``arrays``. ``moved`` is part of the latency of a chunk,
    ``vector`` the work of the vector unit in total.
    """

    copies: Vector
    mvm: Vector
    busy: Vector
    chunk: Vector
    operand: Vector
    writing: Vector
    arrays: Vector
    moved: float
    vector: float


def _times(sequence: Sequence, k: int) -> Times:
    stage, drivers = sequence.stages[k], sequence.write_drivers
    copies = np.array(stage.copies, dtype=float)
    chunk = np.array([first_chunk_cycles(stage, d) for d in stage.copies], float)
    moved = (sequence.moved[k] + stage.vector_cycles) / stage.chunks
    latency = stage.chunks * (moved + chunk) if stage.recurrent else 0.0
    return Times(
        copies=copies,
        mvm=np.array([mvm_cycles(stage, d) for d in stage.copies], float),
        busy=np.maximum(np.full(len(copies), float(max(stage.vector_cycles, sequence.busy[k]))), latency),
        chunk=chunk,
        operand=np.array([operand_write_cycles(stage, d, drivers) for d in stage.copies], float),
        writing=copies * stage.copy_write_cycles / drivers,
        arrays=copies * stage.arrays,
        moved=moved,
        vector=float(stage.vector_cycles),
    )


def _nothing() -> Times:
    """Of an operator of several cells, whose weights are counted by cell."""
    zero = np.zeros(1)
    return Times(zero, zero, zero, zero, zero, zero, zero, 0.0, 0.0)


@dataclass(frozen=True)
class Pace:
    """What a row of (8) charges, beside ``moved``: shares of the cycles of one operator, and one chunk of those ``between``."""

    operator: int
    chunk: float
    busy: float
    mvm: float
    between: tuple[int, ...]


@dataclass
class Program:
    """``minimise cost x`` with ``row_lower <= A x <= row_upper``, ``lower <= x``; A by rows as in compressed sparse rows.

    ``tags[r]`` says what row r is: ``(kind, ...)`` with operators.
    """

    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    coefficients: list[float] = field(default_factory=list)
    tags: list[tuple[object, ...]] = field(default_factory=list)

    def column(self, cost: float = 0.0, lower: float = 0.0) -> int:
        """A new variable."""
        self.cost.append(cost)
        self.lower.append(lower)
        return len(self.cost) - 1

    def row(
        self, tag: tuple[object, ...], terms: Iterable[tuple[int, float]], lower: float, upper: float = np.inf
    ) -> None:
        """A new row."""
        for column, coefficient in terms:
            self.columns.append(column)
            self.coefficients.append(coefficient)
        self.starts.append(len(self.columns))
        self.row_lower.append(lower)
        self.row_upper.append(upper)
        self.tags.append(tag)


class _Writer:
    """Writes the program of one run."""

    def __init__(self, sequence: Sequence, first: int, last: int) -> None:
        self.sequence, self.span = sequence, range(first, last)
        self.lp = lp = Program()
        self.makespan = lp.column(cost=1.0)
        self.start = {k: lp.column() for k in self.span}
        self.finish = {k: lp.column() for k in self.span}
        self.mvm = {k: lp.column() for k in self.span}
        self.busy = {k: lp.column() for k in self.span}
        self.chunk = {k: lp.column() for k in self.span}
        self.written = {j: lp.column() for j, k in sequence.producer.items() if k in self.span and j in self.span}
        self.operand = {j: lp.column() for j in self.written}

    def program(self) -> Program:
        self._copies()
        self._pipeline()
        self._operands()
        self._vector_unit()
        return self.lp

    def _copies(self) -> None:
        """(1), (3), (5), (7), (10)."""
        lp, sequence = self.lp, self.sequence
        first, last = sequence.first_cell[self.span.start], sequence.first_cell[self.span.stop]
        cells = sequence.cells[first:last]
        reload = lp.column(cost=1.0, lower=float(sequence.reading[first, last - 1]))
        writing: list[tuple[int, float]] = [(reload, 1.0)]
        arrays: list[tuple[int, float]] = []
        for k in self.span:
            times = sequence.times[k]
            own = [lp.column() for _ in times.copies]
            lp.row(("one", k), [(y, 1.0) for y in own], 1.0, 1.0)
            for variable, cycles in (
                (self.mvm[k], times.mvm),
                (self.busy[k], times.busy),
                (self.chunk[k], times.chunk),
            ):
                if cycles.any():
                    lp.row(("by copies", k), [(variable, 1.0), *zip(own, -cycles, strict=True)], 0.0)
            if k in self.operand:
                lp.row(("by copies", k), [(self.operand[k], 1.0), *zip(own, -times.operand, strict=True)], 0.0)
            else:
                writing += zip(own, -times.writing, strict=True)
            arrays += zip(own, times.arrays, strict=True)
        cut = [c for c in cells if not sequence.times[c.operator].copies.any()]
        lp.row(("reload",), writing, sum(c.copy_write_cycles for c in cut) / sequence.write_drivers)
        lp.row(("arrays",), arrays, -np.inf, sequence.compute_arrays - sum(c.arrays for c in cut))

    def _inside(self, deps: Iterable[Dependence]) -> Iterable[Dependence]:
        return (d for d in deps if d.before in self.span and d.after in self.span)

    def _pipeline(self) -> None:
        """(8)."""
        lp, sequence, start, finish = self.lp, self.sequence, self.start, self.finish
        for k in self.span:
            for pace in self._pace(k, sequence.stages[k].chunks):
                self._row(("run", k, pace), finish[k], start[k])
            lp.row(("end", k), [(self.makespan, 1.0), (finish[k], -1.0)], 0.0)
        for dep in self._inside(sequence.edges.starts):
            for pace in self._pace(dep.before, dep.first, dep.between):
                self._row(("start", dep, pace), start[dep.after], start[dep.before])
        for dep in self._inside(sequence.edges.finishes):
            for pace in self._pace(dep.after, dep.last, dep.between):
                self._row(("finish", dep, pace), finish[dep.after], finish[dep.before])

    def _pace(self, k: int, chunks: int, between: tuple[int, ...] = ()) -> list[Pace]:
        """The two terms of the time that ``chunks`` of operator k take, one if the other is never greater."""
        share = chunks / self.sequence.stages[k].chunks
        each = 1 / self.sequence.stages[k].chunks
        latency = Pace(k, chunk=1.0, busy=share - each, mvm=0.0, between=between)
        return [latency, Pace(k, chunk=0.0, busy=0.0, mvm=share, between=between)] if chunks > 1 else [latency]

    def _row(self, tag: tuple[object, ...], later: int, earlier: int) -> None:
        pace = tag[-1]
        assert isinstance(pace, Pace)
        terms = [(self.chunk[pace.operator], -pace.chunk), (self.busy[pace.operator], -pace.busy)]
        terms += [(self.mvm[pace.operator], -pace.mvm), *((self.chunk[m], -1.0) for m in pace.between)]
        moved = sum(self.sequence.times[m].moved for m in (pace.operator, *pace.between))
        self.lp.row(tag, [(later, 1.0), (earlier, -1.0), *(t for t in terms if t[1])], moved)

    def _operands(self) -> None:
        lp, written = self.lp, self.written
        for dep in self._inside(self.sequence.edges.operands):
            j = dep.after
            lp.row(("operand", dep), [(written[j], 1.0), (self.finish[dep.before], -1.0), (self.operand[j], -1.0)], 0.0)
        for j in written:
            lp.row(("written", j), [(self.start[j], 1.0), (written[j], -1.0)], 0.0)
        users = sorted(written)
        for i, j in pairwise(users):
            lp.row(("drivers", i, j), [(written[j], 1.0), (written[i], -1.0), (self.operand[j], -1.0)], 0.0)

    def _vector_unit(self) -> None:
        """(9): the head of a pipeline that the vector unit saturates."""
        lp, sequence = self.lp, self.sequence
        work = float(sequence.vector[self.span.start : self.span.stop].sum())
        if not work:
            return
        head = lp.column()
        lp.row(("vector",), [(self.makespan, 1.0), (head, -1.0)], work)
        for j in self.span:
            done = float(sequence.preceding(j)[self.span.start :].sum())
            lp.row(("head", j), [(head, 1.0), (self.start[j], -1.0)], -done)
