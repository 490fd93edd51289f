"""The segmentation search: a shortest path whose edges are priced only where the path needs them.

Nodes are (cut, kept tensors with their homes); an edge is the segment between two nodes. Every edge starts with a valid
lower bound. The shortest path under current bounds is taken, the edges on it are bounded better and then solved,
and so on until the best solved path is within the gap of the bound path. Mode switches are added by
:mod:`cmswitch.segmentation.switching`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cmswitch.allocation.pricing import Kept, Price, Pricer
from cmswitch.allocation.segment import Home, Place, home_of

Homes = tuple[Home, ...]


@dataclass(frozen=True)
class Node:
    """A cut before cell ``cut``, and the tensors kept across it."""

    cut: int
    kept: Kept


@dataclass(frozen=True)
class Edge:
    """A segment between two nodes; ``resident`` are the tensors kept during it, which hold ``kept_arrays`` arrays."""

    source: Node
    target: Node
    resident: Kept
    kept_arrays: int
    price: Price


@dataclass
class Label:
    """Best known way to a node: by lower bound, and by solved edges only."""

    bound: float = math.inf
    bound_edge: Edge | None = None
    cost: float = math.inf
    cost_edge: Edge | None = None


@dataclass(frozen=True)
class Path:
    """A sequence of edges from the first cut to the last and the sum of their bounds and costs (no switches).

    ``modes`` are the arrays in compute mode in each segment, if they were decided together with the path.
    """

    edges: tuple[Edge, ...]
    bound: float
    cost: float
    modes: tuple[int, ...] | None = None


@dataclass
class Graph:
    """Nodes and edges that survive pruning, generated on demand from one pricer."""

    pricer: Pricer
    homes: Homes
    ahead: list[float] = field(default_factory=list)
    _edges: dict[tuple[Node, int], tuple[Edge, ...]] = field(default_factory=dict)
    _ends: dict[int, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compute ``ahead``: for each cut, a bound on everything after it."""
        count = len(self.pricer.workload.cells)
        self.ahead = [math.inf] * count + [0.0]
        for first in range(count - 1, -1, -1):
            self.ahead[first] = min((b + self.ahead[last] for last, b in self.ends(first)), default=math.inf)

    def ends(self, first: int) -> tuple[tuple[int, float], ...]:
        """(last, relaxed bound) of every segment that starts at cell ``first``; longer ones do not fit the chip."""
        if first not in self._ends:
            found = []
            for last in range(first + 1, len(self.pricer.workload.cells) + 1):
                bound = self.pricer.relaxed_bound(first, last)
                if math.isinf(bound):
                    break
                found.append((last, bound))
            self._ends[first] = tuple(found)
        return self._ends[first]

    def edges(self, node: Node, reached: float, cutoff: float) -> Iterator[Edge]:
        """Edges out of ``node``, itself reached at cost >= ``reached``, that may be part of a plan below ``cutoff``."""
        for last, bound in self.ends(node.cut):
            if reached + bound + self.ahead[last] >= cutoff:
                continue
            key = (node, last)
            if key not in self._edges:
                self._edges[key] = tuple(self._expand(node, last))
            yield from self._edges[key]

    def _expand(self, node: Node, last: int) -> Iterator[Edge]:
        workload = self.pricer.workload
        carried = tuple((t, h) for t, h in node.kept if workload.last_use[t] > last)
        for new in self._new_kept(node, last):
            resident = tuple(sorted(node.kept + new))
            price = self.pricer.price(node.cut, last, resident)
            arrays = sum(home_of(workload, t, h).arrays for t, h in resident)
            yield Edge(node, Node(last, tuple(sorted(carried + new))), resident, arrays, price)

    def _new_kept(self, node: Node, last: int) -> list[Kept]:
        """The sets of tensors produced in the segment that may be kept from now on, none first."""
        workload, chip = self.pricer.workload, self.pricer.workload.chip
        held = [home_of(workload, t, h) for t, h in node.kept]
        arrays = self.pricer.limits.memory - sum(p.arrays for p in held)
        space = chip.buffer.capacity_bytes - sum(_buffer_bytes(p) for p in held)
        sets: list[tuple[Kept, int, int]] = [((), arrays, space)]
        for piece in workload.pieces(node.cut, last):
            if piece.first_block:
                continue
            for write in workload.network.operators[piece.operator].writes:
                if workload.last_use[write.tensor] <= last:
                    continue
                places = [home_of(workload, write.tensor, h) for h in self.homes]
                sets += [
                    ((*kept, (write.tensor, home)), arrays - p.arrays, space - _buffer_bytes(p))
                    for kept, arrays, space in sets
                    for home, p in zip(self.homes, places, strict=True)
                    if p.arrays <= arrays and _buffer_bytes(p) <= space
                ]
        return [kept for kept, _, _ in sets]


def _buffer_bytes(place: Place) -> int:
    return place.bytes if place.where == "buffer" else 0


class Search:
    """Runs the lazy shortest path on a graph to a relative ``gap``, or until ``should_stop``."""

    def __init__(
        self,
        graph: Graph,
        gap: float,
        should_stop: Callable[[], bool],
        on_progress: Callable[[float, float], None] | None = None,
    ) -> None:
        self.graph, self.gap, self.should_stop, self.on_progress = graph, gap, should_stop, on_progress
        self.edges_considered = 0
        self._considered: dict[Node, list[Edge]] = {}

    def first_path(self) -> Path:
        """A feasible path: the one with the least relaxed bounds and nothing kept, solved."""
        graph, edges = self.graph, []
        node = Node(0, ())
        while node.cut < len(graph.pricer.workload.cells):
            last, _ = min(graph.ends(node.cut), key=lambda end: (end[1] + graph.ahead[end[0]], end[0]))
            target = Node(last, ())
            edges.append(Edge(node, target, (), 0, graph.pricer.price(node.cut, last, ())))
            node = target
        for edge in edges:
            if not edge.price.solved:
                graph.pricer.solve(edge.price, self.should_stop)
        return Path(tuple(edges), graph.ahead[0], sum(e.price.cost for e in edges))

    def known_edges(self, node: Node) -> Iterator[Edge]:
        """The edges out of ``node`` that the last :meth:`labels` considered."""
        return iter(self._considered.get(node, ()))

    def labels(self, cutoff: float) -> list[dict[Node, Label]]:
        """Forward pass over all edges that may be part of a plan below ``cutoff``."""
        cells = len(self.graph.pricer.workload.cells)
        labels: list[dict[Node, Label]] = [{} for _ in range(cells + 1)]
        labels[0][Node(0, ())] = Label(0.0, None, 0.0, None)
        self._considered = {}
        considered = 0
        for cut in range(cells):
            for node, label in labels[cut].items():
                if label.bound + self.graph.ahead[cut] >= cutoff:
                    continue
                edges = self._considered[node] = list(self.graph.edges(node, label.bound, cutoff))
                considered += len(edges)
                for edge in edges:
                    price = edge.price
                    there = labels[edge.target.cut].setdefault(edge.target, Label())
                    bound = label.bound + price.bound
                    if bound < there.bound:
                        there.bound, there.bound_edge = bound, edge
                    cost = label.cost + price.cost
                    if cost < there.cost:
                        there.cost, there.cost_edge = cost, edge
        self.edges_considered = max(self.edges_considered, considered)
        return labels

    def run(
        self, switch_bound: float, price_path: Callable[[Path], float], start: tuple[Path, float] | None = None
    ) -> tuple[Path, float]:
        """The best path found and a lower bound on every plan's cycles, switches included.

        ``switch_bound`` bounds the switch cycles of any plan; ``price_path`` gives a solved path's cycles with its switches;
        ``start`` is a path of this graph that is known already, with its cycles.

        Only paths that would beat the incumbent by more than the gap are pursued: when none is left, the gap is proven.
        """
        best, best_cost = start or self._priced(self.first_path(), price_path)
        bound = self.graph.ahead[0] + switch_bound
        pricer = self.graph.pricer
        while not self.should_stop() and bound < best_cost * (1 - self.gap):
            if self.on_progress:
                self.on_progress(best_cost, bound)
            cutoff = best_cost * (1 - self.gap)
            labels = self.labels(cutoff - switch_bound)
            end = labels[-1].get(Node(len(labels) - 1, ()))
            if end is None or end.bound + switch_bound >= cutoff:
                bound = cutoff
                break
            bound = max(bound, end.bound + switch_bound)
            if not math.isinf(end.cost):
                path, cost = self._priced(_walk(labels, end.bound, False), price_path)
                if cost < best_cost:
                    best, best_cost = path, cost
            open_edges = [e for e in _walk(labels, end.bound, True).edges if not e.price.solved]
            if not open_edges:
                break
            loose = [e for e in open_edges if not e.price.tightened]
            for edge in loose or open_edges:
                if self.should_stop():
                    break
                if loose and not edge.price.tightened:
                    pricer.tighten(edge.price)
                elif not edge.price.solved:
                    pricer.solve(edge.price, self.should_stop)
        return best, min(bound, best_cost)

    @staticmethod
    def _priced(path: Path, price_path: Callable[[Path], float]) -> tuple[Path, float]:
        return path, price_path(path)


def _walk(labels: list[dict[Node, Label]], bound: float, by_bound: bool) -> Path:
    """The path that ends at the last cut, by bounds or by solved costs."""
    edges: list[Edge] = []
    label = labels[-1][Node(len(labels) - 1, ())]
    cost = label.cost
    while (edge := label.bound_edge if by_bound else label.cost_edge) is not None:
        edges.append(edge)
        label = labels[edge.source.cut][edge.source]
    return Path(tuple(reversed(edges)), bound, cost)
