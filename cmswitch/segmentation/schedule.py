"""From a workload and a schedule to the best plan of its plan space, with a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from cmswitch.allocation.machine_pricing import MachinePricer
from cmswitch.allocation.pricing import ROUNDING, Effort, Pricer
from cmswitch.allocation.segment import Limits, SegmentBuilder
from cmswitch.allocation.solving import Allocator
from cmswitch.costs.workload import Workload
from cmswitch.segmentation.exact_modes import MOST_ARRAYS, ExactModes
from cmswitch.segmentation.plan import Plan, PlannedPiece, PlannedPlace, PlannedSegment
from cmswitch.segmentation.search import CutGraph, KeptGraph, Path, Search, keeping
from cmswitch.segmentation.switching import cheapest_modes, needs, switch_cycles


@dataclass(frozen=True)
class Found:
    """A plan and how good it is: ``bound`` <= every plan of the space <= ``cost`` of this one, in cycles.

    ``pricer`` knows what was looked into.
    """

    plan: Plan
    cost: Fraction
    bound: float
    effort: Effort
    edges_considered: int
    path: Path
    path_cost: float
    pricer: Pricer

    def with_bound(self, bound: float) -> Found:
        """The same plan with a bound on a larger space."""
        if bound >= self.bound:
            return self
        plan = replace(self.plan, bound_cycles=min(self.plan.bound_cycles, _bound_cycles(bound)))
        return replace(self, bound=bound, plan=plan)

    @property
    def gap(self) -> float:
        """Relative optimality gap; differences within the rounding of the search count as none."""
        gap = (float(self.cost) - self.bound) / float(self.cost)
        return gap if gap > ROUNDING else 0.0


def find_plan(
    builder: SegmentBuilder,
    schedule: str,
    limits: Limits,
    allocator: Allocator,
    gap: float,
    should_stop: Callable[[], bool],
    resident_weights: bool = False,
    on_progress: Callable[[float, float], None] | None = None,
    known: Found | None = None,
    cost_model: type[Pricer] = MachinePricer,
) -> Found:
    """The plan with the least latency, as ``cost_model`` predicts it, when at most ``limits`` arrays are in each mode.

    ``gap`` is the relative gap at which the search may stop; ``should_stop`` is polled and ends it with the best plan so far;
    ``known`` is a plan of this space (one with narrower limits) to begin with, which is returned if nothing beats it by the gap.
    """
    workload, chip = builder.workload, builder.workload.chip
    pricer = cost_model(builder, limits, allocator, resident_weights)
    pricer.narrower = known.pricer if known else None
    switch_bound = chip.switch_cycles(workload.largest_cell, 0) if chip.modes.switchable else 0
    cuts = CutGraph(pricer)
    cuts.tighten(should_stop)
    plans = _Plans(pricer, cuts, should_stop)
    preferred = known.path if known else None
    search = Search(cuts, gap, switch_bound, plans.with_cuts_of, should_stop, on_progress, preferred)
    if known:
        path, path_cost = known.path, known.path_cost
    else:
        path, path_cost = plans.first(cuts.shortest())
    path, path_cost, bound = search.run(path, path_cost, cuts.ahead[0] + switch_bound)
    considered = cuts.segments
    if bound < path_cost * (1 - gap) and not should_stop():
        graph, bound_of_cuts = KeptGraph(cuts), bound
        search = Search(graph, gap, switch_bound, plans.solved, should_stop, on_progress, preferred)
        path, path_cost, bound = search.run(path, path_cost, bound)
        considered += search.edges_considered
        if chip.modes.switchable and chip.arrays <= MOST_ARRAYS:
            path, bound = ExactModes(search, chip).run(path, path_cost, bound, gap, should_stop)
        if graph.capped:
            bound = bound_of_cuts
    if known is not None and path is known.path:
        bound_cycles = min(_bound_cycles(bound), known.plan.predicted_cycles)
        plan = replace(known.plan, schedule=schedule, memory_limit=limits.memory, bound_cycles=bound_cycles)
        return replace(
            known, plan=plan, bound=min(bound, float(known.cost)), effort=pricer.effort, edges_considered=considered
        )
    plan, cost = plan_of(workload, schedule, limits, pricer, path, bound, resident_weights)
    return Found(plan, cost, min(bound, float(cost)), pricer.effort, considered, path, path_cost, pricer)


class _Plans:
    """Turns the paths of a search into plans: paths of solved segments, each with its cycles, switches included."""

    def __init__(self, pricer: Pricer, cuts: CutGraph, should_stop: Callable[[], bool]) -> None:
        self._pricer, self._cuts, self._should_stop = pricer, cuts, should_stop

    def first(self, path: Path) -> tuple[Path, float]:
        """The plan to begin with, however good."""
        found = self.with_cuts_of(path)
        assert found is not None  # what keeps nothing is feasible
        return found

    def with_cuts_of(self, path: Path, below: float = math.inf) -> tuple[Path, float] | None:
        """The better of two plans with the cuts of ``path``: nothing kept across them, and whatever the buffer holds."""
        nothing_kept = self.solved(self._cuts.unkept(path), below)
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
                    edge.price.bound = max(edge.price.bound, self._cuts.bound(edge))
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


def plan_of(
    workload: Workload,
    schedule: str,
    limits: Limits,
    pricer: Pricer,
    path: Path,
    bound: float,
    resident_weights: bool,
) -> tuple[Plan, Fraction]:
    """The plan that carries out a ``path`` of solved segments, and its exact cycles."""
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
        resident_weights and len(segments) == 1,
        limits.compute,
        limits.memory,
        math.ceil(cost),
        min(_bound_cycles(bound), math.ceil(cost)),
        tuple(segments),
        cost_model=pricer.cost_model,
    )
    return plan, cost
