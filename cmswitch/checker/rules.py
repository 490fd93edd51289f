"""The rules that a plan obeys whatever it costs, one function each group; every broken one becomes a violation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from cmswitch.checker.cost import SegmentCost
from cmswitch.checker.demand import Block, Demand, round_up
from cmswitch.checker.leads import Leads, least_window
from cmswitch.graph.network import Network
from cmswitch.naming import quantity
from cmswitch.segmentation.plan import PLAN_VERSION, Plan, PlannedPlace, PlannedSegment
from hw import Chip


class Violation(NamedTuple):
    """A broken ``rule`` (a stable short name), ``where`` it is broken (segment, operator or tensor), and how."""

    rule: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.text}"


Violations = Iterator[Violation]


def identity(plan: Plan, network: Network, chip: Chip) -> Violations:
    """The plan is for this network and this chip."""
    if plan.version != PLAN_VERSION:
        yield Violation("version", "plan", f"version {plan.version}, this is a checker of version {PLAN_VERSION}")
    if plan.network != network.name:
        yield Violation("network", "plan", f"made for network '{plan.network}', not '{network.name}'")
    if plan.chip != chip.name:
        yield Violation("chip", "plan", f"made for chip '{plan.chip}', not '{chip.name}'")
    elif plan.chip_sha256 != chip.sha256:
        yield Violation(
            "chip", "plan", f"made for another version of chip '{chip.name}': its sha256 is {plan.chip_sha256}"
        )


def limits(plan: Plan, chip: Chip) -> Violations:
    """The limits that the plan set itself are possible, and fit its schedule."""
    for name, limit in (("compute_limit", plan.compute_limit), ("memory_limit", plan.memory_limit)):
        if not 0 <= limit <= chip.arrays:
            yield Violation(
                "limits", name, f"{limit} is not within 0 and the {quantity(chip.arrays, 'array')} of the chip"
            )
    if plan.schedule == "all-compute" and plan.memory_limit:
        yield Violation(
            "limits", "memory_limit", f"{quantity(plan.memory_limit, 'memory-mode array')} on schedule 'all-compute'"
        )
    both = plan.compute_limit + plan.memory_limit
    if plan.schedule == "static" and both > chip.arrays:
        yield Violation("limits", "plan", f"schedule 'static' splits {quantity(chip.arrays, 'array')}, not {both}")
    if plan.memory_limit and plan.schedule != "static" and not chip.modes.switchable:
        yield Violation(
            "limits", "memory_limit", f"{quantity(plan.memory_limit, 'memory-mode array')} on a chip that cannot switch"
        )
    if plan.resident_weights and len(plan.segments) != 1:
        yield Violation(
            "resident-weights",
            "plan",
            f"{quantity(len(plan.segments), 'segment')}, but only weights of one segment can stay for good",
        )


def pieces(plan: Plan, network: Network, chip: Chip, blocks: Sequence[tuple[Block, ...] | None]) -> Violations:
    """Every block of every operator runs exactly once, in the network's order, in runs of consecutive blocks."""
    covered: list[list[int]] = [[] for _ in network.operators]
    latest = (0, 0)
    for number, segment in enumerate(plan.segments):
        if not segment.pieces:
            yield Violation("empty", _at(number), "no operator runs in it")
        here: set[int] = set()
        for piece in segment.pieces:
            where = f"{_at(number)}, operator '{piece.name}'"
            if not 0 <= piece.operator < len(network.operators):
                yield Violation("operator", where, f"the network has no operator {piece.operator}")
                continue
            facts, grid = network.operators[piece.operator], blocks[piece.operator]
            count = 1 if grid is None else len(grid)
            if not 0 <= piece.first_block < piece.last_block <= count:
                yield Violation(
                    "blocks", where, f"blocks {piece.first_block} to {piece.last_block} of an operator that has {count}"
                )
                continue
            share = f"[{piece.first_block}:{piece.last_block}]" if piece.last_block - piece.first_block < count else ""
            if piece.name != facts.name + share:
                yield Violation("operator", where, f"operator {piece.operator} is '{facts.name + share}'")
            if piece.operator in here:
                yield Violation("one-piece", where, "two pieces of one operator in one segment are one piece")
            here.add(piece.operator)
            covered[piece.operator] += range(piece.first_block, piece.last_block)
            if (piece.operator, piece.first_block) < latest:
                after = network.operators[latest[0]].name
                yield Violation("order", where, f"runs after '{after}', against the order of the network")
            latest = max(latest, (piece.operator, piece.first_block))
            if grid is None and piece.copies:
                yield Violation(
                    "copies",
                    where,
                    f"{quantity(piece.copies, 'copy', 'copies')} of an operator without a matrix product",
                )
            if grid is not None and piece.copies < 1:
                yield Violation(
                    "copies",
                    where,
                    f"{quantity(piece.copies, 'copy', 'copies')} of a matrix product, which needs one at least",
                )
            bits = facts.product.weight_bits if facts.product else None
            arrays = chip.weight_format(bits).arrays * sum(len(b.tiles) for b in grid or ())
            if share and arrays <= plan.compute_limit:
                yield Violation(
                    "cut",
                    where,
                    f"cut, although it takes {quantity(arrays, 'array')}, within the limit of {plan.compute_limit}",
                )
    for facts, grid, found in zip(network.operators, blocks, covered, strict=True):
        where = f"operator '{facts.name}'"
        expected = set(range(1 if grid is None else len(grid)))
        if missing := sorted(expected - set(found)):
            yield Violation("coverage", where, f"{_blocks(missing)} of {len(expected)} never run")
        if twice := sorted({b for b in found if found.count(b) > 1}):
            yield Violation("coverage", where, f"{_blocks(twice)} of {len(expected)} run more than once")


def kept(plan: Plan, network: Network, chip: Chip) -> Violations:
    """A tensor kept across cuts is whole in one home from the segment that begins to make it to its last reader's."""
    runs = [{p.operator for p in segment.pieces} for segment in plan.segments]
    for tensor, facts in enumerate(network.tensors):
        found = {
            s: place
            for s, segment in enumerate(plan.segments)
            for place in segment.places
            if place.tensor == tensor and (place.kept_before or place.kept_after)
        }
        if not found:
            continue
        where = f"tensor '{facts.name}'"
        if facts.producer is None:
            yield Violation("kept-input", where, "a network input lives in main memory and is kept in no segment")
            continue
        readers = set(network.consumers[tensor])
        begin = min(s for s, operators in enumerate(runs) if facts.producer in operators)
        end = max((s for s, operators in enumerate(runs) if readers & operators), default=begin)
        if begin == end:
            yield Violation("kept-span", f"{_at(begin)}, {where}", "nothing reads it after this segment")
            continue
        for s in sorted({*range(begin, end + 1), *found}):
            here = f"{_at(s)}, {where}"
            if not begin <= s <= end:
                yield Violation("kept-span", here, f"kept here, but its life is from segment {begin} to {end}")
            elif s not in found:
                yield Violation("kept-span", here, f"not kept here, between segments {begin} and {end}")
            elif (found[s].kept_before, found[s].kept_after) != (s > begin, s < end):
                yield Violation("kept-span", here, f"must be kept from segment {begin} to {end} without a hole")
        yield from _homes(found, where, chip, facts.elements)


def _homes(found: Mapping[int, PlannedPlace], where: str, chip: Chip, elements: int) -> Violations:
    size = chip.activation_bytes(elements)
    home = found[min(found)]
    for s, place in found.items():
        here = f"{_at(s)}, {where}"
        if (place.where, place.arrays) != (home.where, home.arrays):
            yield Violation("kept-home", here, f"moved from {_home(home)} to {_home(place)}")
            continue
        arrays = round_up(size, chip.array_bytes) if place.where == "arrays" and chip.array_bytes else 0
        if place.arrays != arrays and place.where == "arrays":
            yield Violation(
                "kept-home",
                here,
                f"kept in {quantity(place.arrays, 'array')}, not in the {arrays} that its {quantity(size, 'byte')} need",
            )
        if place.window is not None or place.bytes != size:
            yield Violation("kept-home", here, f"kept as {_size(place)}, not whole with its {quantity(size, 'byte')}")


def places(
    number: int,
    plan: Plan,
    network: Network,
    chip: Chip,
    demands: Sequence[Demand],
    leads: Leads,
) -> Violations:
    """Each place of the segment is of a tensor that has one there, and is large enough."""
    made = {w.tensor: d for d in demands for w in d.writes}
    used = {r.tensor for d in demands for r in d.reads}
    seen: set[int] = set()
    for place in plan.segments[number].places:
        where = f"{_at(number)}, tensor '{place.name}'"
        if not 0 <= place.tensor < len(network.tensors) or network.tensors[place.tensor].name != place.name:
            yield Violation("tensor", where, f"the network has no such tensor {place.tensor}")
            continue
        if place.tensor in seen:
            yield Violation("tensor", where, "two places in one segment")
        seen.add(place.tensor)
        if place.where == "main" or (place.where == "arrays") != (place.arrays > 0):
            yield Violation(
                "place", where, f"has {quantity(place.arrays, 'array')}, which does not go with '{place.where}'"
            )
            continue
        room = place.arrays * chip.array_bytes
        if place.where == "arrays" and room < place.bytes:
            yield Violation(
                "size",
                where,
                f"needs {quantity(place.bytes, 'byte')}, has {room:,} in {quantity(place.arrays, 'array')}",
            )
        if place.kept_before or place.kept_after:
            continue
        maker = made.get(place.tensor)
        if maker is None:
            touched = place.tensor in used
            text = "comes from main memory" if touched else "not touched by the segment, and not kept"
            yield Violation("touched", where, f"{text}, so it has no place here")
        elif not maker.whole:
            yield Violation("partial", where, "its producer runs only in part here: it is kept or in main memory")
        elif place.tensor not in used:
            yield Violation("touched", where, "nothing in the segment reads it")
        else:
            yield from _room(place, where, network, chip, demands, leads)


def _room(
    place: PlannedPlace, where: str, network: Network, chip: Chip, demands: Sequence[Demand], leads: Leads
) -> Violations:
    """A tensor made here has room for its live window, or for all of it.

    Only readers in the segment hold the window open: later ones read from main memory, to which the tensor streams meanwhile.
    """
    facts = network.tensors[place.tensor]
    assert facts.producer is not None
    producer = network.operators[facts.producer]
    here = [d.operator for d in demands if any(r.tensor == place.tensor for r in d.reads)]
    total = chip.activation_bytes(facts.elements)
    if place.window is None:
        if place.bytes < total:
            yield Violation("size", where, f"{quantity(place.bytes, 'byte')}, the whole tensor has {total}")
        return
    least = least_window(network, leads, place.tensor, here)
    if place.window < least:
        needed = "all" if least == producer.chunks else str(least)
        yield Violation(
            "window",
            where,
            f"a window of {quantity(place.window, 'chunk')}; {needed} of {producer.chunks} are live at once",
        )
    size = place.window * round_up(total, producer.chunks)
    if place.bytes < size:
        yield Violation(
            "size", where, f"{quantity(place.bytes, 'byte')}, a window of {quantity(place.window, 'chunk')} has {size}"
        )


def resources(number: int, plan: Plan, chip: Chip, demands: Sequence[Demand]) -> Violations:
    """The segment uses no more arrays and buffer than there are, and states what it uses."""
    segment, where = plan.segments[number], _at(number)
    compute = sum(p.copies * len(d.tiles) for p, d in zip(segment.pieces, demands, strict=True))
    memory = sum(p.arrays for p in segment.places)
    for rule, used, stated, limit in (
        ("compute-arrays", compute, segment.compute_arrays, plan.compute_limit),
        ("memory-arrays", memory, segment.memory_arrays, plan.memory_limit),
    ):
        if used != stated:
            yield Violation(rule, where, f"states {stated}, uses {used}")
        if used > limit:
            yield Violation(
                rule.replace("arrays", "limit"), where, f"uses {quantity(used, 'array')}, the plan's limit is {limit}"
            )
    most = min(plan.compute_limit, chip.arrays - memory)
    if not chip.modes.switchable and segment.compute_mode != chip.arrays:
        text = f"{quantity(segment.compute_mode, 'array')} in compute mode on a chip with {chip.arrays} in it for good"
        yield Violation("compute-mode", where, text)
    if compute + memory > chip.arrays:
        yield Violation(
            "arrays",
            where,
            f"uses {quantity(compute + memory, 'array')} ({compute} + {memory}), the chip has {chip.arrays}",
        )
    elif compute <= plan.compute_limit and not compute <= segment.compute_mode <= most:
        yield Violation(
            "compute-mode",
            where,
            f"{quantity(segment.compute_mode, 'array')} in compute mode, must be within {compute} and {most}",
        )
    buffer = sum(p.bytes for p in segment.places if p.where == "buffer")
    if buffer > chip.buffer.capacity_bytes:
        yield Violation(
            "buffer", where, f"{quantity(buffer, 'byte')} of the buffer, which holds {chip.buffer.capacity_bytes}"
        )


def _at(number: int) -> str:
    return f"segment {number}"


def _blocks(numbers: Sequence[int]) -> str:
    return (
        ("block " if len(numbers) == 1 else "blocks ")
        + ", ".join(map(str, numbers[:8]))
        + (", ..." * (len(numbers) > 8))
    )


def _home(place: PlannedPlace) -> str:
    return quantity(place.arrays, "array") if place.where == "arrays" else f"the {place.where}"


def _size(place: PlannedPlace) -> str:
    return quantity(place.bytes, "byte") if place.window is None else f"a window of {quantity(place.window, 'chunk')}"


def stated(number: int, segment: PlannedSegment, cost: SegmentCost, switch: int) -> Violations:
    """The segment's stated cycles are exactly the recomputed ones."""
    for rule, claimed, cycles in (
        ("switch", str(segment.switch), Fraction(switch)),
        ("reload", segment.reload, cost.reload),
        ("write-back", segment.write_back, cost.write_back),
        ("execute", segment.execute, cost.execute),
    ):
        try:
            wrong = Fraction(claimed) != cycles
        except (ValueError, ZeroDivisionError):
            yield Violation(rule, _at(number), f"states '{claimed}', which is no rational number")
            continue
        if wrong:
            yield Violation(rule, _at(number), f"states {claimed} cycles, recomputed {cycles}")


def total(plan: Plan, cost: Fraction) -> Violations:
    """The plan's stated latency is the sum of its segments, rounded up, and its bound does not exceed it."""
    if plan.predicted_cycles != math.ceil(cost):
        yield Violation(
            "predicted", "plan", f"states {plan.predicted_cycles} cycles, recomputed {math.ceil(cost)} ({cost})"
        )
    if not 0 <= plan.bound_cycles <= math.ceil(cost):
        yield Violation(
            "bound", "plan", f"a proven bound of {plan.bound_cycles} cycles, the plan takes {math.ceil(cost)}"
        )
