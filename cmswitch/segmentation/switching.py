"""Mode switches on a flat chip: only the number of arrays in compute mode (kappa) matters from segment to segment.

A segment that computes on ``c`` arrays and keeps or places tensors in ``m`` can run at any kappa with
``c <= kappa <= A - m``. All arrays start in memory mode (kappa = 0); if they cannot switch, kappa is A for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import hw
from cmswitch.segmentation.search import Edge


def needs(edge: Edge) -> tuple[int, int]:
    """(compute arrays, memory arrays with the kept ones) of a solved edge."""
    exact = edge.price.exact
    assert exact is not None
    return exact.compute_arrays, exact.memory_arrays + edge.kept_arrays


def first_mode(chip: hw.Chip) -> int:
    """Arrays in compute mode before the first segment."""
    return 0 if chip.modes.switchable else chip.arrays


def next_mode(kappa: int, needed: tuple[int, int], chip: hw.Chip) -> int:
    """The arrays in compute mode nearest to ``kappa`` at which a segment that needs ``(compute, memory)`` arrays can run."""
    compute, memory = needed
    return min(max(kappa, compute), chip.arrays - memory)


def cheapest_modes(needed: Sequence[tuple[int, int]], chip: hw.Chip) -> tuple[int, ...]:
    """For segments that need ``(compute, memory)`` arrays, the arrays in compute mode with the fewest switch cycles.

    Changing as little as each segment forces, as late as possible, is optimal: the cost of a change grows with its size
    and any other sequence can be projected onto this one without paying more. (With several arrays switched at once a
    batch that is not full is free room, which this rule does not use; the search's exact pass does not assume it.)
    """
    kappa, sequence = first_mode(chip), []
    for each in needed:
        kappa = next_mode(kappa, each, chip)
        sequence.append(kappa)
    return tuple(sequence)


def switch_cycles(modes: Sequence[int], chip: hw.Chip) -> tuple[int, ...]:
    """Switch cycles before each segment of a sequence of arrays in compute mode."""
    return tuple(change_cycles(before, after, chip) for before, after in pairwise((first_mode(chip), *modes)))


def change_cycles(before: int, after: int, chip: hw.Chip) -> int:
    """Switch cycles from ``before`` arrays in compute mode to ``after``."""
    return chip.switch_cycles(max(0, after - before), max(0, before - after))
