"""The plan: what the search decided, in terms of operators, blocks, copies and places. Everything later follows from it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

PLAN_VERSION = 1

CostModelName = Literal["machine", "eq10"]


@dataclass(frozen=True)
class PlannedPiece:
    """Blocks ``first_block`` to ``last_block`` (exclusive) of an operator, in ``copies`` copies (0: vector-only)."""

    operator: int
    name: str
    first_block: int
    last_block: int
    copies: int


@dataclass(frozen=True)
class PlannedPlace:
    """Where a tensor is in a segment: ``bytes`` of the buffer or of ``arrays`` memory-mode arrays: whole, or ``window`` chunks.

    ``kept_before`` / ``kept_after``: resident across the cut before / after the segment.
    """

    tensor: int
    name: str
    where: Literal["main", "buffer", "arrays"]
    arrays: int
    bytes: int
    window: int | None
    kept_before: bool
    kept_after: bool


@dataclass(frozen=True)
class SharedArrays:
    """Memory-mode arrays of a tensor that serve all of its users."""

    tensor: int
    arrays: int


@dataclass(frozen=True)
class AssignedArrays:
    """Arrays as the published equations count them: for each piece those that compute and its private memory-mode ones, and
    those of each tensor that the segment produces and reads. Its copies and places take at most as many."""

    compute: tuple[int, ...]
    private: tuple[int, ...]
    shared: tuple[SharedArrays, ...]


@dataclass(frozen=True)
class PlannedSegment:
    """One segment: its pieces and places, the arrays in compute mode while it runs, and its predicted cycles.

    ``execute``, ``reload`` and ``write_back`` are the exact rational objective's parts as text (``"n"`` or ``"n/d"``),
    ``switch`` whole cycles. ``assigned``: with cost model ``eq10``, what its objective counts.
    """

    pieces: tuple[PlannedPiece, ...]
    places: tuple[PlannedPlace, ...]
    compute_arrays: int
    memory_arrays: int
    compute_mode: int
    execute: str
    reload: str
    switch: int
    write_back: str = "0"
    assigned: AssignedArrays | None = None


@dataclass(frozen=True)
class Plan:
    """A whole network on a chip, with the predicted latency (cycles, the objective rounded up) and a proven lower bound.

    ``cost_model`` is what both are predicted by.
    """

    network: str
    chip: str
    chip_sha256: str
    schedule: str
    resident_weights: bool
    compute_limit: int
    memory_limit: int
    predicted_cycles: int
    bound_cycles: int
    segments: tuple[PlannedSegment, ...]
    version: int = PLAN_VERSION
    cost_model: CostModelName = "machine"

    def to_json(self) -> str:
        """The plan as JSON text, the same for the same plan."""
        return json.dumps(asdict(self), indent=1) + "\n"
