"""Exact branch and bound for the segment problem, without a solver.

Depth first over boxes (:mod:`formulations.relaxation`): shrink the box to what can still beat the incumbent, try the fewest
copies left as a new incumbent, split the choice with the largest effect. Bounds are exact integers, so the proof is too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from formulations.evaluate import SegmentCost, evaluate
from formulations.relaxation import Box, Relaxation, bits
from formulations.segment import SegmentAllocation, SegmentProblem
from formulations.shrinking import least_target, shrink

SearchEnd = Literal["optimal", "infeasible", "cutoff", "node_limit", "interrupted"]
ROOT_PRECISION = Fraction(1, 512)
CHECK_EVERY = 16  # nodes between two looks at should_stop


@dataclass(frozen=True)
class SearchResult:
    """Outcome of :func:`solve_segment`.

    ``bound``: cycles that no allocation undercuts (``inf``: none fits). ``termination``: ``optimal`` (within the gap),
    ``infeasible``, ``cutoff`` (nothing below ``upper``), ``node_limit`` or ``interrupted``; with the last two ``allocation`` may
    still be there, and ``bound`` is what was proven.
    """

    allocation: SegmentAllocation | None
    cost: SegmentCost | None
    bound: Fraction | float
    nodes: int
    termination: SearchEnd

    @property
    def gap(self) -> float | None:
        """``(cost - bound) / cost``; None without an allocation."""
        if self.cost is None:
            return None
        return float((self.cost.total - self.bound) / self.cost.total) if self.cost.total else 0.0


def solve_segment(
    problem: SegmentProblem,
    gap: float = 0.0,
    upper: Fraction | int | None = None,
    node_limit: int | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SearchResult:
    """Best allocation of ``problem`` within the relative ``gap``; only below ``upper`` cycles if that is given.

    ValueError if the problem is not well formed.
    """
    search = _Search(problem, Fraction(gap), upper)
    end = search.run(node_limit, should_stop)
    allocation = search.allocation()
    cost = None
    if allocation is not None:
        cost = evaluate(problem, allocation)
        if cost.total * search.relaxation.scale != search.best:
            raise ArithmeticError(f"the search costs an allocation at {search.best}, the exact re-cost at {cost.total}")
    bound = math.inf if search.bound is None else Fraction(search.bound, search.relaxation.scale)
    return SearchResult(allocation, cost, bound, search.nodes, end)


class _Search:
    """State of one search; all costs scaled."""

    def __init__(self, problem: SegmentProblem, gap: Fraction, upper: Fraction | int | None) -> None:
        self.relaxation = Relaxation(problem)
        self.gap = gap
        ceiling = self.relaxation.ceiling()
        self.best = ceiling if upper is None else min(ceiling, math.ceil(upper * self.relaxation.scale))
        self.limited = upper is not None
        self.options: list[int] | None = None
        self.placements: list[int] = []
        self.bound: int | None = 0
        self.nodes = 0

    def run(self, node_limit: int | None, should_stop: Callable[[], bool] | None) -> SearchEnd:
        """Search; afterwards ``best``, ``bound`` and the incumbent are set."""
        relaxation = self.relaxation
        root = relaxation.box()
        least, boxes = least_target(relaxation, root, self.best - 1, ROOT_PRECISION)
        if least is None:
            return self._nothing()
        for box in reversed(boxes):
            self._offer(box)
        if self.options is not None:
            self._improve(should_stop)
        stack = [(least, root)]
        while stack:
            bound, box = stack.pop()
            stopped: SearchEnd | None = None
            if node_limit is not None and self.nodes >= node_limit:
                stopped = "node_limit"
            elif should_stop is not None and self.nodes % CHECK_EVERY == 0 and should_stop():
                stopped = "interrupted"
            if stopped is not None:
                self.bound = min(self.target() + 1, self.best, max(least, min([bound, *(b for b, _ in stack)])))
                return stopped
            self.nodes += 1
            stack.extend(self._expand(box))
        if self.options is None:
            return self._nothing()
        self.bound = max(least, min(self.best, self.target() + 1))
        return "optimal"

    def target(self) -> int:
        """What an allocation may cost to be better than the incumbent by more than the gap."""
        return math.ceil(self.best * (1 - self.gap)) - 1

    def allocation(self) -> SegmentAllocation | None:
        """The incumbent."""
        if self.options is None:
            return None
        stages = self.relaxation.problem.stages
        copies = tuple(stage.copies[k] for stage, k in zip(stages, self.options, strict=True))
        return SegmentAllocation(copies, tuple(self.placements))

    def _nothing(self) -> SearchEnd:
        self.bound = self.best if self.limited else None
        return "cutoff" if self.limited else "infeasible"

    def _expand(self, box: Box) -> list[tuple[int, Box]]:
        """The children of ``box`` that may hold something better, the most promising last."""
        bound = shrink(self.relaxation, box, self.target())
        while bound is not None and self._offer(box):
            bound = shrink(self.relaxation, box, self.target())
        if bound is None:
            return []
        children = []
        for child in self._split(box):
            below = shrink(self.relaxation, child, self.target())
            if below is not None:
                children.append((max(bound, below), child))
        children.sort(key=lambda node: -node[0])
        return children

    def _split(self, box: Box) -> list[Box]:
        """Halve the choice with the largest effect on a stage or a port; nothing if all are made."""
        relaxation = self.relaxation
        largest, stage, tensor = -1, None, None
        for i, (low, high) in enumerate(zip(box.low, box.high, strict=True)):
            if low < high:
                effect = relaxation.mvm[i][low] - relaxation.mvm[i][high]
                if effect > largest:
                    largest, stage = effect, i
        for e, mask in enumerate(box.places):
            if mask & (mask - 1):
                longest = [relaxation.single[e][o].longest for o in bits(mask)]
                if max(longest) - min(longest) > largest:
                    largest, tensor = max(longest) - min(longest), e
        parts = []
        if tensor is not None:
            for mask in self._halves(tensor, box.places[tensor]):
                part = box.copy()
                part.places[tensor] = mask
                parts.append(part)
        elif stage is not None:
            middle = (box.low[stage] + box.high[stage]) // 2
            for low, high in ((box.low[stage], middle), (middle + 1, box.high[stage])):
                part = box.copy()
                part.low[stage], part.high[stage] = low, high
                parts.append(part)
        return parts

    def _halves(self, e: int, mask: int) -> tuple[int, int]:
        """Split placements: by kind of port if they are of several, else in the middle."""
        choices = bits(mask)
        kinds = [
            (share.arrays > 0, share.buffer_bytes > 0) for share in (self.relaxation.single[e][o] for o in choices)
        ]
        one = [o for o, kind in zip(choices, kinds, strict=True) if kind == kinds[0]]
        if len(one) == len(choices):
            one = choices[: len(choices) // 2]
        part = sum(1 << o for o in one)
        return part, mask & ~part

    def _offer(self, box: Box) -> bool:
        """Try the fewest copies of ``box`` with the smallest placements that fit; whether that is a better incumbent."""
        relaxation, problem = self.relaxation, self.relaxation.problem
        placements = []
        buffer = problem.buffer_bytes - sum(relaxation.share(e, m).buffer_bytes for e, m in enumerate(box.places))
        for e, mask in enumerate(box.places):
            spare = buffer + relaxation.share(e, mask).buffer_bytes
            fitting = [o for o in bits(mask) if relaxation.single[e][o].buffer_bytes <= spare]
            if not fitting:
                return False
            o = min(fitting, key=lambda o: (relaxation.single[e][o].arrays, relaxation.single[e][o].buffer_bytes))
            buffer = spare - relaxation.single[e][o].buffer_bytes
            placements.append(o)
        return self._accept(box.low[:], placements)

    def _accept(self, options: list[int], placements: list[int]) -> bool:
        cost = self.relaxation.exact(options, placements)
        if cost is None or cost >= self.best:
            return False
        self.best, self.options, self.placements = cost, options, placements
        return True

    def _improve(self, should_stop: Callable[[], bool] | None) -> None:
        """Change one choice of the incumbent at a time while that helps, or until ``should_stop``."""
        better = True
        while better:
            better = False
            for options, placements in self._neighbours():
                if should_stop is not None and should_stop():
                    return
                better |= self._accept(options, placements)

    def _neighbours(self) -> Iterator[tuple[list[int], list[int]]]:
        """The incumbent of the moment with one choice changed, for each choice in turn."""
        assert self.options is not None
        for e, places in enumerate(self.relaxation.single):
            for o in range(len(places)):
                if o != self.placements[e]:
                    yield self.options[:], [*self.placements[:e], o, *self.placements[e + 1 :]]
        for i, stage in enumerate(self.relaxation.problem.stages):
            for step in (1, -1):
                changed = self.options[i] + step
                if 0 <= changed < len(stage.copies):
                    yield [*self.options[:i], changed, *self.options[i + 1 :]], self.placements[:]
