"""The precedence graph of a segment: without the dependences that others imply, and what it leaves the vector unit idle."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from formulations.segment import Dependence, SegmentProblem


@dataclass(frozen=True)
class Pipeline:
    """Dependences that matter, split by what they bound: ``starts`` (s_j by s_k), ``finishes`` (f_j by f_k) and
    ``operands`` (s_j by f_k)."""

    starts: tuple[Dependence, ...]
    finishes: tuple[Dependence, ...]
    operands: tuple[Dependence, ...]


def pipeline(problem: SegmentProblem) -> Pipeline:
    """Leave out every row that two others add up to.

    Over the path k -> .. -> m -> j the start row k -> j follows from k -> m and m -> j if ``first`` is no greater for k -> j
    than for k -> m; the finish row follows from k -> m and m -> j if ``last`` is no greater for k -> j than for m -> j.
    """
    first: dict[tuple[int, int, tuple[int, ...]], int] = {}
    last: dict[tuple[int, int, tuple[int, ...]], int] = {}
    for dep in problem.dependences:
        key = (dep.before, dep.after, dep.between)
        # An operand waits for all of its producer: as if every chunk of both stages were concerned.
        first[key] = max(first.get(key, 1), problem.stages[dep.before].chunks if dep.operand else dep.first)
        last[key] = max(last.get(key, 1), problem.stages[dep.after].chunks if dep.operand else dep.last)

    def start_implied(dep: Dependence) -> bool:
        if not dep.between:
            return False
        m = dep.between[-1]
        return (m, dep.after, ()) in first and first.get((dep.before, m, dep.between[:-1]), 0) >= dep.first

    def finish_implied(dep: Dependence) -> bool:
        if not dep.between:
            return False
        m = dep.between[0]
        return (dep.before, m, ()) in last and last.get((m, dep.after, dep.between[1:]), 0) >= dep.last

    plain = [dep for dep in problem.dependences if not dep.operand]
    return Pipeline(
        starts=tuple(dep for dep in plain if not start_implied(dep)),
        finishes=tuple(dep for dep in plain if not finish_implied(dep)),
        operands=tuple(dep for dep in problem.dependences if dep.operand),
    )


@dataclass(frozen=True)
class Saturation:
    """How the vector unit idles at either end of a pipeline that it saturates.

    ``done[j]``: vector cycles that the dependences require before stage j starts (all work of an earlier stage that j does
    not depend on). ``ends``: direct dependences of the stages that end the pipeline, each with the vector cycles that its
    ``after`` still has to do once its ``before`` has finished.
    """

    done: tuple[Fraction, ...]
    ends: tuple[tuple[Dependence, Fraction], ...]


def saturation(problem: SegmentProblem) -> Saturation:
    """The constants of the rows of (9) for the vector unit."""
    stages = problem.stages
    first: dict[tuple[int, int], int] = {}
    for dep in problem.dependences:
        pair = (dep.before, dep.after)
        first[pair] = max(first.get(pair, 1), stages[dep.before].chunks if dep.operand else dep.first)
    scale = lcm(*(stage.chunks for stage in stages))
    per_chunk = [stage.vector_cycles * (scale // stage.chunks) for stage in stages]
    done = []
    for j in range(len(stages)):
        work = sum(min(first.get((i, j), stages[i].chunks), stages[i].chunks) * per_chunk[i] for i in range(j))
        done.append(Fraction(work, scale))
    inner = {dep.before for dep in problem.dependences}
    ends = tuple(
        (
            dep,
            Fraction(
                min(dep.last, stages[dep.after].chunks) * stages[dep.after].vector_cycles, stages[dep.after].chunks
            ),
        )
        for dep in problem.dependences
        if dep.after not in inner and not dep.between and not dep.operand
    )
    return Saturation(tuple(done), ends)
