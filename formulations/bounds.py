"""A cheap valid lower bound of the segment problem."""

from __future__ import annotations

from fractions import Fraction

from formulations.relaxation import Box, Relaxation
from formulations.segment import SegmentProblem
from formulations.shrinking import shrink

PRECISION = Fraction(1, 64)  # relative width of the last bisection interval


def lower_bound(problem: SegmentProblem) -> Fraction | float:
    """Cycles that no allocation of ``problem`` undercuts; ``inf`` if none fits. ValueError if the problem is not well formed.

    The least target that the copies each stage needs for it, their reload, and the tensors at their cheapest do not refute.
    """
    relaxation = Relaxation(problem)
    least, _, _ = least_target(relaxation, relaxation.box(), relaxation.ceiling(), PRECISION)
    return float("inf") if least is None else Fraction(least, relaxation.scale)


def least_target(
    relaxation: Relaxation, box: Box, most: int, precision: Fraction
) -> tuple[int | None, list[Box], Box | None]:
    """Bisect for the least target that shrinking ``box`` does not refute.

    The bound (None if even ``most`` is refuted), the boxes that the targets not refuted left, and the smallest of them.
    """
    widest = box.copy()
    refuted = shrink(relaxation, widest, most)
    if refuted is None:
        return None, [], None
    bound, boxes = refuted, []
    step = max(1, int(bound * precision))
    reached: int | None = None
    while reached is None or reached - bound > max(0, int(bound * precision)):
        target = min(most, bound + step) if reached is None else (bound + reached) // 2
        trial = widest.copy()
        if shrink(relaxation, trial, target) is None:
            bound = target + 1
            step *= 3
        else:
            boxes.append(trial)
            if target == bound:
                return bound, boxes, trial
            reached = target
    return bound, boxes, boxes[-1]
