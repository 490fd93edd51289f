"""Is this a legal plan of this network on this chip, and does it cost what it states?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cmswitch.checker import rules
from cmswitch.checker.cost import Home, SegmentCost, segment_cost
from cmswitch.checker.demand import Demand, blocks_of, demand_of
from cmswitch.checker.eq10 import assigned, eq10_cost
from cmswitch.checker.leads import Leads, leads_of
from cmswitch.checker.rules import Violation
from cmswitch.costs.workload import cut_inner
from cmswitch.errors import InfeasibleError
from cmswitch.graph.network import Network
from cmswitch.segmentation.plan import Plan, PlannedSegment
from hw import Chip


@dataclass(frozen=True)
class CheckReport:
    """All broken rules (none: the plan is legal and costs what it states).

    ``cost`` is the recomputed latency in cycles by the plan's cost model, exact; None if the plan is not legal, since no cost
    would mean anything then.
    """

    violations: tuple[Violation, ...]
    cost: Fraction | None


def check_plan(plan: Plan, network: Network, chip: Chip) -> CheckReport:
    """Recompute every rule and every cost of ``plan`` for ``network`` (before any cutting) on ``chip``.

    Later rules are checked only where earlier ones leave them a meaning: for another chip nothing else is, if operators
    do not run once and in order no resources, and if any rule is broken no costs.
    """
    broken = [*rules.identity(plan, network, chip)] or [*rules.limits(plan, chip)]
    if broken:
        return CheckReport(tuple(broken), None)
    try:
        network = cut_inner(network, chip, plan.compute_limit)
    except InfeasibleError as error:
        return CheckReport((Violation("limits", "compute_limit", str(error)),), None)
    return _Check(plan, network, chip).report()


class _Check:
    """A plan with what follows from it, segment by segment; ``network`` is cut along N as the plan's."""

    def __init__(self, plan: Plan, network: Network, chip: Chip) -> None:
        self.plan, self.network, self.chip = plan, network, chip
        self.blocks = [blocks_of(o.product, chip) if o.product else None for o in network.operators]

    def report(self) -> CheckReport:
        plan, network, chip = self.plan, self.network, self.chip
        broken = [*rules.pieces(plan, network, chip, self.blocks)]
        if broken:
            return CheckReport(tuple(broken), None)
        demands = [self._demands(segment) for segment in plan.segments]
        leads = [leads_of(network, [d.operator for d in of_segment]) for of_segment in demands]
        for number, (of_segment, lead) in enumerate(zip(demands, leads, strict=True)):
            broken += rules.places(number, plan, network, chip, of_segment, lead)
            broken += rules.resources(number, plan, chip, of_segment)
            broken += assigned(number, plan, chip, of_segment)
        broken += rules.kept(plan, network, chip)
        if broken:
            return CheckReport(tuple(broken), None)
        last_reader = _last_readers(demands)
        cost, computing = Fraction(0), 0 if self.chip.modes.switchable else self.chip.arrays
        for number, segment in enumerate(plan.segments):
            if plan.cost_model == "eq10":
                own = eq10_cost(number, plan, network, chip, demands[number])
            else:
                own = self._cost(number, demands[number], leads[number], last_reader)
            change = segment.compute_mode - computing
            computing = segment.compute_mode
            switch = chip.switch_cycles(max(0, change), max(0, -change))
            cost += own.execute + own.reload + own.write_back + switch
            broken += rules.stated(number, segment, own, switch)
        broken += rules.total(plan, cost)
        return CheckReport(tuple(broken), cost)

    def _demands(self, segment: PlannedSegment) -> list[Demand]:
        return [
            demand_of(self.network, self.chip, p.operator, self.blocks[p.operator], p.first_block, p.last_block)
            for p in segment.pieces
        ]

    def _cost(
        self, number: int, demands: Sequence[Demand], leads: Leads, last_reader: Mapping[int, int]
    ) -> SegmentCost:
        segment, homes = self.plan.segments[number], {}
        for place in segment.places:
            later = last_reader.get(place.tensor, -1) > number and not place.kept_after
            to_main = later or self.network.tensors[place.tensor].is_output
            homes[place.tensor] = Home(place.where, place.arrays, to_main)
        copies = [p.copies for p in segment.pieces]
        return segment_cost(self.chip, demands, copies, homes, leads, self.plan.resident_weights)


def _last_readers(demands: Sequence[Sequence[Demand]]) -> dict[int, int]:
    """For each tensor the last segment that reads it."""
    return {
        read.tensor: number for number, segment in enumerate(demands) for demand in segment for read in demand.reads
    }
