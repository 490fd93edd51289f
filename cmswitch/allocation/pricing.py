"""Prices of segments: first a cheap bound, then the solved program; each distinct content is worked on once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from cmswitch.allocation.content import SegmentKey, SegmentKeys
from cmswitch.allocation.segment import Home, Limits, Segment, SegmentBuilder
from cmswitch.allocation.solving import Allocator
from formulations import SegmentAllocation, SegmentProblem, lower_bound
from formulations.evaluate import SegmentCost

SHORT_SEGMENT = 8
"""Up to this many operators the combinatorial bound is good; longer segments are also bounded by linear programming."""

QUICKLY_BOUNDED = 12
"""Segments of more operators start from the bound of each operator alone and are bounded better when a path needs them."""

Kept = tuple[tuple[int, Home], ...]
"""Tensors resident across a cut (or through a segment) and their homes, ascending by tensor."""


@dataclass
class Price:
    """What a segment costs: ``bound`` <= optimum (cycles); once ``solved``, also an allocation and its exact cost.

    ``representative`` is the first segment of this content that was met: (first cell, last cell, kept tensors; None: relaxed,
    a bound on the segment whatever is kept). ``tightenings`` of the two better bounds are in ``bound``; ``tight``: only solving
    raises it further. ``problem`` is the program, while it may be needed again.
    """

    representative: tuple[int, int, Kept | None]
    limits: Limits
    bound: float
    tightenings: int = 0
    tight: bool = False
    solved: bool = False
    cost: float = math.inf
    exact: SegmentCost | None = None
    allocation: SegmentAllocation | None = None
    problem: SegmentProblem | None = None


@dataclass
class Effort:
    """Work done: seconds of CPU time by activity, and counts."""

    build: float = 0.0
    solve: float = 0.0
    programs_solved: int = 0
    cache_hits: int = 0
    distinct: int = 0
    bounds_computed: int = 0

    def __add__(self, other: Effort) -> Effort:
        """The effort of both."""
        return Effort(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Pricer:
    """Prices the segments of one workload under ``limits``, by content."""

    def __init__(
        self, builder: SegmentBuilder, limits: Limits, allocator: Allocator, resident_weights: bool = False
    ) -> None:
        self.builder, self.workload, self.limits = builder, builder.workload, limits
        self.effort = Effort()
        self._allocator = allocator
        self._resident_weights = resident_weights
        self._keys = SegmentKeys(self.workload)
        self._relaxed: dict[SegmentKey, Price] = {}
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

    def relaxed(self, first: int, last: int, hurry: bool = False) -> Price:
        """The price of the segment whatever tensors are kept; infinite if its operators do not fit together.

        In a ``hurry`` its first bound is the one of each operator alone.
        """
        key = (*self._keys.key(first, last, {}), self._reload_free(first, last))
        price = self._relaxed.get(key)
        if price is None:
            price = self._relaxed[key] = Price((first, last, None), self.limits, math.inf)
            if sum(self.workload.arrays(p) for p in self.workload.pieces(first, last)) <= self.limits.compute:
                if self._reload_free(first, last):
                    price.bound = 0.0
                elif hurry or self.workload.operators(first, last) > QUICKLY_BOUNDED:
                    price.bound = self.builder.quick_bound(first, last, self.limits)
                else:
                    price.bound = 0.0
                    self.tighten(price)
        return price

    def price(self, first: int, last: int, kept: Kept, limits: Limits | None = None) -> Price:
        """The price of the segment with ``kept`` tensors (under narrower ``limits``), shared by all of equal content."""
        homes: Mapping[int, Home] = dict(kept)
        limits = limits or self.limits
        key = (self._keys.key(first, last, homes), limits, self._reload_free(first, last))
        price = self._prices.get(key)
        if price is None:
            price = Price((first, last, kept), limits, self.relaxed(first, last).bound)
            self._prices[key] = price
            self.effort.distinct += 1
        elif price.solved:
            self.effort.cache_hits += 1
        return price

    def tighten(self, price: Price, should_stop: Callable[[], bool] | None = None) -> None:
        """Raise an unsolved price's bound: by the cheap bound, and where that is loose (long segments) by the linear program.

        Afterwards the price may be ``tight``: nothing short of solving raises it further.
        """
        start = time.process_time()
        self.effort.bounds_computed += 1
        problem = self._problem(price)
        if price.tightenings == 0:
            price.bound = max(price.bound, float(lower_bound(problem)))
            self.effort.build += time.process_time() - start
        else:
            price.bound = max(price.bound, self._allocator.linear_bound(problem, should_stop))
            self.effort.solve += time.process_time() - start
        price.tightenings += 1
        linear = self._allocator.solver != "combinatorial" and len(problem.stages) > SHORT_SEGMENT
        price.tight = price.tightenings > linear or math.isinf(price.bound)

    def solve(self, price: Price, should_stop: Callable[[], bool], upper: float = math.inf) -> None:
        """Solve a price's program, or prove that it costs at least ``upper`` cycles.

        Afterwards the price is solved, with an allocation and a proven bound (infinite: infeasible), or its bound is ``upper``.
        """
        start = time.process_time()
        problem = self._problem(price)
        built = time.process_time()
        solution = self._allocator.solve(problem, should_stop, upper)
        self.effort.build += built - start
        self.effort.solve += time.process_time() - built
        self.effort.programs_solved += 1
        price.bound = max(price.bound, solution.bound)
        price.tight = True
        if solution.exact is None and not math.isinf(solution.bound):
            return
        price.allocation, price.exact = solution.allocation, solution.exact
        price.cost = math.inf if solution.exact is None else float(solution.exact.total)
        price.bound = min(price.bound, price.cost)
        price.solved, price.problem = True, None

    def _problem(self, price: Price) -> SegmentProblem:
        """The program of a price, kept until it is solved."""
        if price.problem is None:
            first, last, kept = price.representative
            if kept is None:
                reload_free = self._reload_free(first, last)
                segment = self.builder.build(first, last, {}, self.limits, reload_free, relaxed=True)
            else:
                segment = self.segment(first, last, kept, price.limits)
            price.problem = segment.problem
        return price.problem
