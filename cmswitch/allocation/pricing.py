"""Prices of segments: first a cheap bound, then the solved program; each distinct content is worked on once.

:class:`Pricer` is what the search asks. Each cost model implements it: the machine model in
:mod:`cmswitch.allocation.machine_pricing`, the published equations in :mod:`cmswitch.allocation.eq10_pricing`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import hw
from cmswitch.allocation.content import SegmentKey, SegmentKeys
from cmswitch.allocation.segment import Home, Limits, Place, SegmentBuilder
from cmswitch.allocation.solving import Allocator
from cmswitch.costs.work import PieceWork
from cmswitch.costs.workload import Workload
from cmswitch.segmentation.plan import AssignedArrays, CostModelName
from formulations import SegmentAllocation, SegmentProblem

ROUNDING = 1e-9
"""Relative; sums of cycles in floating point differ by less, so that a bound is lower by as much."""

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
    """What a segment costs: ``bound`` <= optimum <= ``cost`` (cycles; infinite: not known).

    Once ``solved``, ``cost`` is that of an allocation; before, it may be known from narrower limits or from more tensors kept.
    ``representative`` is the first segment of this content that was met: (first cell, last cell, kept tensors; None: relaxed, a
    bound on the segment whatever is kept). ``bound`` includes that of the segment's own flow if ``by_flow``, and the first
    ``tightenings`` of the others; ``tight``: only solving raises it further. ``problem`` is the program, while it may be needed
    again.
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

    @property
    def exactly_solved(self) -> bool:
        """Whether nothing but rounding is between bound and cost: a solver may stop at a gap."""
        return self.solved and (self.bound == self.cost or self.bound >= self.cost * (1 - ROUNDING))


class Pricer(ABC):
    """Prices the segments of one workload under ``limits``, by content: one cost model.

    ``wider`` prices them under wider limits: what a segment costs here it need not exceed there, and what it costs there at least
    it does here.
    """

    cost_model: ClassVar[CostModelName]
    simulation_decides: ClassVar[bool] = True
    """Whether a plan of narrower limits is returned instead if it is faster in simulation."""
    bounded_by_roofline: ClassVar[bool] = True
    """Whether no plan is predicted below the roofline."""

    def __init__(
        self, builder: SegmentBuilder, limits: Limits, allocator: Allocator, resident_weights: bool = False
    ) -> None:
        self.builder, self.workload, self.limits = builder, builder.workload, limits
        self.wider: Pricer | None = None
        self.allocator = allocator
        self.resident_weights = resident_weights
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
                if self.wider is not None:
                    price.bound = max(price.bound, self.wider.relaxed(first, last).bound)
        return price

    def price(self, first: int, last: int, kept: Kept, limits: Limits | None = None) -> Price:
        """The price of the segment with ``kept`` tensors (under narrower ``limits``), shared by all of equal content.

        Nothing crosses the ends of the workload: its price as one segment is the relaxed one.
        """
        homes: Mapping[int, Home] = dict(kept)
        limits = limits or self.limits
        if not kept and limits == self.limits and (first, last) == (0, len(self.workload.cells)):
            return self.relaxed(first, last)
        key = (self._key(first, last, homes), limits, self._reload_free(first, last))
        price = self._prices.get(key)
        if price is None:
            price = self._prices[key] = Price((first, last, kept), limits, self.relaxed(first, last).bound)
        elif price.solved:
            self.allocator.journal.cache_hits += 1
        return price

    def _pass_on(self, price: Price) -> None:
        """Tell prices what a solved one bounds: that of the segment whatever is kept, and those under wider limits."""
        first, last, kept = price.representative
        bounded = [self.relaxed(first, last)]
        if self.wider is not None:
            bounded.append(self.wider.relaxed(first, last))
            if kept is not None:
                bounded.append(self.wider.price(first, last, kept))
        for other in bounded:
            if not other.solved:
                other.cost = min(other.cost, price.cost)

    def _key(self, first: int, last: int, kept: Mapping[int, Home]) -> SegmentKey:
        """Segments with equal keys have equal prices."""
        return self._keys.key(first, last, kept)

    def _reload_free(self, first: int, last: int) -> bool:
        return self.resident_weights and first == 0 and last == len(self.workload.cells)

    @abstractmethod
    def _first_bound(self, price: Price) -> None:
        """Give a relaxed price its first bound."""

    @abstractmethod
    def tighten(self, price: Price, should_stop: Callable[[], bool]) -> None:
        """Raise an unsolved price's bound by the next better one. It is ``tight`` when only solving raises it further."""

    @abstractmethod
    def solve(self, price: Price, should_stop: Callable[[], bool], upper: float = math.inf) -> None:
        """Solve a price's program, or prove that it costs at least ``upper`` cycles.

        One that is solved is solved again, without a gap.

        Afterwards the price is solved, with an allocation and a proven bound (infinite: infeasible), or its bound is ``upper``.
        """

    @abstractmethod
    def outcome(self, first: int, last: int, kept: Kept, price: Price) -> Outcome:
        """What the solved ``price`` means for the segment with ``kept`` tensors."""
