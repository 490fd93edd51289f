"""The exact pass over mode switches: nodes also carry kappa, the number of arrays in compute mode.

The search prices segments as if switching were free and adds the switches afterwards. Where that leaves a gap, this pass
closes it: every segment's cost becomes a function of kappa, known at the kappas that were solved for and bounded by the
unrestricted program elsewhere, and the shortest path is taken over (cut, kept tensors, kappa).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import hw
from cmswitch.allocation.pricing import Price
from cmswitch.allocation.segment import Limits
from cmswitch.segmentation.search import Edge, Label, Node, Path, Search
from cmswitch.segmentation.switching import needs

MOST_ARRAYS = 1024
"""Largest chip for which the pass is run; beyond it switches are a vanishing share of any plan, and the gap says so."""

Vector = NDArray[np.float64]


@dataclass
class _Curve:
    """Cost of a segment by kappa: ``bound`` below, ``cost`` above by the allocations known; ``solved`` where they meet."""

    bound: Vector
    cost: Vector
    solved: NDArray[np.bool_]
    prices: dict[int, Price] = field(default_factory=dict)


class ExactModes:
    """Runs the pass on the surviving edges of a finished search."""

    def __init__(self, search: Search, chip: hw.Chip) -> None:
        self.search, self.pricer, self.chip = search, search.graph.pricer, chip
        self.size = self.pricer.limits.compute + 1
        change = np.arange(self.size)[None, :] - np.arange(self.size)[:, None]
        distances = (
            [chip.switch_cycles(n, 0) for n in range(self.size)],
            [chip.switch_cycles(0, n) for n in range(self.size)],
        )
        self.switch = np.where(
            change >= 0, np.take(distances[0], np.abs(change)), np.take(distances[1], np.abs(change))
        )
        self._curves: dict[tuple[int, int], _Curve] = {}

    def run(
        self, best: Path, best_cost: float, bound: float, gap: float, should_stop: Callable[[], bool]
    ) -> tuple[Path, float]:
        """The best path (with its modes) and a lower bound on every plan, switches included."""
        while not should_stop() and best_cost - bound > gap * best_cost:
            labels = self.search.labels(best_cost * (1 - gap))
            if labels is None:
                break
            lower, lower_path = self._shortest(labels, by_bound=True)
            upper, upper_path = self._shortest(labels, by_bound=False)
            if upper < self.search.to_beat(best, best_cost) and upper_path is not None:
                best, best_cost = upper_path, upper
            bound = max(bound, min(lower, best_cost * (1 - gap)))
            if lower_path is None or best_cost - bound <= gap * best_cost:
                break
            if not self._refine(lower_path, should_stop):
                break
        return best, bound

    def _refine(self, path: Path, should_stop: Callable[[], bool]) -> bool:
        """Solve the segments of a bound path at the kappas that it uses; whether any was left to solve."""
        assert path.modes is not None
        refined = False
        for edge, kappa in zip(path.edges, path.modes, strict=True):
            curve = self._curve(edge)
            if curve.solved[kappa] or should_stop():
                continue
            refined = True
            if not edge.price.solved:
                self.pricer.solve(edge.price, should_stop)
                self._note(edge, curve, edge.price)
                continue
            limits = Limits(kappa, min(self.pricer.limits.memory, self.chip.arrays - kappa))
            price = self.pricer.price(edge.source.cut, edge.target.cut, edge.resident, limits)
            if not price.solved:
                self.pricer.solve(price, should_stop)
            curve.bound[kappa], curve.solved[kappa] = max(curve.bound[kappa], price.bound), True
            if price.exact is not None:
                self._note(edge, curve, price)
        return refined

    def _curve(self, edge: Edge) -> _Curve:
        key = (id(edge.price), edge.kept_arrays)
        if key not in self._curves:
            full = np.full(self.size, math.inf)
            curve = _Curve(np.full(self.size, edge.price.bound), full, np.zeros(self.size, dtype=bool))
            workload = self.pricer.workload
            least = sum(workload.arrays(p) for p in workload.pieces(edge.source.cut, edge.target.cut))
            for impossible in (slice(0, least), slice(max(0, self.chip.arrays - edge.kept_arrays + 1), None)):
                curve.bound[impossible], curve.solved[impossible] = math.inf, True
            self._curves[key] = curve
            if edge.price.solved:
                self._note(edge, curve, edge.price)
        return self._curves[key]

    def _note(self, edge: Edge, curve: _Curve, price: Price) -> None:
        """Record an allocation: it can run at every kappa between its compute arrays and what its memory arrays leave."""
        unrestricted = price is edge.price
        if unrestricted:
            curve.bound = np.maximum(curve.bound, price.bound)
        if price.exact is None:
            curve.solved[:] |= unrestricted
            return
        compute, memory = needs(edge._replace(price=price))
        for kappa in range(compute, min(self.size, self.chip.arrays - memory + 1)):
            if price.cost < curve.cost[kappa]:
                curve.cost[kappa] = price.cost
                curve.prices[kappa] = price
            curve.solved[kappa] |= unrestricted

    def _shortest(self, labels: list[dict[Node, Label]], by_bound: bool) -> tuple[float, Path | None]:
        """The shortest path over (node, kappa), by bounds or by known allocations."""
        start = np.full(self.size, math.inf)
        start[0] = 0.0
        reached: dict[Node, Vector] = {Node(0, ()): start}
        incoming: dict[Node, list[tuple[Edge, Vector, Vector]]] = {}
        for cut in range(len(labels) - 1):
            for node in labels[cut]:
                if node not in reached:
                    continue
                before = reached[node]
                moved = (before[:, None] + self.switch).min(axis=0)
                for edge in self.search.known_edges(node):
                    curve = self._curve(edge)
                    after = moved + (curve.bound if by_bound else curve.cost)
                    incoming.setdefault(edge.target, []).append((edge, before, after))
                    known = reached.get(edge.target)
                    reached[edge.target] = after if known is None else np.minimum(known, after)
        end = Node(len(labels) - 1, ())
        if end not in reached or math.isinf(reached[end].min()):
            return math.inf, None
        total = float(reached[end].min())
        node, kappa = end, int(reached[end].argmin())
        edges: list[Edge] = []
        modes: list[int] = []
        while node in incoming:
            edge, before, _ = min(incoming[node], key=lambda item: float(item[2][kappa]))
            price = edge.price if by_bound else self._curve(edge).prices[kappa]
            edges.append(edge._replace(price=price))
            modes.append(kappa)
            kappa = int((before + self.switch[:, kappa]).argmin())
            node = edge.source
        edges.reverse()
        modes.reverse()
        return total, Path(tuple(edges), tuple(modes))
