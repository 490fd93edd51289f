"""Prices of segments: first a cheap bound, then the solved program; each distinct content is worked on once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cmswitch.allocation.content import SegmentKey, SegmentKeys
from cmswitch.allocation.segment import Home, Limits, Segment, SegmentBuilder
from cmswitch.allocation.solving import Allocator
from cmswitch.costs.workload import Workload
from formulations import SegmentAllocation, lower_bound
from formulations.evaluate import SegmentCost

Kept = tuple[tuple[int, Home], ...]
"""Tensors resident across a cut (or through a segment) and their homes, ascending by tensor."""


@dataclass
class Price:
    """What a segment costs: ``bound`` <= optimum (cycles); once ``solved``, also an allocation and its exact cost.

    ``representative`` is the first segment of this content that was met: (first cell, last cell, kept tensors).
    """

    representative: tuple[int, int, Kept]
    limits: Limits
    bound: float
    tightened: bool = False
    solved: bool = False
    cost: float = math.inf
    exact: SegmentCost | None = None
    allocation: SegmentAllocation | None = None


@dataclass
class Effort:
    """Work done: seconds of CPU time by activity, and counts."""

    build: float = 0.0
    solve: float = 0.0
    programs_solved: int = 0
    cache_hits: int = 0
    distinct: int = 0
    bounds: dict[str, int] = field(default_factory=lambda: {"relaxed": 0, "tightened": 0})


class Pricer:
    """Prices the segments of one workload under ``limits``, by content."""

    def __init__(self, workload: Workload, limits: Limits, allocator: Allocator, resident_weights: bool = False) -> None:
        self.workload, self.limits = workload, limits
        self.builder = SegmentBuilder(workload)
        self.effort = Effort()
        self._allocator = allocator
        self._resident_weights = resident_weights
        self._keys = SegmentKeys(workload)
        self._relaxed: dict[SegmentKey, float] = {}
        self._prices: dict[tuple[SegmentKey, Limits, bool], Price] = {}

    def segment(self, first: int, last: int, kept: Kept, limits: Limits | None = None) -> Segment:
        """The description of a segment, its program restricted to ``limits`` (the choices remain those of the plan space)."""
        segment = self.builder.build(first, last, dict(kept), self.limits, self._reload_free(first, last))
        if limits is None or limits == self.limits:
            return segment
        problem, held = segment.problem, sum(place.arrays for place in segment.kept.values())
        compute, memory = min(problem.compute_arrays, limits.compute), min(problem.memory_arrays, limits.memory - held)
        return replace(segment, problem=replace(problem, compute_arrays=compute, memory_arrays=memory))

    def _reload_free(self, first: int, last: int) -> bool:
        return self._resident_weights and first == 0 and last == len(self.workload.cells)

    def relaxed_bound(self, first: int, last: int) -> float:
        """A bound on the segment whatever tensors are kept; infinite if its operators do not fit together."""
        reload_free = self._reload_free(first, last)
        key = (*self._keys.key(first, last, {}), reload_free)
        if key not in self._relaxed:
            self.effort.bounds["relaxed"] += 1
            start = time.process_time()
            if sum(self.workload.arrays(p) for p in self.workload.pieces(first, last)) > self.limits.compute:
                self._relaxed[key] = math.inf
            else:
                segment = self.builder.build(first, last, {}, self.limits, reload_free, relaxed=True)
                self._relaxed[key] = float(lower_bound(segment.problem))
            self.effort.build += time.process_time() - start
        return self._relaxed[key]

    def price(self, first: int, last: int, kept: Kept, limits: Limits | None = None) -> Price:
        """The price of the segment with ``kept`` tensors (under narrower ``limits``), shared by all of equal content."""
        homes: Mapping[int, Home] = dict(kept)
        limits = limits or self.limits
        key = (self._keys.key(first, last, homes), limits, self._reload_free(first, last))
        price = self._prices.get(key)
        if price is None:
            price = Price((first, last, kept), limits, self.relaxed_bound(first, last))
            self._prices[key] = price
            self.effort.distinct += 1
        elif price.solved:
            self.effort.cache_hits += 1
        return price

    def tighten(self, price: Price) -> None:
        """Raise an unsolved price's bound with its own places and kept tensors taken into account."""
        start = time.process_time()
        self.effort.bounds["tightened"] += 1
        first, last, kept = price.representative
        problem = self.segment(first, last, kept, price.limits).problem
        price.bound = max(price.bound, float(lower_bound(problem)))
        price.tightened = True
        self.effort.build += time.process_time() - start

    def solve(self, price: Price, should_stop: Callable[[], bool]) -> None:
        """Solve a price's program; afterwards it has an allocation and a proven bound (infinite: infeasible)."""
        start = time.process_time()
        first, last, kept = price.representative
        problem = self.segment(first, last, kept, price.limits).problem
        built = time.process_time()
        solution = self._allocator.solve(problem, should_stop)
        self.effort.build += built - start
        self.effort.solve += time.process_time() - built
        self.effort.programs_solved += 1
        price.bound = max(price.bound, solution.bound)
        price.allocation, price.exact = solution.allocation, solution.exact
        price.cost = math.inf if solution.exact is None else float(solution.exact.total)
        price.bound = min(price.bound, price.cost)
        price.solved = price.tightened = True
