"""What a simulation reports. Times in clock cycles, energies in pJ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Waits:
    """Cycles that an operator waited, by cause.

    ``input``: its next chunk could have been fetched but a producer had not made enough available; ``port``: its moves queued
    for a memory port; ``window``: its next chunk could have been written but a consumer had not released the window;
    ``vector_unit``: its vector work queued; ``operand``: its first chunk was fetched but the dynamic operand was not written.
    """

    input: int = 0
    port: int = 0
    window: int = 0
    vector_unit: int = 0
    operand: int = 0


@dataclass(frozen=True)
class StageTiming:
    """One operator: start of its first fetch and end of its last write, from the start of the segment's execute phase."""

    operator: str
    start: int
    finish: int
    waits: Waits


@dataclass(frozen=True)
class SegmentTiming:
    """One segment: cycles of its phases, and its operators in program order."""

    store_cycles: int
    switch_cycles: int
    reload_cycles: int
    execute_cycles: int
    stages: tuple[StageTiming, ...]

    @property
    def total_cycles(self) -> int:
        """Cycles of all phases."""
        return self.store_cycles + self.switch_cycles + self.reload_cycles + self.execute_cycles


@dataclass(frozen=True)
class Busy:
    """Cycles that each resource was in use; of several equal resources (arrays, ports), the sum over them."""

    main_memory: int = 0
    buffer: int = 0
    memory_arrays: int = 0
    vector_unit: int = 0
    write_drivers: int = 0
    compute_arrays: int = 0

    def __add__(self, other: Busy) -> Busy:
        return Busy(
            self.main_memory + other.main_memory,
            self.buffer + other.buffer,
            self.memory_arrays + other.memory_arrays,
            self.vector_unit + other.vector_unit,
            self.write_drivers + other.write_drivers,
            self.compute_arrays + other.compute_arrays,
        )


@dataclass(frozen=True)
class Energy:
    """Energy in pJ of each component that the chip file gives a figure for; ``not_modelled`` lists the others."""

    by_component: Mapping[str, float]
    not_modelled: tuple[str, ...]

    @property
    def total_pj(self) -> float:
        """Sum over the modelled components."""
        return sum(self.by_component.values())


@dataclass(frozen=True)
class Timing:
    """The simulated run of a program.

    ``peak_active_arrays`` is the largest number of arrays that compute at the same time; ``switches`` counts arrays that
    changed mode; ``first_reload_cycles`` is the reload phase of the first segment. ``trace`` is a Chrome trace (JSON
    object format), if it was asked for.
    """

    total_cycles: int
    segments: tuple[SegmentTiming, ...]
    busy: Busy
    peak_active_arrays: int
    switches: int
    switch_cycles: int
    first_reload_cycles: int
    energy: Energy
    trace: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def execute_cycles(self) -> int:
        """Sum of the execute phases."""
        return sum(segment.execute_cycles for segment in self.segments)
