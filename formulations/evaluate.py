"""Exact re-check and re-cost of an allocation, in rational numbers and without Pyomo.

The rows of :mod:`formulations.allocation` have one least solution for a given choice; it is computed here directly, stage
by stage in topological order. Nothing is shared with the Pyomo program or the search but the formulas of one stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from formulations.pipeline import saturation
from formulations.segment import SegmentAllocation, SegmentProblem
from formulations.stagetime import (
    Loads,
    Traffic,
    check_problem,
    operand_write_cycles,
    reload_cycles,
    stage_timing,
)


@dataclass(frozen=True)
class SegmentCost:
    """Exact cost of an allocation: cycles of the execute and of the reload phase, and the arrays in each mode."""

    execute: Fraction
    reload: Fraction
    compute_arrays: int
    memory_arrays: int

    @property
    def total(self) -> Fraction:
        """Cycles of both phases: the objective."""
        return self.execute + self.reload


def evaluate(problem: SegmentProblem, allocation: SegmentAllocation) -> SegmentCost:
    """Cost of ``allocation``. ValueError, naming the constraint, if it violates one."""
    check_problem(problem)
    compute, memory = _check_choice(problem, allocation)
    traffic = Traffic()
    traffic.add(problem.fixed, None)
    for e, chosen in enumerate(allocation.placements):
        traffic.add(problem.tensors[e][chosen].uses, e)
    return SegmentCost(
        execute=_makespan(problem, allocation.copies, traffic),
        reload=reload_cycles(problem, allocation.copies),
        compute_arrays=compute,
        memory_arrays=memory,
    )


def _check_choice(problem: SegmentProblem, allocation: SegmentAllocation) -> tuple[int, int]:
    """Arrays in compute and in memory mode; ValueError if (1) to (4) do not hold."""
    if len(allocation.copies) != len(problem.stages) or len(allocation.placements) != len(problem.tensors):
        raise ValueError("(1)(2): one number of copies per stage and one placement per tensor")
    for i, (stage, copies) in enumerate(zip(problem.stages, allocation.copies, strict=True)):
        if copies not in stage.copies:
            raise ValueError(f"(1) stage {i}: {copies} copies are not among its candidates {stage.copies}")
    for e, (placements, chosen) in enumerate(zip(problem.tensors, allocation.placements, strict=True)):
        if not 0 <= chosen < len(placements):
            raise ValueError(f"(2) tensor {e}: no placement {chosen}")
    places = [placements[o] for placements, o in zip(problem.tensors, allocation.placements, strict=True)]
    compute = sum(stage.arrays * copies for stage, copies in zip(problem.stages, allocation.copies, strict=True))
    memory = sum(place.arrays for place in places)
    buffer = sum(place.buffer_bytes for place in places)
    for name, used, limit in (
        ("(3) compute-mode arrays", compute, problem.compute_arrays),
        ("(3) memory-mode arrays", memory, problem.memory_arrays),
        ("(3) arrays", compute + memory, problem.total_arrays),
        ("(4) buffer bytes", buffer, problem.buffer_bytes),
    ):
        if used > limit:
            raise ValueError(f"{name}: {used} used, {limit} available")
    return compute, memory


def _makespan(problem: SegmentProblem, copies: tuple[int, ...], traffic: Traffic) -> Fraction:
    """Least T of rows (5) to (9)."""
    stages = problem.stages
    span = range(len(stages))
    loads = Loads(problem, traffic)
    timing = [stage_timing(stage, d, loads, i) for i, (stage, d) in enumerate(zip(stages, copies, strict=True))]
    latency = [own.latency for own in timing]
    drivers_free = Fraction(0)
    start: list[Fraction] = []
    finish: list[Fraction] = []
    for j in span:
        begins, ends, written = [Fraction(0)], [Fraction(0)], list[Fraction]()
        writing = operand_write_cycles(stages[j], copies[j], problem.write_drivers)
        for dep in problem.dependences:
            if dep.after != j:
                continue
            k = dep.before
            if dep.operand:
                written.append(finish[k] + max(writing, loads.longest(j, "operand")))
            else:
                via = sum((latency[m] for m in dep.between), Fraction(0))
                begins.append(start[k] + via + timing[k].pace(dep.first))
                ends.append(finish[k] + via + timing[j].pace(dep.last))
        if written:
            drivers_free = max(drivers_free + writing, *written)
            begins.append(drivers_free)
        start.append(max(begins))
        finish.append(max(*ends, start[j] + timing[j].pace(stages[j].chunks)))
    ideal = saturation(problem)
    first_vector = Fraction(loads.longest(0, "fetch"), stages[0].chunks) + timing[0].first
    saturated = [Fraction(0)]
    for work, operand, head in (
        ([stage.vector_cycles for stage in stages], [0 for _ in stages], first_vector),
        (*loads.shared("main"), Fraction(0)),
        (*loads.shared("buffer"), Fraction(0)),
    ):
        if not any(work) and not any(operand):
            continue
        fills, drains = [head], [Fraction(0)]
        for j in span:
            done = sum((share * work[i] for i, share in enumerate(ideal.before[j])), Fraction(0))
            fills.append(start[j] - done - sum(operand[: j + 1]))
        for dep, share in ideal.ends:
            drains.append(timing[dep.after].pace(dep.last) - share * work[dep.after])
        saturated.append(sum(work) + sum(operand) + max(fills) + max(drains))
    return max(*finish, *saturated, *map(Fraction, loads.array_totals()))
