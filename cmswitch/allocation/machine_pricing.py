"""Prices of segments by the machine model (cost model ``machine``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from cmswitch.allocation.pricing import Kept, Outcome, Price, Pricer
from cmswitch.allocation.quick import QuickBounds
from cmswitch.allocation.runs import Runs
from cmswitch.allocation.segment import Limits, Segment, SegmentBuilder
from cmswitch.allocation.solving import Allocator, Solution
from formulations import SegmentProblem, lower_bound

SHORT_SEGMENT = 8
"""Up to this many operators the combinatorial bound is good; longer segments are also bounded by linear programming."""

NEAR = 0.002
"""How far above its bound, relatively, a long segment's first allocation is looked for.

It decides how soon that is found and not what is proven: nearer, and there may be none, so that the whole program is solved;
farther, and the first program keeps as many copies as the second.
"""


class MachinePricer(Pricer):
    """Prices by the machine model."""

    cost_model = "machine"

    def __init__(
        self, builder: SegmentBuilder, limits: Limits, allocator: Allocator, resident_weights: bool = False
    ) -> None:
        super().__init__(builder, limits, allocator, resident_weights)
        self._runs_priced: dict[tuple[int, int], Price] = {}

    @cached_property
    def runs(self) -> Runs:
        """Bounds of all segments from the linear programs of some."""
        return Runs(self.builder, self.limits)

    def relaxed(self, first: int, last: int) -> Price:
        """See :class:`Pricer`."""
        price = super().relaxed(first, last)
        if not self._reload_free(first, last):
            self._runs_priced[first, last] = price
        return price

    def segment(self, first: int, last: int, kept: Kept, limits: Limits | None = None) -> Segment:
        """The description of a segment, its program restricted to ``limits`` (the choices remain those of the plan space)."""
        segment = self.builder.build(first, last, dict(kept), self.limits, self._reload_free(first, last))
        if limits is None or limits == self.limits:
            return segment
        problem, held = segment.problem, sum(place.arrays for place in segment.kept.values())
        compute, memory = min(problem.compute_arrays, limits.compute), min(problem.memory_arrays, limits.memory - held)
        return replace(segment, problem=replace(problem, compute_arrays=compute, memory_arrays=memory))

    def outcome(self, first: int, last: int, kept: Kept, price: Price) -> Outcome:
        """See :class:`Pricer`."""
        allocation = price.allocation
        assert allocation is not None
        segment = self.segment(first, last, kept)
        chosen = [options[o] for options, o in zip(segment.choices, allocation.placements, strict=True)]
        places = {p.tensor: p for p in chosen if p.where != "main"} | dict(segment.kept)
        return Outcome(segment.works, allocation.copies, places)

    @cached_property
    def _quick(self) -> QuickBounds:
        return QuickBounds(self.builder, self.limits.compute)

    def _first_bound(self, price: Price) -> None:
        first, last, _ = price.representative
        price.bound = 0.0 if self._reload_free(first, last) else self._quick.of(first, last)

    def bound_runs(self, price: Price) -> None:
        """Raise the bounds of all relaxed prices by the flow of one."""
        start = self.allocator.cpu_seconds()
        first, last, _ = price.representative
        self.runs.add(first, last)  # of its own and of every run inside it
        bounds = self.runs.bounds.tolist()
        for (i, j), other in self._runs_priced.items():
            if bounds[i][j] > other.bound and not other.solved:
                other.bound = bounds[i][j]
        price.by_flow = True
        self.allocator.journal.solve += self.allocator.cpu_seconds() - start

    def tighten(self, price: Price, should_stop: Callable[[], bool]) -> None:
        """Raise an unsolved price's bound: of a long segment by its flow, then by the cheap bound, and where flows are worse than
        that by the linear program.

        Afterwards the price may be ``tight``: nothing short of solving raises it further.
        """
        first, last, kept = price.representative
        if self._long(first, last) and kept is None and not price.by_flow:
            self.bound_runs(price)
            return
        start = self.allocator.cpu_seconds()
        problem = self.problem_of(price)
        if price.tightenings == 0:
            cheap = float(lower_bound(problem))
            if price.by_flow and cheap < price.bound:
                price.tight = True
            price.bound = max(price.bound, cheap)
            self.allocator.journal.build += self.allocator.cpu_seconds() - start
        else:
            price.bound = max(price.bound, self.allocator.linear_bound(problem, should_stop))
            self.allocator.journal.solve += self.allocator.cpu_seconds() - start
        price.tightenings += 1
        linear = self.allocator.solver != "combinatorial" and len(problem.stages) > SHORT_SEGMENT
        price.tight = price.tight or price.tightenings > linear or math.isinf(price.bound)

    def solve(self, price: Price, should_stop: Callable[[], bool], upper: float = math.inf) -> None:
        """See :class:`Pricer`."""
        start = self.allocator.cpu_seconds()
        problem = self.problem_of(price)
        built = self.allocator.cpu_seconds()
        again = price.solved
        solution = None if again else self.allocator.solutions.get(problem)
        if solution is None:
            allocator = replace(self.allocator, gap=0.0) if again else self.allocator
            solution = self._solution(allocator, price, problem, should_stop, upper)
            self.allocator.journal.programs_solved += 1
        else:
            self.allocator.journal.cache_hits += 1
        self.allocator.journal.build += built - start
        self.allocator.journal.solve += self.allocator.cpu_seconds() - built
        price.bound = max(price.bound, solution.bound)
        price.tight = True
        if solution.exact is None and not math.isinf(solution.bound):
            price.bound = min(price.bound, price.cost) if again else price.bound
            return
        if not should_stop():
            self.allocator.solutions[problem] = solution
        if price.exact is None or (solution.exact is not None and solution.exact.total <= price.exact.total):
            price.allocation, price.exact = solution.allocation, solution.exact
        price.cost = math.inf if price.exact is None else float(price.exact.total)
        price.bound = min(price.bound, price.cost)
        self._pass_on(price)
        price.solved, price.problem = True, None

    def _long(self, first: int, last: int) -> bool:
        """Whether linear programming bounds the segment better than the combinatorial bound."""
        linear = self.allocator.solver != "combinatorial" and not self._reload_free(first, last)
        return linear and self.workload.operators(first, last) > SHORT_SEGMENT

    def _solution(
        self,
        allocator: Allocator,
        price: Price,
        problem: SegmentProblem,
        should_stop: Callable[[], bool],
        upper: float,
    ) -> Solution:
        """Solve the program of a price; of a long segment only with the copies that can be part of an allocation better than one
        that is found quickly."""
        first, last, _ = price.representative
        if not self._long(first, last):
            return allocator.solve(problem, should_stop, upper)
        bound = self.runs.bound(first, last)
        most = bound * (1 + NEAR)
        found = allocator.quick(self.runs.narrowed(first, last, problem, most), should_stop)
        if found.exact is None:
            return allocator.solve(problem, should_stop, upper)
        bound = min(max(bound, min(found.bound, most)), float(found.exact.total))
        if bound >= (1 - allocator.gap) * found.exact.total:
            return replace(found, bound=bound)
        most = min(upper, float(found.exact.total))
        best = allocator.solve(self.runs.narrowed(first, last, problem, most), should_stop, upper)
        bound = min(max(bound, best.bound), most)
        if best.exact is None or best.exact.total > found.exact.total:
            best = found
        if best.exact is not None and best.exact.total > upper and bound < (1 - allocator.gap) * best.exact.total:
            return Solution(None, None, bound)
        return replace(best, bound=bound)

    def problem_of(self, price: Price) -> SegmentProblem:
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
