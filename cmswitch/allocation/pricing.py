"""Prices of segments: first a cheap bound, then the solved program; each distinct content is worked on once.

:class:`Pricer` is what the search asks; each cost model implements it: :class:`MachinePricer` here, the published equations in
:mod:`cmswitch.allocation.eq10_pricing`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Protocol

import hw
from cmswitch.allocation.content import SegmentKey, SegmentKeys
from cmswitch.allocation.quick import QuickBounds
from cmswitch.allocation.runs import Runs
from cmswitch.allocation.segment import Home, Limits, Place, Segment, SegmentBuilder
from cmswitch.allocation.solving import Allocator, Solution
from cmswitch.costs.work import PieceWork
from cmswitch.costs.workload import Workload
from cmswitch.segmentation.plan import AssignedArrays, CostModelName
from formulations import SegmentAllocation, SegmentProblem, lower_bound

SHORT_SEGMENT = 8
"""Up to this many operators the combinatorial bound is good; longer segments are also bounded by linear programming."""

NEAR = 0.002
"""How close to its bound, relatively, a long segment's first allocation is looked for."""

Kept = tuple[tuple[int, Home], ...]
"""Tensors resident across a cut (or through a segment) and their homes, ascending by tensor."""


class Cost(Protocol):
    """Exact cycles of a segment by phase, and the arrays that it takes in each mode (kept tensors not counted)."""

    @property
    def execute(self) -> Fraction:
        """Cycles of its execution."""
        ...

    @property
    def reload(self) -> Fraction:
        """Cycles of writing its weights."""
        ...

    @property
    def total(self) -> Fraction:
        """Cycles of all phases: the objective."""
        ...

    @property
    def compute_arrays(self) -> int:
        """Arrays that compute."""
        ...

    @property
    def memory_arrays(self) -> int:
        """Arrays in memory mode."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What a solved segment does: its pieces, their copies, and which tensors are on chip where (``places`` by tensor).

    ``write_back``: cycles of the price that are neither execution nor reload; ``assigned``: the arrays that the cost model
    counts, where they are not the ones that copies and places take.
    """

    works: tuple[PieceWork, ...]
    copies: tuple[int, ...]
    places: Mapping[int, Place]
    write_back: Fraction = Fraction(0)
    assigned: AssignedArrays | None = None

    @property
    def compute_arrays(self) -> int:
        """Arrays that hold copies."""
        return sum(len(work.tiles) * copies for work, copies in zip(self.works, self.copies, strict=True))

    @property
    def memory_arrays(self) -> int:
        """Arrays that hold tensors."""
        return sum(place.arrays for place in self.places.values())


@dataclass
class Price:
    """What a segment costs: ``bound`` <= optimum (cycles); once ``solved``, also an allocation and its exact cost.

    ``representative`` is the first segment of this content that was met: (first cell, last cell, kept tensors; None: relaxed,
    a bound on the segment whatever is kept). ``by_flow``: the bound of the segment's own flow is in ``bound``; ``tightenings`` of
    the other bounds are; ``tight``: only solving raises it further. ``problem`` is the program, while it may be needed again.
    """

    representative: tuple[int, int, Kept | None]
    limits: Limits
    bound: float
    tightenings: int = 0
    tight: bool = False
    by_flow: bool = False
    solved: bool = False
    cost: float = math.inf
    exact: Cost | None = None
    allocation: SegmentAllocation | None = None
    problem: SegmentProblem | None = None


@dataclass
class Effort:
    """Work done: seconds of CPU time by activity, and counts."""

    build: float = 0.0
    solve: float = 0.0
    programs_solved: int = 0
    cache_hits: int = 0

    def __add__(self, other: Effort) -> Effort:
        """The effort of both."""
        return Effort(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Pricer(ABC):
    """Prices the segments of one workload under ``limits``, by content: one cost model."""

    cost_model: ClassVar[CostModelName]
    simulation_decides: ClassVar[bool] = True
    """Whether a plan of narrower limits is returned instead if it is faster in simulation."""

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

    @classmethod
    def cutting_limit(cls, limits: Limits, chip: hw.Chip) -> int:
        """The compute arrays for which operators are cut into cells under ``limits``."""
        return limits.compute

    @classmethod
    def warnings(cls, workload: Workload) -> list[str]:
        """What a reader of this cost model's predictions for ``workload`` should know."""
        return []

    @property
    def homes(self) -> tuple[Home, ...]:
        """Where tensors may be kept across cuts."""
        return ("arrays", "buffer") if self.limits.memory else ("buffer",)

    def relaxed(self, first: int, last: int) -> Price:
        """The price of the segment whatever tensors are kept; infinite if its operators do not fit together."""
        key = (*self._key(first, last, {}), self._reload_free(first, last))
        price = self._relaxed.get(key)
        if price is None:
            price = self._relaxed[key] = Price((first, last, None), self.limits, math.inf)
            if self.workload.arrays_between(first, last) <= self.limits.compute:
                self._first_bound(price)
        return price

    def price(self, first: int, last: int, kept: Kept, limits: Limits | None = None) -> Price:
        """The price of the segment with ``kept`` tensors (under narrower ``limits``), shared by all of equal content."""
        homes: Mapping[int, Home] = dict(kept)
        limits = limits or self.limits
        key = (self._key(first, last, homes), limits, self._reload_free(first, last))
        price = self._prices.get(key)
        if price is None:
            price = Price((first, last, kept), limits, self.relaxed(first, last).bound)
            self._prices[key] = price
        elif price.solved:
            self.effort.cache_hits += 1
        return price

    def _key(self, first: int, last: int, kept: Mapping[int, Home]) -> SegmentKey:
        """Segments with equal keys have equal prices."""
        return self._keys.key(first, last, kept)

    def _reload_free(self, first: int, last: int) -> bool:
        return self._resident_weights and first == 0 and last == len(self.workload.cells)

    @abstractmethod
    def _first_bound(self, price: Price) -> None:
        """Give a relaxed price its first bound."""

    @abstractmethod
    def tighten(self, price: Price, should_stop: Callable[[], bool]) -> None:
        """Raise an unsolved price's bound by the next better one. It is ``tight`` when only solving raises it further."""

    @abstractmethod
    def solve(self, price: Price, should_stop: Callable[[], bool], upper: float = math.inf) -> None:
        """Solve a price's program, or prove that it costs at least ``upper`` cycles.

        Afterwards the price is solved, with an allocation and a proven bound (infinite: infeasible), or its bound is ``upper``.
        """

    @abstractmethod
    def outcome(self, first: int, last: int, kept: Kept, price: Price) -> Outcome:
        """What the solved ``price`` means for the segment with ``kept`` tensors."""


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
        start = self._allocator.cpu_seconds()
        first, last, _ = price.representative
        self.runs.add(first, last)  # of its own and of every run inside it
        bounds = self.runs.bounds.tolist()
        for (i, j), other in self._runs_priced.items():
            if bounds[i][j] > other.bound and not other.solved:
                other.bound = bounds[i][j]
        price.by_flow = True
        self.effort.solve += self._allocator.cpu_seconds() - start

    def tighten(self, price: Price, should_stop: Callable[[], bool]) -> None:
        """Raise an unsolved price's bound: of a long segment by its flow, then by the cheap bound, and where flows are worse than
        that by the linear program.

        Afterwards the price may be ``tight``: nothing short of solving raises it further.
        """
        first, last, kept = price.representative
        if self._long(first, last) and kept is None and not price.by_flow:
            self.bound_runs(price)
            return
        start = self._allocator.cpu_seconds()
        problem = self._problem(price)
        if price.tightenings == 0:
            cheap = float(lower_bound(problem))
            if price.by_flow and cheap < price.bound:
                price.tight = True
            price.bound = max(price.bound, cheap)
            self.effort.build += self._allocator.cpu_seconds() - start
        else:
            price.bound = max(price.bound, self._allocator.linear_bound(problem, should_stop))
            self.effort.solve += self._allocator.cpu_seconds() - start
        price.tightenings += 1
        linear = self._allocator.solver != "combinatorial" and len(problem.stages) > SHORT_SEGMENT
        price.tight = price.tight or price.tightenings > linear or math.isinf(price.bound)

    def solve(self, price: Price, should_stop: Callable[[], bool], upper: float = math.inf) -> None:
        """See :class:`Pricer`."""
        start = self._allocator.cpu_seconds()
        problem = self._problem(price)
        built = self._allocator.cpu_seconds()
        solution = self._solution(price, problem, should_stop, upper)
        self.effort.build += built - start
        self.effort.solve += self._allocator.cpu_seconds() - built
        self.effort.programs_solved += 1
        price.bound = max(price.bound, solution.bound)
        price.tight = True
        if solution.exact is None and not math.isinf(solution.bound):
            return
        price.allocation, price.exact = solution.allocation, solution.exact
        price.cost = math.inf if solution.exact is None else float(solution.exact.total)
        price.bound = min(price.bound, price.cost)
        price.solved, price.problem = True, None

    def _long(self, first: int, last: int) -> bool:
        """Whether linear programming bounds the segment better than the combinatorial bound."""
        linear = self._allocator.solver != "combinatorial" and not self._reload_free(first, last)
        return linear and self.workload.operators(first, last) > SHORT_SEGMENT

    def _solution(
        self, price: Price, problem: SegmentProblem, should_stop: Callable[[], bool], upper: float
    ) -> Solution:
        """Solve the program of a price; of a long segment only with the copies that can be part of an allocation better than one
        that is found quickly."""
        first, last, _ = price.representative
        allocator = self._allocator
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
