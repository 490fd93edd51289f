"""Prices that count the work behind them, with the cache and the bounds of the search to be switched off one by one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cmswitch.allocation.content import SegmentKey
from cmswitch.allocation.machine_pricing import MachinePricer
from cmswitch.allocation.pricing import Price
from cmswitch.allocation.runs import Runs
from cmswitch.allocation.segment import Home
from cmswitch.allocation.solving import Allocator, Solution
from formulations import SegmentProblem
from formulations.flow import Flow


@dataclass(frozen=True)
class CountingAllocator(Allocator):
    """Counts by kind what solvers are given: ``allocations`` (integer programs, those of a quick first allocation too),
    ``relaxations`` (linear programs of one segment) and ``flows`` (linear programs that bound all runs of operators), with the
    CPU ``seconds`` of each; ``programs`` are the distinct segment programs that were solved."""

    counts: Counter[str] = field(default_factory=Counter, compare=False)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float), compare=False)
    programs: set[SegmentProblem] = field(default_factory=set, compare=False)

    def timed(self, kind: str, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Do ``work`` as one of ``kind``."""
        start = self.cpu_seconds()
        try:
            return work(*given, **named)
        finally:
            self.counts[kind] += 1
            self.seconds[kind] += self.cpu_seconds() - start

    def linear_bound(self, *given: Any, **named: Any) -> float:
        """See :class:`Allocator`."""
        return float(self.timed("relaxations", super().linear_bound, *given, **named))

    def solve(self, *given: Any, **named: Any) -> Solution:
        """See :class:`Allocator`."""
        return self.timed("allocations", super().solve, *given, **named)  # type: ignore[no-any-return]

    def quick(self, *given: Any, **named: Any) -> Solution:
        """See :class:`Allocator`."""
        return self.timed("allocations", super().quick, *given, **named)  # type: ignore[no-any-return]


class _Forgetful(dict[SegmentProblem, Solution]):
    """Solutions that nobody remembers."""

    def __setitem__(self, key: SegmentProblem, value: Solution) -> None:
        """Drop it."""


def counting_allocator(gap: float, cache: bool, seed: int) -> CountingAllocator:
    """A solver like the compiler's; without ``cache`` equal programs are solved again."""
    return CountingAllocator("auto", gap, 1, seed, solutions={} if cache else _Forgetful())


class _CountedRuns(Runs):
    """Counts the linear programs behind the bounds of runs."""

    allocator: CountingAllocator

    def add(self, first: int, last: int) -> Flow | None:
        """See :class:`Runs`."""
        if (first, last) in self._flows:
            return super().add(first, last)
        return self.allocator.timed("flows", super().add, first, last)  # type: ignore[no-any-return]


class Counted(MachinePricer):
    """Prices by the machine model; ``allocator`` counts."""

    allocator: CountingAllocator

    @cached_property
    def runs(self) -> Runs:
        """See :class:`MachinePricer`."""
        runs = _CountedRuns(self.builder, self.limits)
        runs.allocator = self.allocator
        return runs

    def _solution(self, allocator: Allocator, price: Price, problem: SegmentProblem, *given: Any) -> Solution:
        self.allocator.programs.add(problem)
        before = self.allocator.seconds["flows"]
        solution: Solution = self.allocator.timed("programs", super()._solution, allocator, price, problem, *given)
        self.allocator.seconds["programs"] -= self.allocator.seconds["flows"] - before
        return solution


class _NoCache(Counted):
    """Segments are equal only if they are the same."""

    def _key(self, first: int, last: int, kept: Mapping[int, Home]) -> SegmentKey:
        homes: Hashable = tuple(sorted(kept.items()))
        return (first, last, homes)


class _NoBounds(Counted):
    """Segments cost nothing until they are solved, and are solved as they are."""

    def _first_bound(self, price: Price) -> None:
        price.bound = 0.0

    def tighten(self, price: Price, should_stop: Callable[[], bool]) -> None:
        """See :class:`Pricer`. There is nothing to raise the bound by."""
        price.tight = True

    def _long(self, first: int, last: int) -> bool:
        return False


class _NoCacheNoBounds(_NoBounds, _NoCache):
    """Neither."""


PRICERS: Mapping[tuple[bool, bool], type[Counted]] = {
    (True, True): Counted,
    (False, True): _NoCache,
    (True, False): _NoBounds,
    (False, False): _NoCacheNoBounds,
}
"""By whether there are a cache and bounds."""
