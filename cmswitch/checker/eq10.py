"""The published CMSwitch equations, computed once more: what a segment of an ``eq10`` plan may assign, and what it costs.

Written from the equations in ``formulations/eq10.py``'s docstring and from ``docs/plan-space.md``; no code is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from cmswitch.checker.cost import SegmentCost
from cmswitch.checker.demand import Demand, round_up
from cmswitch.checker.rules import Violation, Violations
from cmswitch.graph.network import Network
from cmswitch.naming import quantity
from cmswitch.segmentation.plan import AssignedArrays, Plan, PlannedSegment
from hw import Chip


def assigned(number: int, plan: Plan, chip: Chip, demands: Sequence[Demand]) -> Violations:
    """An ``eq10`` plan, and no other, assigns arrays: enough for its copies and tensors, and no more than there are."""
    segment, where = plan.segments[number], f"segment {number}"
    arrays = segment.assigned
    if (arrays is not None) != (plan.cost_model == "eq10"):
        yield Violation(
            "assigned", where, f"{'no ' if arrays is None else ''}assigned arrays, cost model '{plan.cost_model}'"
        )
    if arrays is None:
        return
    if not len(arrays.compute) == len(arrays.private) == len(demands):
        yield Violation(
            "assigned", where, f"not one number of arrays for each of its {quantity(len(demands), 'piece')}"
        )
        return
    for piece, demand, compute, private in zip(segment.pieces, demands, arrays.compute, arrays.private, strict=True):
        least = len(demand.tiles) * max(1, piece.copies)
        if compute < least or private < 0 or (not demand.tiles and compute + private > 0):
            text = f"{quantity(compute, 'compute array')} and {quantity(private, 'private array')}; its copies take {least}"
            yield Violation("assigned", f"{where}, operator '{piece.name}'", text)
    yield from _shared(where, segment, arrays, chip, demands)
    yield from _sums(where, plan, segment, arrays, chip)


def _shared(
    where: str, segment: PlannedSegment, arrays: AssignedArrays, chip: Chip, demands: Sequence[Demand]
) -> Violations:
    made = {w.tensor: w.bytes for d in demands for w in d.writes}
    read = {r.tensor for d in demands for r in d.reads}
    seen = _kept(segment).keys() | set()
    for share in arrays.shared:
        here = f"{where}, tensor {share.tensor}"
        if share.tensor not in made or share.tensor not in read or share.tensor in seen:
            yield Violation(
                "assigned", here, "shared arrays are of tensors made and read here, once, that are not kept"
            )
            continue
        seen.add(share.tensor)
        most = round_up(made[share.tensor], chip.array_bytes) if chip.array_bytes else 0
        if not 0 <= share.arrays <= most:
            yield Violation("assigned", here, f"{quantity(share.arrays, 'shared array')}, its data takes {most}")


def _sums(where: str, plan: Plan, segment: PlannedSegment, arrays: AssignedArrays, chip: Chip) -> Violations:
    compute = sum(arrays.compute)
    memory = sum(arrays.private) + sum(s.arrays for s in arrays.shared) + sum(_kept(segment).values())
    for name, used, most in (
        ("compute", compute, plan.compute_limit),
        ("memory", memory, plan.memory_limit),
        ("compute and memory", compute + memory, chip.arrays),
    ):
        if used > most:
            yield Violation("assigned", where, f"{quantity(used, f'{name} array')}, the limit is {most}")
    if sum(place.arrays for place in segment.places) > memory:
        yield Violation(
            "assigned", where, f"its tensors take more than the {quantity(memory, 'memory array')} assigned"
        )
    if not compute <= segment.compute_mode <= chip.arrays - memory:
        text = f"{quantity(segment.compute_mode, 'array')} in compute mode, must be within {compute} and {chip.arrays - memory}"
        yield Violation("assigned", where, text)


def _kept(segment: PlannedSegment) -> dict[int, int]:
    """Arrays of each tensor that is kept across a cut at either end of the segment."""
    return {p.tensor: p.arrays for p in segment.places if p.kept_before or p.kept_after}


def eq10_cost(number: int, plan: Plan, network: Network, chip: Chip, demands: Sequence[Demand]) -> SegmentCost:
    """T_seg by (9) and (10), the reload by (2), and moving to main memory what later operators read and is not kept."""
    segment = plan.segments[number]
    arrays, kept = segment.assigned, _kept(segment)
    assert arrays is not None
    execute = Fraction(0)
    writing: dict[tuple[str, ...], int] = {}
    for demand, compute, private in zip(demands, arrays.compute, arrays.private, strict=True):
        operator = network.operators[demand.operator]
        if operator.product is None:
            continue
        touched = {t.tensor for t in (*demand.reads, *demand.writes)}
        memory = private + sum(s.arrays for s in arrays.shared if s.tensor in touched)
        memory += sum(count for tensor, count in kept.items() if tensor in touched)
        inputs = demand.rows * operator.product.inner * operator.product.groups
        rate = (memory * chip.modes.bandwidth + chip.buffer.bandwidth) * Fraction(8, chip.precision.input_bits)
        multiply = Fraction(demand.rows * demand.row_cycles * len(demand.tiles), compute)
        execute = max(execute, multiply, inputs / rate)
        if operator.product.dynamic or not plan.resident_weights:
            writing[operator.nodes] = writing.get(operator.nodes, 0) + compute
    reload = max(writing.values(), default=0) * chip.array_write_cycles(chip.array.rows)
    later = {
        read.tensor
        for s in plan.segments[number + 1 :]
        for p in s.pieces
        for read in network.operators[p.operator].reads
    }
    dropped = sum(w.bytes for d in demands for w in d.writes if w.tensor in later and w.tensor not in kept)
    return SegmentCost(execute, Fraction(reload), dropped / chip.main_memory.bandwidth)
