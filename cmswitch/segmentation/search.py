"""The segmentation search: a shortest path whose edges are priced only where the path needs them.

Nodes are (cut, kept tensors with their homes); an edge is the segment between two nodes. Every edge starts with a valid
lower bound. The shortest path under current bounds is taken, the edges on it are bounded better and then solved,
and so on until no path is left that could beat the best plan by more than the gap. Mode switches are added by
:mod:`cmswitch.segmentation.switching`.

This is done twice: first on cuts alone, where every segment's program may keep whatever tensors it likes at no cost of room
(:class:`CutGraph`: a bound on every plan, and usually within the gap of the plan that keeps nothing), then, among the
segments that survive, on cuts and kept tensors (:class:`KeptGraph`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cmswitch.allocation.pricing import Kept, Price, Pricer
from cmswitch.allocation.segment import Home, Place, home_of
from cmswitch.costs.workload import Workload

MOST_KEPT_SETS = 243
"""Sets of newly kept tensors considered for one segment: all of five tensors with two homes each. What this cap leaves out counts
in the gap: the bound is then that of the search over cuts."""


class Node(NamedTuple):
    """A cut before cell ``cut``, and the tensors kept across it."""

    cut: int
    kept: Kept


class Edge(NamedTuple):
    """A segment between two nodes; ``resident`` are the tensors kept during it, which hold ``kept_arrays`` arrays."""

    source: Node
    target: Node
    resident: Kept
    kept_arrays: int
    price: Price


@dataclass
class Label:
    """Best way to a node: by lower bound, and by what segments are known to cost."""

    bound: float = math.inf
    bound_edge: Edge | None = None
    cost: float = math.inf
    cost_edge: Edge | None = None


@dataclass(frozen=True)
class Path:
    """A sequence of edges from the first cut to the last.

    ``modes`` are the arrays in compute mode in each segment, if they were decided together with the path.
    """

    edges: tuple[Edge, ...]
    modes: tuple[int, ...] | None = None

    @property
    def cost(self) -> float:
        """Cycles of its segments, without switches; infinite unless a cost of each is known."""
        return sum(edge.price.cost for edge in self.edges)


class Graph(Protocol):
    """Edges generated on demand. ``ahead`` bounds, for each cut, everything after it."""

    pricer: Pricer
    ahead: list[float]

    def edges(self, node: Node, reached: float, cutoff: float) -> Iterable[Edge]:
        """Edges out of ``node``, itself reached at cost >= ``reached``, that may be part of a plan below ``cutoff``."""
        ...


class CutGraph:
    """Nodes are cuts; each segment's program may keep any tensor, so that a path bounds every plan with its cuts."""

    def __init__(self, pricer: Pricer) -> None:
        self.pricer = pricer
        cells = len(pricer.workload.cells)
        self._out: list[list[Edge]] = []
        for first in range(cells):
            self._out.append([])
            for last in range(first + 1, cells + 1):
                price = pricer.relaxed(first, last)
                if math.isinf(price.bound):
                    break
                self._out[first].append(Edge(Node(first, ()), Node(last, ()), (), 0, price))
        self.ahead: list[float] = []
        self._look_ahead()

    def _look_ahead(self) -> None:
        cells = len(self._out)
        self.ahead[:] = [math.inf] * cells + [0.0]
        for first in range(cells - 1, -1, -1):
            self.ahead[first] = min(e.price.bound + self.ahead[e.target.cut] for e in self._out[first])

    def edges(self, node: Node, reached: float, cutoff: float) -> Iterator[Edge]:
        """See :class:`Graph`."""
        room = cutoff - reached
        for edge in self._out[node.cut]:
            if edge.price.bound + self.ahead[edge.target.cut] < room:
                yield edge

    @property
    def segments(self) -> int:
        """Runs of cells that fit the chip."""
        return sum(len(edges) for edges in self._out)

    def tighten(self, should_stop: Callable[[], bool]) -> None:
        """Raise bounds until those of the shortest path's segments are as good as bounds get without solving."""
        while loose := [e.price for e in self.shortest().edges if not e.price.tight and not e.price.solved]:
            for price in loose:
                if should_stop():
                    return
                if not price.tight:
                    self.pricer.tighten(price, should_stop)
            self._look_ahead()

    def shortest(self) -> Path:
        """The path with the least bounds."""
        edges: list[Edge] = []
        cut = 0
        while cut < len(self._out):
            edges.append(min(self._out[cut], key=lambda e: e.price.bound + self.ahead[e.target.cut]))
            cut = edges[-1].target.cut
        return Path(tuple(edges))


def edge_keeping(pricer: Pricer, node: Node, last: int, new: Kept = ()) -> Edge:
    """The segment from ``node`` to the cut ``last`` that keeps ``new`` tensors besides those kept before it."""
    workload = pricer.workload
    resident = tuple(sorted((*node.kept, *new)))
    target = Node(last, tuple((t, h) for t, h in resident if workload.last_use[t] > last))
    arrays = sum(home_of(workload, t, h).arrays for t, h in resident)
    return Edge(node, target, resident, arrays, pricer.price(node.cut, last, resident))


def unkept(path: Path, pricer: Pricer) -> Path:
    """The plan with the cuts of ``path`` in which nothing is kept across them."""
    return Path(tuple(edge_keeping(pricer, Node(e.source.cut, ()), e.target.cut) for e in path.edges))


def keeping(path: Path, pricer: Pricer) -> Path | None:
    """The plan with the cuts of ``path`` in which tensors that outlive their segment are kept in the buffer while it has room."""
    if "buffer" not in pricer.homes:
        return None
    node, edges = Node(0, ()), []
    for edge in path.edges:
        edges.append(edge_filling(pricer, node, edge.target.cut, "buffer"))
        node = edges[-1].target
    return Path(tuple(edges))


def edge_filling(pricer: Pricer, node: Node, last: int, home: Home) -> Edge:
    """The segment from ``node`` to the cut ``last`` that keeps what it produces in ``home`` while that has room."""
    workload = pricer.workload
    arrays, space = _room(pricer, node.kept)
    new: list[tuple[int, Home]] = []
    for tensor in outliving(workload, node.cut, last):
        place = home_of(workload, tensor, home)
        if place.arrays <= arrays and _buffer_bytes(place) <= space:
            new.append((tensor, home))
            arrays, space = arrays - place.arrays, space - _buffer_bytes(place)
    return edge_keeping(pricer, node, last, tuple(new))


def outliving(workload: Workload, first: int, last: int) -> Iterator[int]:
    """The tensors first produced in a segment that are read after it."""
    for piece in workload.pieces(first, last):
        if not piece.first_block:
            for write in workload.network.operators[piece.operator].writes:
                if workload.last_use[write.tensor] > last:
                    yield write.tensor


class KeptGraph:
    """Nodes are cuts with the tensors kept across them, in any of the pricer's homes.

    ``capped``: some segment had more than ``MOST_KEPT_SETS`` sets of tensors to keep, of which only so many were considered.
    """

    def __init__(self, cuts: CutGraph) -> None:
        self.capped = False
        self.pricer, self.ahead, self._cuts, self._homes = cuts.pricer, cuts.ahead, cuts, cuts.pricer.homes
        self._edges: dict[Node, dict[int, tuple[Edge, ...]]] = {}

    def edges(self, node: Node, reached: float, cutoff: float) -> Iterator[Edge]:
        """See :class:`Graph`."""
        own = self._edges.setdefault(node, {})
        for cut_edge in self._cuts.edges(node, reached, cutoff):
            last = cut_edge.target.cut
            if last not in own:
                own[last] = tuple(edge_keeping(self.pricer, node, last, new) for new in self._new_kept(node, last))
            room = cutoff - reached - self.ahead[last]
            for edge in own[last]:
                if edge.price.bound < room:
                    yield edge

    def _new_kept(self, node: Node, last: int) -> list[Kept]:
        """The sets of tensors produced in the segment that may be kept from now on, none first."""
        workload = self.pricer.workload
        sets: list[tuple[Kept, int, int]] = [((), *_room(self.pricer, node.kept))]
        for tensor in outliving(workload, node.cut, last):
            places = [home_of(workload, tensor, h) for h in self._homes]
            if len(sets) * (1 + len(places)) > MOST_KEPT_SETS:
                self.capped = True
                continue
            sets += [
                ((*kept, (tensor, home)), arrays - p.arrays, space - _buffer_bytes(p))
                for kept, arrays, space in sets
                for home, p in zip(self._homes, places, strict=True)
                if p.arrays <= arrays and _buffer_bytes(p) <= space
            ]
        return [kept for kept, _, _ in sets]


def every_edge(pricer: Pricer) -> Iterator[Edge]:
    """Every segment between every two nodes that can be reached, with nothing pruned by a bound."""
    graph = KeptGraph(CutGraph(pricer))
    nodes: list[dict[Node, None]] = [{} for _ in graph.ahead]
    nodes[0][Node(0, ())] = None
    for here in nodes[:-1]:
        for node in here:
            for edge in graph.edges(node, 0.0, math.inf):
                nodes[edge.target.cut][edge.target] = None
                yield edge


def _room(pricer: Pricer, kept: Kept) -> tuple[int, int]:
    """Arrays in memory mode and bytes of the buffer that ``kept`` tensors leave."""
    held = [home_of(pricer.workload, t, h) for t, h in kept]
    arrays = pricer.limits.memory - sum(place.arrays for place in held)
    return arrays, pricer.workload.chip.buffer.capacity_bytes - sum(_buffer_bytes(place) for place in held)


def _buffer_bytes(place: Place) -> int:
    return place.bytes if place.where == "buffer" else 0


Realise = Callable[[Path, float], tuple[Path, float] | None]
"""Turns a path of a graph into a plan (a path of solved edges) and its cycles with switches, if they are below a given number."""


class Search:
    """Runs the lazy shortest path on a graph to a relative ``gap``, or until ``should_stop``.

    ``switch_bound`` is at most the switch cycles of any plan; ``preferred`` is a plan that only one better by more than the gap
    replaces.
    """

    def __init__(
        self,
        graph: Graph,
        gap: float,
        switch_bound: float,
        realise: Realise,
        should_stop: Callable[[], bool],
        on_progress: Callable[[float, float], None] | None = None,
        preferred: Path | None = None,
    ) -> None:
        self.preferred = preferred
        self.graph, self.gap, self.switch_bound, self.realise = graph, gap, switch_bound, realise
        self.should_stop, self.on_progress = should_stop, on_progress
        self.edges_considered = 0
        self._considered: dict[Node, list[Edge]] = {}

    def to_beat(self, best: Path, best_cost: float) -> float:
        """What a plan has to cost less than to replace ``best``."""
        return best_cost * (1 - self.gap) if best is self.preferred else best_cost

    def known_edges(self, node: Node) -> Iterator[Edge]:
        """The edges out of ``node`` that the last :meth:`labels` considered."""
        return iter(self._considered.get(node, ()))

    def labels(self, cutoff: float) -> list[dict[Node, Label]] | None:
        """Forward pass over all edges that may be part of a plan below ``cutoff``; None if it was stopped."""
        ahead = self.graph.ahead
        labels: list[dict[Node, Label]] = [{} for _ in ahead]
        labels[0][Node(0, ())] = Label(0.0, None, 0.0, None)
        self._considered = {}
        considered = 0
        for cut in range(len(ahead) - 1):
            for node, label in labels[cut].items():
                if self.should_stop():
                    return None
                if label.bound + ahead[cut] >= cutoff:
                    continue
                edges = self._considered[node] = list(self.graph.edges(node, label.bound, cutoff))
                considered += len(edges)
                for edge in edges:
                    price = edge.price
                    reached = labels[edge.target.cut]
                    there = reached.get(edge.target)
                    if there is None:
                        there = reached[edge.target] = Label()
                    bound = label.bound + price.bound
                    if bound < there.bound:
                        there.bound, there.bound_edge = bound, edge
                    cost = label.cost + price.cost
                    if cost < there.cost:
                        there.cost, there.cost_edge = cost, edge
        self.edges_considered = max(self.edges_considered, considered)
        return labels

    def _look_ahead(self, labels: list[dict[Node, Label]]) -> dict[Node, float]:
        """For each node a bound on everything after it (of plans below the cutoff of ``labels``); raises ``ahead`` by cut."""
        ahead = self.graph.ahead
        after: dict[Node, float] = {Node(len(ahead) - 1, ()): 0.0}
        for cut in range(len(ahead) - 2, -1, -1):
            for node in labels[cut]:
                ways = (e.price.bound + after[e.target] for e in self.known_edges(node) if e.target in after)
                best = min(ways, default=math.inf)
                if best < math.inf:
                    after[node] = max(best, ahead[cut])
            ahead[cut] = max(ahead[cut], min((after[n] for n in labels[cut] if n in after), default=math.inf))
        return after

    def run(self, best: Path, best_cost: float, bound: float) -> tuple[Path, float, float]:
        """The best plan found, its cycles, and a lower bound on every plan's, from a plan that is known already.

        Only paths that would beat the incumbent by more than the gap are pursued: when none is left, the gap is proven.
        """
        pricer = self.graph.pricer
        while bound < best_cost * (1 - self.gap):
            cutoff = best_cost * (1 - self.gap)
            labels = self.labels(cutoff - self.switch_bound)
            if labels is None:
                break
            end = labels[-1].get(Node(len(labels) - 1, ()))
            if end is None or end.bound + self.switch_bound >= cutoff:
                bound = cutoff
                break
            bound = max(bound, end.bound + self.switch_bound)
            if self.on_progress:
                self.on_progress(best_cost, bound)
            below = self.to_beat(best, best_cost)
            if end.cost + self.switch_bound < below:
                best, best_cost = self.realise(walk(labels, by_bound=False), below) or (best, best_cost)
            cheapest = walk(labels, by_bound=True).edges
            open_edges = [e for e in cheapest if not e.price.solved] or [
                e for e in cheapest if not e.price.exactly_solved
            ]
            if not open_edges:
                break
            loose = {id(e.price): e.price for e in open_edges if not e.price.tight and not e.price.solved}
            if loose:
                for price in loose.values():
                    if not self.should_stop():
                        pricer.tighten(price, self.should_stop)
                continue
            after = self._look_ahead(labels)
            cutoff = best_cost * (1 - self.gap) - self.switch_bound
            missing = cutoff - end.bound
            chosen = _worth_solving(open_edges, missing, self.gap * best_cost)
            if not chosen:
                break
            gained = False
            for edge in chosen:
                if missing <= 0:
                    break
                before, solved = edge.price.bound, edge.price.solved
                upper = cutoff - labels[edge.source.cut][edge.source].bound - after[edge.target]
                if before < upper and not self.should_stop():
                    pricer.solve(edge.price, self.should_stop, upper)
                missing -= edge.price.bound - before
                gained |= edge.price.bound > before or (edge.price.solved and not solved)
            if not gained:
                break  # rounding: nothing is left to gain
        return best, best_cost, min(bound, best_cost)


def _worth_solving(edges: Sequence[Edge], missing: float, little: float) -> list[Edge]:
    """Those of a path's unsolved edges by which its bound may rise by the ``missing`` cycles: one whose cost is not known, as it
    may make the others needless; else the fewest that may by what they are known to cost. If all together cannot, still all of
    them, since higher bounds narrow the search that follows, or none if they may raise the bound by ``little`` only."""
    unknown = [e for e in edges if math.isinf(e.price.cost)]
    if unknown:
        return [max(unknown, key=lambda e: e.price.bound)]
    chosen, raised = [], 0.0
    for edge in sorted(edges, key=lambda e: e.price.bound - e.price.cost):
        chosen.append(edge)
        raised += edge.price.cost - edge.price.bound
        if raised >= missing:
            return chosen
    return chosen if raised > little else []


def walk(labels: list[dict[Node, Label]], by_bound: bool) -> Path:
    """The path that ends at the last cut, by bounds or by known costs."""
    edges: list[Edge] = []
    label = labels[-1][Node(len(labels) - 1, ())]
    while (edge := label.bound_edge if by_bound else label.cost_edge) is not None:
        edges.append(edge)
        label = labels[edge.source.cut][edge.source]
    return Path(tuple(reversed(edges)))
