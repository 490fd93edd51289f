"""A cheap valid lower bound of the segment problem."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from fractions import Fraction
from math import floor

from formulations.pipeline import saturation
from formulations.relaxation import Box, Relaxation
from formulations.segment import SegmentProblem, StageData
from formulations.sharing import shared_bound
from formulations.shrinking import paths
from formulations.stagetime import check_problem, first_chunk_cycles, mvm_cycles

PRECISION = 128  # the bisection ends when its interval is this many times smaller than the bound
ROUNDS = 3  # how often a target's copies and their reload are worked out from each other


def lower_bound(problem: SegmentProblem) -> Fraction | float:
    """Cycles that no allocation of ``problem`` undercuts; ``inf`` if none fits. ValueError if the problem is not well formed.

    The least target that is not refuted by the copies each stage needs for it with every other stage at its fastest, the
    arrays and the reload of those copies, and the tensors at their cheapest.
    """
    check_problem(problem)
    spare = _spare_arrays(problem)
    if spare < 0:
        return float("inf")
    needs = _Needs(problem, spare)
    bound = needs.least
    if not needs.refute(bound):
        return Fraction(bound, needs.scale)
    step, reached = max(1, bound // PRECISION), None
    while reached is None or reached - bound > bound // PRECISION:
        target = bound + step if reached is None else (bound + reached) // 2
        if needs.refute(target):
            bound, step = target + 1, 3 * step
        elif target == bound:
            break
        else:
            reached = target
    return Fraction(bound, needs.scale)


def _spare_arrays(problem: SegmentProblem) -> int:
    """(3) Arrays left for further copies beside the fewest of everything; negative if that does not fit, or (4) is broken."""
    compute = sum(stage.arrays * stage.copies[0] for stage in problem.stages)
    memory = sum(min(place.arrays for place in places) for places in problem.tensors)
    buffer = sum(min(place.buffer_bytes for place in places) for places in problem.tensors)
    if memory > problem.memory_arrays or buffer > problem.buffer_bytes:
        return -1
    return min(problem.compute_arrays, problem.total_arrays - memory) - compute


class _Needs:
    """The copies that targets need. Times are scaled as in :class:`~formulations.relaxation.Relaxation`."""

    def __init__(self, problem: SegmentProblem, spare: int) -> None:
        self.stages = problem.stages
        self.spare = spare
        tops = [_largest_fitting(stage, spare) for stage in problem.stages]
        ends = [tuple(sorted({s.copies[0], s.copies[top]})) for s, top in zip(problem.stages, tops, strict=True)]
        narrow = [replace(stage, copies=copies) for stage, copies in zip(problem.stages, ends, strict=True)]
        relaxation = Relaxation(replace(problem, stages=tuple(narrow)))
        box: Box = relaxation.box()
        times = relaxation.times(box)
        self.relaxation, self.times, self.tops = relaxation, times, tops
        self.scale = relaxation.scale
        self.least_reload = relaxation.reload_of([0] * relaxation.count)
        self.least = max(
            times.makespan + self.least_reload, floor(shared_bound(problem, saturation(problem)) * self.scale)
        )
        self.paths = paths(relaxation, times, *relaxation.tails(box, times))

    def refute(self, target: int) -> bool:
        """Whether no allocation costs at most ``target``, as far as this relaxation can tell."""
        most = target - self.least_reload
        for _ in range(ROUNDS):
            if most < self.times.makespan:
                return True
            options = self._options(most)
            if options is None:
                return True
            left = target - self.relaxation.reload_of_copies(options)
            if left == most:
                return False
            most = left
        return most < self.times.makespan

    def _options(self, most: int) -> list[int] | None:
        """Copies that each stage needs for the makespan ``most``; None if they do not fit together."""
        spare, copies = self.spare, []
        for i, stage in enumerate(self.stages):
            ways, other = self.paths[i], self.times.other[i]
            room, scale, chunk = most - self.times.moved[i], self.scale, self.relaxation.share_of_chunk[i]

            def enough(
                d: int,
                stage: StageData = stage,
                ways: list[tuple[int, int]] = ways,
                other: int = other,
                room: int = room,
                scale: int = scale,
                chunk: int = chunk,
            ) -> bool:
                mvm, first = mvm_cycles(stage, d), scale * first_chunk_cycles(stage, d)
                return all(
                    fixed + max(first + weight * other, (weight + chunk) * mvm) <= room for fixed, weight in ways
                )

            d = stage.copies[0]
            if not enough(d):
                top = self.tops[i]
                d = stage.copies[bisect_left(stage.copies, True, 0, top, key=enough)]
                spare -= stage.arrays * (d - stage.copies[0])
                if spare < 0:
                    return None
            copies.append(d)
        return copies


def _largest_fitting(stage: StageData, spare: int) -> int:
    """Number of the largest option of ``stage`` that takes at most ``spare`` arrays more than its smallest."""
    if not stage.arrays:
        return 0
    most = stage.copies[0] + spare // stage.arrays
    return bisect_left(stage.copies, most + 1) - 1
