"""Mode switches on a flat chip: only the number of arrays in compute mode (kappa) matters from segment to segment.

A segment that computes on ``c`` arrays and keeps or places tensors in ``m`` can run at any kappa with
``c <= kappa <= A - m``. All arrays start in memory mode (kappa = 0); if they cannot switch, kappa is A for good.
"""

from __future__ import annotations

from collections.abc import Sequence

import hw
from cmswitch.segmentation.search import Edge


def needs(edge: Edge) -> tuple[int, int]:
    """(compute arrays, memory arrays with the kept ones) of a solved edge."""
    exact = edge.price.exact
    assert exact is not None
    return exact.compute_arrays, exact.memory_arrays + edge.kept_arrays


def cheapest_modes(needed: Sequence[tuple[int, int]], chip: hw.Chip) -> tuple[int, ...]:
    """For segments that need ``(compute, memory)`` arrays, the arrays in compute mode with the fewest switch cycles.

    Changing as little as each segment forces, as late as possible, is optimal: the cost of a change grows with its size
    and any other sequence can be projected onto this one without paying more. (With several arrays switched at once a
    batch that is not full is free room, which this rule does not use; the search's exact pass does not assume it.)
    """
    if not chip.modes.switchable:
        return (chip.arrays,) * len(needed)
    kappa, sequence = 0, []
    for compute, memory in needed:
        kappa = min(max(kappa, compute), chip.arrays - memory)
        sequence.append(kappa)
    return tuple(sequence)


def switch_cycles(modes: Sequence[int], chip: hw.Chip) -> tuple[int, ...]:
    """Switch cycles before each segment of a sequence of arrays in compute mode."""
    cycles, previous = [], 0 if chip.modes.switchable else chip.arrays
    for kappa in modes:
        cycles.append(chip.switch_cycles(max(0, kappa - previous), max(0, previous - kappa)))
        previous = kappa
    return tuple(cycles)
