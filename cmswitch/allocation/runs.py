"""The operators of a workload as a sequence, and bounds of all its segments at once from a few linear programs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from dataclasses import replace

import numpy as np

from cmswitch.allocation.segment import Limits, SegmentBuilder, fastest_cycles, stage_data
from cmswitch.costs.work import Moved, PieceWork
from cmswitch.costs.workload import Piece
from formulations.flow import Flow, RunBounds, flow_of
from formulations.segment import Dependence, SegmentProblem
from formulations.sequence import Cell, Program, Sequence


def sequence_of(builder: SegmentBuilder, limits: Limits) -> Sequence:
    """What holds of each operator in every segment of the workload, whatever tensors are kept."""
    workload, chip = builder.workload, builder.workload.chip
    count = len(workload.network.operators)
    works = [builder.work(Piece(k, 0, _blocks(builder, k))) for k in range(count)]
    least = _Traffic(builder, works, limits)
    traffic = [least.of(k) for k in range(count)]
    cells = []
    for cell in workload.cells:
        tails: Counter[int] = Counter()
        if not builder.work(cell).dynamic:
            for (rank, _, read), tiles in builder.weight_tiles(builder.work(cell)).items():
                tails[-rank] += tiles * read
        writes = sum(chip.array_write_cycles(t.rows) for t in builder.work(cell).tiles)
        cells.append(Cell(cell.operator, workload.arrays(cell), writes, tuple(sorted(tails.items()))))
    return Sequence(
        stages=tuple(stage_data(work, limits, in_segment=False) for work in works),
        moved=tuple(moved for moved, _ in traffic),
        busy=tuple(longer for _, longer in traffic),
        cells=tuple(cells),
        dependences=tuple(_dependences(builder, limits)),
        compute_arrays=limits.compute,
        write_drivers=chip.array.arrays_written_at_once,
    )


def _blocks(builder: SegmentBuilder, operator: int) -> int:
    grid = builder.workload.footprints[operator]
    return 1 if grid is None else grid.blocks


class _Traffic:
    """The least cycles of operators' traffic, wherever their tensors may live in any segment."""

    def __init__(self, builder: SegmentBuilder, works: list[PieceWork], limits: Limits) -> None:
        self.chip, self.network, self.works, self.limits = (
            builder.workload.chip,
            builder.workload.network,
            works,
            limits,
        )
        self._most = [self._most_arrays(t) for t in range(len(self.network.tensors))]

    def of(self, k: int) -> tuple[int, int]:
        """(fetching and writing, the longer of them) of operator k over all chunks."""
        fetch = max((self._least(k, m) for m in self.works[k].reads if m.role != "operand"), default=0)
        write = max((self._least(k, m) for m in self.works[k].writes), default=0)
        return fetch + write, max(fetch, write)

    def _least(self, k: int, moved: Moved) -> int:
        chip, size = self.chip, self.works[k].chunk_bytes(moved.bytes)
        ways = [chip.main_cycles(size)]
        if self.network.tensors[moved.tensor].producer is not None:
            ways.append(chip.buffer_cycles(size))
            if self._most[moved.tensor]:
                ways.append(chip.arrays_cycles(size, self._most[moved.tensor]))
        return self.works[k].chunks * min(ways)

    def _most_arrays(self, tensor: int) -> int:
        """No segment offers the tensor more memory-mode arrays: as many as hold it, or less than twice what its traffic needs to
        take no longer than its producer at its fastest."""
        producer, memory = self.network.tensors[tensor].producer, self.limits.memory
        if producer is None or not memory:
            return 0
        work = self.works[producer]
        size = self.chip.activation_bytes(self.network.tensors[tensor].elements)
        whole = -(-work.chunk_bytes(size) * work.chunks // self.chip.array_bytes)
        fastest = fastest_cycles(work, self.limits)
        enough = 1 + bisect_left(range(1, memory), True, key=lambda n: self._traffic(tensor, n) <= fastest)
        return min(memory, max(whole, 2 * enough))

    def _traffic(self, tensor: int, arrays: int) -> int:
        """All traffic of the tensor on the port of its arrays."""
        chip, total = self.chip, 0
        for k in (self.network.tensors[tensor].producer, *self.network.consumers[tensor]):
            assert k is not None
            work = self.works[k]
            for moved in (*work.reads, *work.writes):
                if moved.tensor == tensor and moved.role == "operand":
                    total += sum(chip.arrays_cycles(t.bytes, arrays) for t in work.tiles)
                elif moved.tensor == tensor:
                    total += work.chunks * chip.arrays_cycles(work.chunk_bytes(moved.bytes), arrays)
        return total


def _dependences(builder: SegmentBuilder, limits: Limits) -> list[Dependence]:
    """Between operators that some segment contains."""
    workload, found = builder.workload, []
    arrays = [workload.arrays(c) for c in workload.cells]
    for before, end in enumerate(workload.end_cell):
        last, used = end, arrays[end - 1]
        while last < len(arrays) and used + arrays[last] <= limits.compute:
            used += arrays[last]
            last += 1
        for after in range(before + 1, workload.cells[last - 1].operator + 1):
            lead = builder.dependences.lead(before, after)
            if lead is not None:
                found.append(Dependence(before, after, lead.first, lead.last, lead.between, lead.operand))
    return found


class Runs:
    """Bounds of all segments of a workload from the flows of some of them.

    ``bounds[first, last]``: cycles that no allocation of the segment of cells ``first`` to ``last`` (exclusive) undercuts,
    whatever tensors are kept.
    """

    def __init__(self, builder: SegmentBuilder, limits: Limits) -> None:
        self.sequence = sequence_of(builder, limits)
        self._runs = RunBounds(self.sequence)
        self._flows: dict[tuple[int, int], Flow | None] = {}
        cells = len(builder.workload.cells)
        self.bounds = np.zeros((cells + 1, cells + 1))

    def add(self, first: int, last: int) -> Flow | None:
        """Raise all bounds by the flow that bounds one segment best; None if its linear program has no solution."""
        if (first, last) not in self._flows:
            cells = self.sequence.cells
            program = self.sequence.program(cells[first].operator, cells[last - 1].operator + 1)
            prices = _prices(program)
            flow = None if prices is None else flow_of(self.sequence, program, prices)
            self._flows[first, last] = flow
            if flow is not None:
                self.use(flow)
        return self._flows[first, last]

    def use(self, flow: Flow) -> None:
        """Raise all bounds by a flow, with its prices of the reload and of arrays and without."""
        for theta in sorted({0.0, flow.theta, 1.0}):
            for rho in sorted({0.0, flow.rho}):
                self.bounds = np.maximum(self.bounds, self._runs.bounds(flow, theta, rho))

    def bound(self, first: int, last: int) -> float:
        """The bound of a segment by its own flow (cycles), on which :meth:`narrowed` builds."""
        flow = self.add(first, last)
        return 0.0 if flow is None else float(self._runs.bounds(flow, flow.theta, flow.rho)[first, last])

    def narrowed(self, first: int, last: int, problem: SegmentProblem, most: float) -> SegmentProblem:
        """``problem``, the segment's program, without the copies with which it costs more than ``most`` cycles."""
        flow, spare = self.add(first, last), most - self.bound(first, last)
        if flow is None:
            return problem
        excess = self._runs.excess(flow, first, last)
        stages = []
        for k, stage in enumerate(problem.stages, self.sequence.cells[first].operator):
            more = excess.get(k, {})
            copies = tuple(d for d in stage.copies if more.get(d, 0.0) <= spare)
            stages.append(replace(stage, copies=copies or stage.copies))
        return replace(problem, stages=tuple(stages))


def _prices(program: Program) -> list[float] | None:
    """The dual prices of the rows; None if there is no solution."""
    from solvers import LinearProgram, solve_linear

    columns, rows = len(program.cost), len(program.tags)
    linear = LinearProgram(
        maximise=False,
        offset=0.0,
        cost=program.cost,
        lower=program.lower,
        upper=[math.inf] * columns,
        integer=[False] * columns,
        names=[f"x{column}" for column in range(columns)],
        row_lower=program.row_lower,
        row_upper=program.row_upper,
        row_names=[f"r{row}" for row in range(rows)],
        starts=program.starts,
        columns=program.columns,
        coefficients=program.coefficients,
    )
    return solve_linear(linear).prices
