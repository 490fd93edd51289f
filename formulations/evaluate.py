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
    Traffic,
    check_problem,
    first_chunk_cycles,
    mvm_cycles,
    operand_write_cycles,
    reload_cycles,
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
    by_action: dict[tuple[int, str], dict[str, int]] = {}
    load: list[dict[str, int]] = [{} for _ in stages]
    total: dict[str, int] = {}
    for (i, action, port), cycles in traffic.cycles.items():
        by_action.setdefault((i, action), {})[port] = cycles
        total[port] = total.get(port, 0) + cycles
        if action != "operand":
            load[i][port] = load[i].get(port, 0) + cycles
    shared = {port: sum(own.get(port, 0) for own in load) for port in total}

    def longest(i: int, action: str) -> int:
        return max(by_action.get((i, action), {}).values(), default=0)

    busy = []  # L_i, rows (7)
    latency = []  # lambda_i, row (8)
    wait = []  # before the vector work of the first chunk, row (9)
    for i in span:
        ports = [shared[port] if port.startswith("arrays:") else cycles for port, cycles in load[i].items()]
        busy.append(max(mvm_cycles(stages[i], copies[i]), stages[i].vector_cycles, *ports, 0))
        wait.append(Fraction(longest(i, "fetch"), stages[i].chunks) + first_chunk_cycles(stages[i], copies[i]))
        latency.append(wait[i] + Fraction(stages[i].vector_cycles + longest(i, "write"), stages[i].chunks))
    drivers_free = Fraction(0)
    start: list[Fraction] = []
    finish: list[Fraction] = []
    for j in span:
        chunk = Fraction(busy[j], stages[j].chunks)
        begins, ends = [Fraction(0)], [Fraction(0)]
        for dep in problem.dependences:
            if dep.after != j:
                continue
            k = dep.before
            if dep.operand:
                writing = operand_write_cycles(stages[j], copies[j], problem.write_drivers)
                drivers_free = max(drivers_free + writing, finish[k] + max(writing, longest(j, "operand")))
                begins.append(drivers_free)
            else:
                via = sum((latency[m] for m in dep.between), Fraction(0))
                begins.append(start[k] + latency[k] + Fraction((dep.first - 1) * busy[k], stages[k].chunks) + via)
                ends.append(finish[k] + via + latency[j] + (dep.last - 1) * chunk)
        start.append(max(begins))
        finish.append(max(*ends, start[j] + latency[j] + busy[j] - chunk))
    work = sum(stage.vector_cycles for stage in stages)
    if not work:
        return max(*finish, *(Fraction(t) for t in total.values()))
    ideal = saturation(problem)
    head = max(wait[0], *(begin - done for begin, done in zip(start, ideal.done, strict=True)))
    tails = [Fraction(0)]
    for dep, rest in ideal.ends:
        j = dep.after
        tails.append(latency[j] + Fraction((dep.last - 1) * busy[j], stages[j].chunks) - rest)
    return max(*finish, *(Fraction(t) for t in total.values()), work + head + max(tails))
