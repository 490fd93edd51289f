"""The precedence graph of a segment: without the dependences that others imply, and when it leaves a resource idle."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from formulations.segment import Dependence, SegmentProblem, StageData


@dataclass(frozen=True)
class Pipeline:
    """Dependences that matter, split by what they bound: ``starts`` (s_j by s_k), ``finishes`` (f_j by f_k) and
    ``operands`` (s_j by f_k)."""

    starts: tuple[Dependence, ...]
    finishes: tuple[Dependence, ...]
    operands: tuple[Dependence, ...]


class Staged(Protocol):
    """Stages in topological order and the dependences between them."""

    @property
    def stages(self) -> tuple[StageData, ...]:
        """The stages."""

    @property
    def dependences(self) -> tuple[Dependence, ...]:
        """Their dependences."""


def pipeline(problem: Staged) -> Pipeline:
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
    """How a resource that all stages use idles at either end of a pipeline that saturates it.

    ``before[j][i]``: share of the work of stage i < j that the dependences require before stage j starts (1 if j does not
    depend on i). ``ends``: direct dependences of the stages that end the pipeline, each with the share of the work of its
    ``after`` that is left once its ``before`` has finished.
    """

    before: tuple[tuple[Fraction, ...], ...]
    ends: tuple[tuple[Dependence, Fraction], ...]


def saturation(problem: SegmentProblem) -> Saturation:
    """The shares in the rows of (9) for the vector unit, main memory and the buffer."""
    chunks = [stage.chunks for stage in problem.stages]
    first: dict[tuple[int, int], int] = {}
    for dep in problem.dependences:
        pair = (dep.before, dep.after)
        first[pair] = max(first.get(pair, 1), chunks[dep.before] if dep.operand else dep.first)
    before = tuple(
        tuple(Fraction(min(first.get((i, j), chunks[i]), chunks[i]), chunks[i]) for i in range(j))
        for j in range(len(chunks))
    )
    inner = {dep.before for dep in problem.dependences}
    ends = tuple(
        (dep, Fraction(min(dep.last, chunks[dep.after]), chunks[dep.after]))
        for dep in problem.dependences
        if dep.after not in inner and not dep.between and not dep.operand
    )
    return Saturation(before, ends)
