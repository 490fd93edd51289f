"""From a workload and a schedule to the best plan of its plan space, with a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from cmswitch.allocation.pricing import ROUNDING, Pricer
from cmswitch.costs.workload import Workload
from cmswitch.segmentation.exact_modes import MOST_ARRAYS, ExactModes
from cmswitch.segmentation.plan import Plan, PlannedPiece, PlannedPlace, PlannedSegment
from cmswitch.segmentation.search import CutGraph, Graph, KeptGraph, Path, Realise, Search, keeping, unkept
from cmswitch.segmentation.switching import cheapest_modes, needs, switch_cycles


@dataclass(frozen=True)
class Found:
    """A plan and how good it is: ``bound`` <= every plan of the space <= ``cost`` of this one, in cycles.

    ``path`` is what it was made of.
    """

    plan: Plan
    cost: Fraction
    bound: float
    path: Path
    workload: Workload

    def with_bound(self, bound: float) -> Found:
        """The same plan with a bound on a larger space."""
        plan = replace(self.plan, bound_cycles=min(_bound_cycles(bound), self.plan.predicted_cycles))
        return replace(self, bound=min(bound, float(self.cost)), plan=plan)

    @property
    def gap(self) -> float:
        """Relative optimality gap; differences within the rounding of the search count as none. A plan may cost nothing: ``eq10``
        counts no vector work."""
        gap = (float(self.cost) - self.bound) / float(self.cost) if self.cost else 0.0
        return gap if gap > ROUNDING else 0.0


@dataclass
class Space:
    """The plan space of a workload and of the limits of a schedule: what is known of its segments, and a ``bound`` in cycles on
    all its plans."""

    pricer: Pricer
    bound: float = 0.0

    @cached_property
    def cuts(self) -> CutGraph:
        """Its cuts."""
        return CutGraph(self.pricer)

    @property
    def least_switches(self) -> int:
        """Cycles of mode switches in any of its plans."""
        workload = self.pricer.workload
        chip = workload.chip
        return chip.switch_cycles(workload.largest_cell, 0) if chip.modes.switchable else 0


def find_plan(
    space: Space,
    schedule: str,
    gap: float,
    should_stop: Callable[[], bool],
    on_progress: Callable[[float, float], None] | None = None,
    known: Found | None = None,
    wider: Space | None = None,
) -> Found:
    """The plan of ``space`` with the least latency, as its cost model predicts it.

    ``gap`` is the relative gap at which the search may stop; ``should_stop`` is polled and ends it with the best plan so far.
    ``known`` is a plan of this space (one with narrower limits) to begin with, which is returned if nothing beats it by the gap.
    ``wider`` is a space of the same workload that contains this one. It is searched first, for plans of this one: a plan that its
    bounds prove good enough is proven so in both.
    """
    pricer, plans = space.pricer, _Plans(space.pricer, should_stop)
    pricer.wider = wider.pricer if wider else None
    chip, journal, preferred = pricer.workload.chip, pricer.allocator.journal, known.path if known else None

    def search_of(graph: Graph, realise: Realise) -> Search:
        return Search(graph, gap, space.least_switches, realise, should_stop, on_progress, preferred)

    best = (known.path, float(known.cost)) if known else None
    for outer in (wider, space) if wider else (space,):
        if best is None or space.bound < best[1] * (1 - gap):
            outer.cuts.tighten(should_stop)
            path, cost = best or plans.first(outer.cuts.shortest())
            bound = max(outer.bound, outer.cuts.ahead[0] + space.least_switches)
            path, cost, outer.bound = search_of(outer.cuts, plans.with_cuts_of).run(path, cost, bound)
            best, space.bound = (path, cost), max(space.bound, outer.bound)
            journal.segments_considered += outer.cuts.segments
    assert best is not None
    path, cost = best
    if space.bound < cost * (1 - gap) and not should_stop():
        graph, bound = KeptGraph(space.cuts), space.bound
        search = search_of(graph, plans.solved)
        path, cost, space.bound = search.run(path, cost, bound)
        journal.segments_considered += search.edges_considered
        if chip.modes.switchable and chip.arrays <= MOST_ARRAYS:
            path, space.bound = ExactModes(search, chip).run(path, cost, space.bound, gap, should_stop)
        if graph.capped:
            space.bound = bound
    if known is not None and path is known.path:
        plan = replace(known.plan, schedule=schedule, memory_limit=pricer.limits.memory)
        return replace(known, plan=plan).with_bound(space.bound)
    plan, exact = plan_of(schedule, pricer, path, space.bound)
    return Found(plan, exact, min(space.bound, float(exact)), path, pricer.workload)


class _Plans:
    """Turns the paths of a search into plans: paths of solved segments, each with its cycles, switches included."""

    def __init__(self, pricer: Pricer, should_stop: Callable[[], bool]) -> None:
        self._pricer, self._should_stop = pricer, should_stop

    def first(self, path: Path) -> tuple[Path, float]:
        """The plan to begin with, however good."""
        found = self.with_cuts_of(path)
        assert found is not None  # what keeps nothing is feasible
        return found

    def with_cuts_of(self, path: Path, below: float = math.inf) -> tuple[Path, float] | None:
        """The better of two plans with the cuts of ``path``: nothing kept across them, and whatever the buffer holds."""
        nothing_kept = self.solved(unkept(path, self._pricer), below)
        if nothing_kept is not None:
            below = nothing_kept[1]
        kept = keeping(path, self._pricer)
        all_kept = None if kept is None or self._should_stop() else self.solved(kept, below)
        return all_kept or nothing_kept

    def solved(self, path: Path, below: float) -> tuple[Path, float] | None:
        """``path`` with every segment solved, and its cycles with the switches; None if a segment is infeasible, or as soon as it
        is clear that they are not ``below`` that many.

        When time is up a solver returns what it begins with, and if that is nothing, it works the segment out all the same.
        """
        if below < math.inf:
            for edge in path.edges:
                if not edge.price.solved:
                    relaxed = self._pricer.relaxed(edge.source.cut, edge.target.cut)
                    edge.price.bound = max(edge.price.bound, relaxed.bound)
                    if not edge.price.tightenings:
                        self._pricer.tighten(edge.price, self._should_stop)
        for edge in sorted(path.edges, key=lambda e: e.price.cost - e.price.bound, reverse=True):
            if sum(e.price.cost if e.price.solved else e.price.bound for e in path.edges) >= below:
                return None
            for stop in (self._should_stop, lambda: True, lambda: False):
                if edge.price.exact is None and not edge.price.solved:
                    self._pricer.solve(edge.price, stop)
            if edge.price.exact is None:
                return None
        chip = self._pricer.workload.chip
        cost = path.cost + sum(switch_cycles(cheapest_modes([needs(e) for e in path.edges], chip), chip))
        return (path, cost) if cost < below else None


def _bound_cycles(bound: float) -> int:
    """A bound in whole cycles that rounding errors of the search cannot have raised."""
    return math.ceil(bound * (1 - ROUNDING) - 1e-6)


def plan_of(schedule: str, pricer: Pricer, path: Path, bound: float) -> tuple[Plan, Fraction]:
    """The plan that carries out a ``path`` of solved segments, and its exact cycles."""
    workload, limits = pricer.workload, pricer.limits
    chip, network = workload.chip, workload.network
    modes = path.modes or cheapest_modes([needs(e) for e in path.edges], chip)
    switches = switch_cycles(modes, chip)
    segments = []
    cost = Fraction(0)
    for edge, mode, switch in zip(path.edges, modes, switches, strict=True):
        exact = edge.price.exact
        assert exact is not None
        done = pricer.outcome(edge.source.cut, edge.target.cut, edge.resident, edge.price)
        pieces = tuple(
            PlannedPiece(w.piece.operator, w.name, w.piece.first_block, w.piece.last_block, d)
            for w, d in zip(done.works, done.copies, strict=True)
        )
        before, after = dict(edge.source.kept), dict(edge.target.kept)
        places = tuple(
            PlannedPlace(t, network.tensors[t].name, p.where, p.arrays, p.bytes, p.window, t in before, t in after)
            for t, p in sorted(done.places.items())
        )
        cost += exact.total + switch
        segments.append(
            PlannedSegment(
                pieces,
                places,
                done.compute_arrays,
                done.memory_arrays,
                mode,
                str(exact.execute),
                str(exact.reload),
                switch,
                str(done.write_back),
                done.assigned,
            )
        )
    plan = Plan(
        network.name,
        chip.name,
        chip.sha256,
        schedule,
        pricer.resident_weights and len(segments) == 1,
        limits.compute,
        limits.memory,
        math.ceil(cost),
        min(_bound_cycles(bound), math.ceil(cost)),
        tuple(segments),
        cost_model=pricer.cost_model,
    )
    return plan, cost
