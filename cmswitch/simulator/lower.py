"""From a segment of a program to the numbers that decide its timing: bytes, addresses and names become cycles and ports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cmswitch.program.program import After, Allocate, Buffer, Emit, Fetch, SegmentProgram, Stage, WriteTile
from cmswitch.simulator.legality import Places
from cmswitch.simulator.problem import BUFFER, FIRST_ARRAYS, MAIN, Input, Move, SegmentProblem, StageProblem, Tile
from hw import Chip


@dataclass(frozen=True)
class Lowered:
    """A segment's timing problem; ``array_ports[port - FIRST_ARRAYS]`` are the memory-mode arrays behind a port."""

    problem: SegmentProblem
    array_ports: tuple[tuple[int, ...], ...]


def lower_segment(
    segment: SegmentProgram, places: Places, stored: Sequence[tuple[Allocate, int]], chip: Chip
) -> Lowered:
    """The timing problem of a legal segment. ``stored``: place and bytes of the tensors that its store phase drops."""
    ports = _Ports(chip)
    index = {stage.operator: number for number, stage in enumerate(segment.stages)}
    problem = SegmentProblem(
        store=_moves(ports.move(end, size) for place, size in stored for end in (place, None)),
        reload=tuple(_tile(tile, places.reload, ports) for tile in segment.writes),
        stages=tuple(_stage(stage, index, places.execute, ports) for stage in segment.stages),
        write_drivers=chip.array.arrays_written_at_once,
    )
    return Lowered(problem, tuple(ports.numbers))


@dataclass
class _Ports:
    """Numbers the ports of memory-mode arrays in order of first use, and converts bytes to cycles on a port."""

    chip: Chip
    numbers: dict[tuple[int, ...], int] = field(default_factory=dict)

    def move(self, place: Allocate | None, size: int) -> tuple[int, int]:
        """Port and cycles of moving ``size`` bytes from or to a place (None: main memory)."""
        if place is None:
            return MAIN, self.chip.main_cycles(size)
        if isinstance(place.location, Buffer):
            return BUFFER, self.chip.buffer_cycles(size)
        arrays = place.location.arrays
        port = self.numbers.setdefault(arrays, FIRST_ARRAYS + len(self.numbers))
        return port, self.chip.arrays_cycles(size, len(arrays))


def _moves(cycles: Iterable[tuple[int, int]], awaited: bool = True) -> tuple[Move, ...]:
    """One move for each port, as long as all that go over it."""
    total: dict[int, int] = defaultdict(int)
    for port, length in cycles:
        total[port] += length
    return tuple(Move(port, length, awaited) for port, length in total.items() if length)


def _tile(tile: WriteTile, places: Mapping[str, Allocate], ports: _Ports) -> Tile:
    place = None if tile.source is None else places.get(tile.source)
    port, read = ports.move(place, tile.bytes)
    return Tile(port, read, ports.chip.array_write_cycles(tile.rows), len(tile.arrays))


def _stage(stage: Stage, index: Mapping[str, int], places: Mapping[str, Allocate], ports: _Ports) -> StageProblem:
    multiply = stage.multiply
    copies = () if multiply is None else tuple(len(copy) for copy in multiply.copies)
    depth = 2 if multiply is None else 2 + -(-(len(copies) - 1) * stage.chunks // multiply.rows)
    fetches = [ports.move(_source(fetch, places), fetch.bytes) for fetch in stage.fetches]
    inputs = [_input(fetch, fetch.after, index, places) for fetch in stage.fetches if fetch.after is not None]
    return StageProblem(
        chunks=stage.chunks,
        fetch=_moves(fetches),
        inputs=tuple(inputs),
        rows=0 if multiply is None else multiply.rows,
        row_cycles=0 if multiply is None else ports.chip.mvm_cycles(multiply.used_rows),
        copies=copies,
        depth=depth,
        vector=sum(ports.chip.vector_cycles(operator.work) for operator in stage.vector),
        write=_outputs(stage.emits, places, ports),
        operand=tuple(_tile(tile, places, ports) for tile in stage.operand),
        operand_after=None if stage.operand_after is None else index[stage.operand_after],
        recurrent=stage.recurrent,
    )


def _source(fetch: Fetch, places: Mapping[str, Allocate]) -> Allocate | None:
    return None if fetch.source == "main" else places[fetch.tensor]


def _outputs(emits: Sequence[Emit], places: Mapping[str, Allocate], ports: _Ports) -> tuple[Move, ...]:
    """Moves to the first target of each output, which consumers wait for, then those to further targets."""
    awaited: list[tuple[int, int]] = []
    streamed: list[tuple[int, int]] = []
    for emit in emits:
        for number, target in enumerate(emit.targets):
            place = None if target == "main" else places[emit.tensor]
            (streamed if number else awaited).append(ports.move(place, emit.bytes))
    return _moves(awaited) + _moves(streamed, awaited=False)


def _input(fetch: Fetch, after: After, index: Mapping[str, int], places: Mapping[str, Allocate]) -> Input:
    place = _source(fetch, places)
    window = None if place is None else place.window
    return Input(index[after.operator], after.numerator, after.denominator, after.offset, after.span, window)
