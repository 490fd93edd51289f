"""From a plan to the meta-operator program: concrete arrays, addresses and statements.

On a flat chip any array is as good as any other, so the plan's counts decide; arrays are numbered so that no array changes
mode unless the plan's counts force it, and a kept tensor never moves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

import hw
from cmswitch.costs.work import Moved, PieceWork, reload_rank
from cmswitch.costs.workload import Piece, Workload
from cmswitch.program.program import (
    After,
    Allocate,
    Buffer,
    Emit,
    Fetch,
    Free,
    MemoryArrays,
    Multiply,
    Program,
    SegmentProgram,
    Stage,
    Switch,
    TensorDeclaration,
    Vector,
    WriteTile,
)
from cmswitch.segmentation.plan import Plan, PlannedPlace, PlannedSegment


def lower(plan: Plan, workload: Workload) -> Program:
    """The program that executes ``plan`` on ``workload``."""
    network, chip = workload.network, workload.chip
    tensors = tuple(
        TensorDeclaration(
            t.name,
            chip.activation_bytes(t.elements),
            "input" if t.producer is None else "output" if t.is_output else "intermediate",
        )
        for t in network.tensors
    )
    floor = _Floor(chip)
    last_reader = _last_readers(plan, workload)
    segments = tuple(_Lowering(workload, s, i, floor, last_reader).lower() for i, s in enumerate(plan.segments))
    return Program(network.name, chip.name, chip.sha256, tensors, segments, plan.resident_weights)


def _last_readers(plan: Plan, workload: Workload) -> dict[int, int]:
    """For each tensor the index of the last segment that holds a piece of one of its readers."""
    last: dict[int, int] = {}
    for index, segment in enumerate(plan.segments):
        for piece in segment.pieces:
            for read in workload.network.operators[piece.operator].reads:
                last[read.tensor] = index
    return last


@dataclass
class _Floor:
    """The chip between segments: which arrays are in compute mode, and where resident tensors are."""

    chip: hw.Chip
    computing: set[int] = field(default_factory=set)
    locations: dict[int, Buffer | MemoryArrays] = field(default_factory=dict)

    def free_memory(self, count: int) -> list[int]:
        """The first ``count`` memory-mode arrays that hold no tensor, ascending (a chip may have millions of them)."""
        held = {a for place in self.locations.values() if isinstance(place, MemoryArrays) for a in place.arrays}
        free = (a for a in range(self.chip.arrays) if a not in self.computing and a not in held)
        return list(islice(free, count))

    def in_compute_mode(self) -> Iterable[int]:
        """The arrays in compute mode, ascending: on a chip that cannot switch, all."""
        return sorted(self.computing) if self.chip.modes.switchable else range(self.chip.arrays)

    def switch(self, compute_mode: int) -> tuple[Switch, ...]:
        """Bring the number of arrays in compute mode to ``compute_mode``."""
        if not self.chip.modes.switchable:
            return ()
        missing = compute_mode - len(self.computing)
        if missing > 0:
            chosen = self.free_memory(missing)
            self.computing.update(chosen)
            return (Switch("TOC", tuple(chosen)),)
        if missing < 0:
            chosen = sorted(sorted(self.computing)[missing:])
            self.computing.difference_update(chosen)
            return (Switch("TOM", tuple(chosen)),)
        return ()

    def place(self, place: PlannedPlace) -> Buffer | MemoryArrays:
        """Find room for a tensor."""
        location: Buffer | MemoryArrays
        if place.where == "arrays":
            location = MemoryArrays(tuple(self.free_memory(place.arrays)))
        else:
            location = Buffer(tuple(self._extents(place.bytes)))
        self.locations[place.tensor] = location
        return location

    def _extents(self, size: int) -> Iterable[tuple[int, int]]:
        """The lowest free parts of the buffer that add up to ``size`` bytes."""
        taken = sorted(e for p in self.locations.values() if isinstance(p, Buffer) for e in p.extents)
        start = 0
        for offset, length in [*taken, (self.chip.buffer.capacity_bytes, 0)]:
            room = min(size, offset - start)
            if room > 0:
                yield start, room
                size -= room
            start = offset + length


class _Lowering:
    """Lowers one segment."""

    def __init__(
        self, workload: Workload, segment: PlannedSegment, index: int, floor: _Floor, last_reader: dict[int, int]
    ) -> None:
        self.workload, self.segment, self.index, self.floor, self.last_reader = (
            workload,
            segment,
            index,
            floor,
            last_reader,
        )
        self.works = [PieceWork(workload, Piece(p.operator, p.first_block, p.last_block)) for p in segment.pieces]
        self.copies = [p.copies for p in segment.pieces]
        self.places = {p.tensor: p for p in segment.places}
        self.stage_of = {w.piece.operator: w for w in self.works}

    def lower(self) -> SegmentProgram:
        switches = self.floor.switch(self.segment.compute_mode)
        names = self.workload.network.tensors
        allocations = tuple(
            Allocate(names[p.tensor].name, self.floor.place(p), p.window)
            for p in self.segment.places
            if not p.kept_before
        )
        pool = iter(self.floor.in_compute_mode())
        writes: list[tuple[tuple[int, int, int], WriteTile]] = []
        stages = []
        for work, copies in zip(self.works, self.copies, strict=True):
            arrays = [tuple(next(pool) for _ in work.tiles) for _ in range(copies)]
            operand = next((m for m in work.reads if m.role == "operand"), None)
            tiles = self._tiles(work, arrays, operand)
            producer = self._producer(operand) if operand else None
            if producer is None:
                writes += tiles
            stages.append(self._stage(work, arrays, tuple(t for _, t in tiles) if producer else (), producer))
        frees = []
        for place in self.segment.places:
            if not place.kept_after:
                del self.floor.locations[place.tensor]
                frees.append(Free(names[place.tensor].name))
        writes.sort(key=lambda item: item[0])
        return SegmentProgram((), switches, allocations, tuple(t for _, t in writes), tuple(stages), tuple(frees))

    def _tiles(
        self, work: PieceWork, arrays: list[tuple[int, ...]], operand: Moved | None
    ) -> list[tuple[tuple[int, int, int], WriteTile]]:
        """The tiles of an operator, each with its rank in the order of the reload phase."""
        chip = self.workload.chip
        place = None if operand is None else self.places.get(operand.tensor)
        source = None if operand is None else self.workload.network.tensors[operand.tensor].name
        return [
            (
                (*reload_rank(chip, t), self._read_cycles(t.bytes, place)),
                WriteTile(
                    work.name,
                    t.row_block,
                    t.column_block,
                    t.group,
                    t.groups,
                    t.bit,
                    t.rows,
                    t.columns,
                    t.bytes,
                    tuple(copy[number] for copy in arrays),
                    source,
                ),
            )
            for number, t in enumerate(work.tiles)
        ]

    def _read_cycles(self, size: int, place: PlannedPlace | None) -> int:
        """Cycles to read ``size`` bytes from a place on chip (None: main memory)."""
        chip = self.workload.chip
        if place is None:
            return chip.main_cycles(size)
        return chip.buffer_cycles(size) if place.where == "buffer" else chip.arrays_cycles(size, place.arrays)

    def _producer(self, moved: Moved) -> PieceWork | None:
        """The stage of this segment that produces what a read moves."""
        producer = self.workload.network.tensors[moved.tensor].producer
        return None if moved.earlier or producer is None else self.stage_of.get(producer)

    def _stage(
        self,
        work: PieceWork,
        arrays: list[tuple[int, ...]],
        operand: tuple[WriteTile, ...],
        operand_after: PieceWork | None,
    ) -> Stage:
        grid = work.grid
        return Stage(
            operator=work.name,
            nodes=work.operator.nodes,
            chunks=work.chunks,
            fetches=tuple(self._fetch(work, m) for m in work.reads if m.role != "operand"),
            multiply=None if grid is None else Multiply(work.rows, work.used_rows, tuple(arrays)),
            vector=tuple(Vector(v.kind, v.node, v.work) for v in work.vector),
            emits=tuple(self._emit(work, m) for m in work.writes),
            operand=operand,
            operand_after=operand_after.name if operand_after else None,
            recurrent=work.recurrent,
        )

    def _fetch(self, work: PieceWork, moved: Moved) -> Fetch:
        producer = self._producer(moved)
        after = None
        if producer is not None and moved.need is not None:
            need = moved.need
            after = After(producer.name, need.numerator, need.denominator, need.offset, need.span)
        return Fetch(
            self.workload.network.tensors[moved.tensor].name,
            "resident" if moved.tensor in self.places else "main",
            work.chunk_bytes(moved.bytes),
            after,
        )

    def _emit(self, work: PieceWork, moved: Moved) -> Emit:
        tensor = self.workload.network.tensors[moved.tensor]
        place = self.places.get(moved.tensor)
        size = work.chunk_bytes(moved.bytes)
        if place is None:
            return Emit(tensor.name, ("main",), size)
        later = self.last_reader.get(moved.tensor, -1) > self.index and not place.kept_after
        return Emit(tensor.name, ("resident", "main") if later or tensor.is_output else ("resident",), size)
