"""The timing simulator: executes a meta-operator program on a chip, and knows nothing but ``docs/machine-model.md``."""

from __future__ import annotations

from cmswitch.simulator.legality import SimulationError
from cmswitch.simulator.machine import simulate
from cmswitch.simulator.timing import Busy, Energy, SegmentTiming, StageTiming, Timing, Waits

__all__ = ["Busy", "Energy", "SegmentTiming", "SimulationError", "StageTiming", "Timing", "Waits", "simulate"]
