"""A simulation as a Chrome trace (JSON object format), which Perfetto and ``chrome://tracing`` open.

One clock cycle is one microsecond of the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cmswitch.program.program import MemoryArrays, SegmentProgram
from cmswitch.program.text import format_arrays
from cmswitch.simulator.pipeline import VECTOR_UNIT, WRITE_DRIVERS, Span
from cmswitch.simulator.problem import BUFFER, FIRST_ARRAYS, MAIN
from cmswitch.simulator.timing import SegmentTiming

NOTE = "one microsecond of this trace is one clock cycle"

_COLOURS = {"compute": "thread_state_running", "memory": "thread_state_iowait", "switch": "bad"}
"""Chrome trace colour of an array group by mode."""
_PORTS = {MAIN: "main memory", BUFFER: "buffer", VECTOR_UNIT: "vector unit", WRITE_DRIVERS: "write drivers"}
_Event = dict[str, Any]


@dataclass(frozen=True)
class TracedSegment:
    """A segment, its timing, and the spans of its execute phase (from the start of that phase)."""

    segment: SegmentProgram
    timing: SegmentTiming
    spans: tuple[Span, ...]
    array_ports: tuple[tuple[int, ...], ...]


def chrome_trace(network: str, segments: Sequence[TracedSegment], arrays: int) -> Mapping[str, Any]:
    """The trace of a run: tracks for phases, ports, vector unit, drivers, operators and groups of arrays. JSON-serialisable."""
    builder = _Builder()
    start = 0
    for index, traced in enumerate(segments):
        builder.segment(index, traced, start)
        start += traced.timing.total_cycles
    other = {"network": network, "arrays": arrays, "time unit": NOTE}
    return {"traceEvents": [*builder.names(network), *builder.events], "displayTimeUnit": "ms", "otherData": other}


class _Builder:
    def __init__(self) -> None:
        self.events: list[_Event] = []
        self._tracks: dict[str, int] = {}
        for name in ("segments", "phases", *_PORTS.values()):
            self._track(name)

    def names(self, network: str) -> Iterator[_Event]:
        """The metadata events that name the process and the tracks and put them in order."""
        yield {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": f"{network}: {NOTE}"}}
        for name, track in self._tracks.items():
            yield {"name": "thread_name", "ph": "M", "pid": 0, "tid": track, "args": {"name": name}}
            yield {"name": "thread_sort_index", "ph": "M", "pid": 0, "tid": track, "args": {"sort_index": track}}

    def segment(self, index: int, traced: TracedSegment, start: int) -> None:
        """Add a segment that starts at cycle ``start``."""
        timing, segment = traced.timing, traced.segment
        self._span("segments", f"segment {index}", start, timing.total_cycles)
        store, switch, reload = timing.store_cycles, timing.switch_cycles, timing.reload_cycles
        begin = start
        phases = {"store": store, "switch": switch, "reload": reload, "execute": timing.execute_cycles}
        for phase, cycles in phases.items():
            self._span("phases", phase, begin, cycles)
            begin += cycles
        for change in segment.switches:
            self._span(f"arrays {format_arrays(change.arrays)}", change.mode, start + store, switch, "switch")
        execute = start + store + switch + reload
        for allocation in segment.allocations:
            if isinstance(allocation.location, MemoryArrays):
                track = f"arrays {format_arrays(allocation.location.arrays)}"
                self._span(track, f"holds {allocation.tensor}", execute, timing.execute_cycles, "memory")
        for stage, run in zip(segment.stages, timing.stages, strict=True):
            self._span(f"operator {stage.operator}", stage.operator, execute + run.start, run.finish - run.start)
        for span in _merged(traced.spans):
            stage = segment.stages[span.stage]
            name, colour = f"{stage.operator}: {span.action}", ""
            if span.port is None:
                used = sorted(array for copy in (stage.multiply.copies if stage.multiply else ()) for array in copy)
                track, colour = f"arrays {format_arrays(used)}", "compute"
            elif span.port >= FIRST_ARRAYS:
                port = traced.array_ports[span.port - FIRST_ARRAYS]
                track, colour = f"port of arrays {format_arrays(port)}", "memory"
            else:
                track = _PORTS[span.port]
            self._span(track, name, execute + span.start, span.cycles, colour)

    def _track(self, name: str) -> int:
        return self._tracks.setdefault(name, len(self._tracks))

    def _span(self, track: str, name: str, start: int, cycles: int, mode: str = "") -> None:
        if not cycles:
            return
        event: _Event = {"name": name, "ph": "X", "pid": 0, "tid": self._track(track), "ts": start, "dur": cycles}
        if mode:
            event["cname"] = _COLOURS[mode]
            event["args"] = {"mode": mode}
        self.events.append(event)


def _merged(spans: Sequence[Span]) -> Iterator[Span]:
    """The spans in order of time; those of one operator that overlap or touch on its compute arrays become one."""
    last: dict[int, Span] = {}
    for span in sorted(spans, key=lambda s: (s.start, s.stage)):
        if span.port is not None:
            yield span
            continue
        previous = last.get(span.stage)
        if previous is not None and span.start <= previous.start + previous.cycles:
            end = max(previous.start + previous.cycles, span.start + span.cycles)
            span = Span(None, span.stage, span.action, previous.start, end - previous.start)
        elif previous is not None:
            yield previous
        last[span.stage] = span
    yield from last.values()
