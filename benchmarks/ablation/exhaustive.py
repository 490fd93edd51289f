"""Two searches that solve a program for every segment: the published dynamic programme, and eager search of the whole plan space.

The published dynamic programme goes over the ends of segments: the best plan up to a cut is the best, over all segments that
end there, of the plan up to the segment's start and the segment. What the plan so far keeps on chip and which arrays it leaves in
compute mode is settled before the next segment is known. Here a segment keeps nothing, or (``keep``) the best for the plan so far
of three: nothing more, or what it produces in memory-mode arrays or in the buffer, as far as they have room.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.ablation.counted import Counted
from cmswitch.allocation.pricing import Price
from cmswitch.segmentation.search import Edge, Node, Path, edge_filling, edge_keeping, every_edge
from cmswitch.segmentation.switching import change_cycles, first_mode, needs, next_mode

Stop = Callable[[], bool]


@dataclass
class Needed:
    """Segments that a search asks the price of (``requests``) and their distinct programs; not all if it was not ``complete``."""

    requests: int
    distinct: int
    complete: bool


def count(edges: Iterator[Edge], pricer: Counted, stop: Stop) -> Needed:
    """Count without solving, until ``stop``."""
    prices: set[int] = set()
    programs: set[int] = set()
    requests = 0
    for edge in edges:
        if stop():
            return Needed(requests, len(programs), False)
        requests += 1
        if id(edge.price) not in prices:
            prices.add(id(edge.price))
            programs.add(hash(pricer.problem_of(edge.price)))
            edge.price.problem = None
    return Needed(requests, len(programs), True)


def every_segment(pricer: Counted) -> Iterator[Edge]:
    """Every run of cells that fits the chip, with nothing kept, by its end."""
    for last in range(1, len(pricer.workload.cells) + 1):
        for first in _starts(pricer, last):
            yield edge_keeping(pricer, Node(first, ()), last)


def _starts(pricer: Counted, last: int) -> Iterator[int]:
    for first in range(last - 1, -1, -1):
        if pricer.workload.arrays_between(first, last) > pricer.limits.compute:
            return
        yield first


@dataclass
class _Best:
    """The best plan up to a cut: its cycles with switches, its last segment, and the arrays that it leaves in compute mode."""

    cost: float = math.inf
    edge: Edge | None = None
    before: _Best | None = None
    mode: int = 0

    def path(self) -> Path:
        """The plan."""
        edges: list[Edge] = []
        best: _Best = self
        while best.edge is not None:
            edges.append(best.edge)
            assert best.before is not None
            best = best.before
        return Path(tuple(reversed(edges)))


def published(pricer: Counted, keep: bool, stop: Stop) -> tuple[Path | None, Needed]:
    """The plan of the published dynamic programme (None: stopped before), and the programs it needed."""
    chip, cells = pricer.workload.chip, len(pricer.workload.cells)
    best = [_Best(0.0, mode=first_mode(chip)), *(_Best() for _ in range(cells))]
    programs: set[int] = set()
    requests = 0
    for last in range(1, cells + 1):
        for first in _starts(pricer, last):
            before = best[first]
            for edge in _ways(before, first, last, pricer, keep):
                if stop():
                    return None, Needed(requests, len(programs), False)
                requests += 1
                _solve(pricer, edge.price, programs, stop)
                if edge.price.exact is None:
                    continue
                mode = next_mode(before.mode, needs(edge), chip)
                cost = before.cost + edge.price.cost + change_cycles(before.mode, mode, chip)
                if cost < best[last].cost:
                    best[last] = _Best(cost, edge, before, mode)
    return best[-1].path(), Needed(requests, len(programs), True)


def _ways(before: _Best, first: int, last: int, pricer: Counted, keep: bool) -> Iterator[Edge]:
    """The segment after the plan so far, with nothing more kept and with what each home has room for."""
    source = Node(first, ()) if before.edge is None else before.edge.target
    yield edge_keeping(pricer, source, last)
    for home in pricer.homes if keep else ():
        more = edge_filling(pricer, source, last, home)
        if more.resident != source.kept:
            yield more


def _solve(pricer: Counted, price: Price, programs: set[int], stop: Stop) -> None:
    if not price.solved:
        programs.add(hash(pricer.problem_of(price)))
        pricer.solve(price, stop)


def eager(pricer: Counted, stop: Stop) -> tuple[Path | None, Needed]:
    """The plan with the fewest cycles before switches, once the program of every segment in every state is solved (None: stopped
    before), and those programs."""
    edges = list(every_edge(pricer))
    programs: set[int] = set()
    for number, edge in enumerate(edges):
        if stop():
            return None, Needed(number, len(programs), False)
        _solve(pricer, edge.price, programs, stop)
    best: dict[Node, _Best] = {Node(0, ()): _Best(0.0)}
    for edge in edges:  # ascending by the cut that they start from
        before, there = best[edge.source], best.setdefault(edge.target, _Best())
        if before.cost + edge.price.cost < there.cost:
            best[edge.target] = _Best(before.cost + edge.price.cost, edge, before)
    return best[Node(len(pricer.workload.cells), ())].path(), Needed(len(edges), len(programs), True)
