"""Collecting segments of the benchmark networks: how the committed list came about."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence

import hw
from benchmarks.ablation.segments import SIZES, HarvestedSegment
from benchmarks.networks import CHIPS, MINILM, NAMES, Case, find_cases
from cmswitch import load_network
from cmswitch.allocation.content import SegmentKeys
from cmswitch.allocation.eq10_pricing import Eq10Pricer
from cmswitch.allocation.segment import SegmentBuilder
from cmswitch.allocation.solving import Allocator
from cmswitch.costs.workload import build_workload
from cmswitch.pipeline import schedule_limits
from formulations.segment import SegmentProblem

NETWORKS = tuple(name for name in NAMES if name != MINILM)  # whose file need not be there
MOST_OPERATORS = max(max(counts) for counts in SIZES.values())


def harvest(count: int, names: Sequence[str] = NETWORKS, chips: Sequence[str] = CHIPS) -> list[HarvestedSegment]:
    """``count`` segments (fewer if there are no more), no two of equal content, spread evenly over sizes, chips and networks.

    Which of a network's is decided by the hash of its content, so that the choice neither depends on chance nor favours a place.
    """
    found: dict[tuple[str, str, str], list[HarvestedSegment]] = {}
    for chip in chips:
        for case in find_cases(names):
            print(f"ablation: harvesting {case.name} on {chip}", file=sys.stderr, flush=True)
            for segment in segments_of(case, chip):
                found.setdefault((case.name, chip, segment.size), []).append(segment)
    order = [(name, chip, size) for name in names for chip in chips for size in SIZES]
    queues = [iter(sorted(found.get(place, []), key=lambda s: s.content)) for place in order]
    taken: dict[str, HarvestedSegment] = {}
    while queues:
        for queue in list(queues):
            another = next((s for s in queue if s.content not in taken), None)
            if another is None:
                queues.remove(queue)
                continue
            taken[another.content] = another
            if len(taken) == count:
                return list(taken.values())
    return list(taken.values())


def segments_of(case: Case, chip_name: str) -> Iterator[HarvestedSegment]:
    """Every segment of at most ``MOST_OPERATORS`` operators that fits the chip, has a matrix product and leaves a choice, one
    of each content."""
    if case.model is None:
        return
    chip = hw.load_chip(chip_name)
    (limits,) = schedule_limits("dual-mode", chip)
    workload = build_workload(load_network(case.model, dims=case.dims), chip, limits.compute)
    builder, keys = SegmentBuilder(workload), SegmentKeys(workload)
    equations = Eq10Pricer(builder, limits, Allocator())
    seen = set()
    for first in range(len(workload.cells)):
        for last in range(first + 1, len(workload.cells) + 1):
            arrays, key = workload.arrays_between(first, last), keys.key(first, last, {})
            if workload.operators(first, last) > MOST_OPERATORS or arrays > limits.compute:
                break
            if not arrays or key in seen:
                continue
            seen.add(key)
            machine = builder.build(first, last, {}, limits).problem
            if _choices(machine) > 1:
                published = equations.problem(first, last)
                yield HarvestedSegment(case.name, chip_name, first, last, machine, published)


def _choices(problem: SegmentProblem) -> int:
    return math.prod(len(s.copies) for s in problem.stages) * math.prod(len(places) for places in problem.tensors)
