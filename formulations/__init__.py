"""Mathematical programs of the project: plain frozen numbers in, a Pyomo model or an exact answer out.

``import formulations`` does not import Pyomo: the functions that build or read a Pyomo model are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from formulations.bounds import lower_bound
from formulations.combinatorial import SearchResult, solve_segment
from formulations.evaluate import SegmentCost, evaluate
from formulations.segment import Dependence, Placement, SegmentAllocation, SegmentProblem, StageData, Use

if TYPE_CHECKING:
    from formulations.allocation import (
        allocation_start,
        bound_times,
        build_segment_allocation,
        read_segment_allocation,
        relax_segment_allocation,
    )

__all__ = [
    "Dependence",
    "Placement",
    "SearchResult",
    "SegmentAllocation",
    "SegmentCost",
    "SegmentProblem",
    "StageData",
    "Use",
    "allocation_start",
    "bound_times",
    "build_segment_allocation",
    "evaluate",
    "lower_bound",
    "read_segment_allocation",
    "relax_segment_allocation",
    "solve_segment",
]

_IN_ALLOCATION = frozenset(
    {
        "allocation_start",
        "bound_times",
        "build_segment_allocation",
        "read_segment_allocation",
        "relax_segment_allocation",
    }
)
"""What needs Pyomo."""


def __getattr__(name: str) -> Any:
    if name not in _IN_ALLOCATION:
        raise AttributeError(f"module 'formulations' has no attribute {name!r}")
    return getattr(importlib.import_module("formulations.allocation"), name)
