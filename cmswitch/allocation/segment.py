"""One segment described once: its pieces, where each tensor may live, and the allocation problem that results.

The formulations see the problem's numbers, plan and lowering the places; both follow ``docs/machine-model.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from cmswitch.costs.dependence import Dependences
from cmswitch.costs.work import Moved, PieceWork, reload_rank
from cmswitch.costs.workload import Piece, Workload
from cmswitch.graph.network import Read
from formulations.segment import Action, Dependence, Placement, Port, SegmentProblem, StageData, Use

Where = Literal["main", "buffer", "arrays"]
Home = Literal["buffer", "arrays"]


@dataclass(frozen=True)
class Place:
    """Where a tensor is in one segment: ``bytes`` of ``where`` (``arrays`` of them), as ``window`` chunks or None: whole."""

    tensor: int
    where: Where
    arrays: int = 0
    bytes: int = 0
    window: int | None = None


@dataclass(frozen=True)
class Limits:
    """Arrays that a segment may use in each mode, those of kept tensors included."""

    compute: int
    memory: int


@dataclass(frozen=True)
class Segment:
    """A run of cells with ``kept`` tensors resident: the pieces' work, the places, the problem.

    ``choices[e]`` are the places of ``problem.tensors[e]``, in the same order; a tensor in neither lives in main memory.
    """

    works: tuple[PieceWork, ...]
    kept: Mapping[int, Place]
    choices: tuple[tuple[Place, ...], ...]
    problem: SegmentProblem


def home_of(workload: Workload, tensor: int, home: Home) -> Place:
    """The place of a tensor kept across cuts: whole, in the buffer or in as many arrays as hold it."""
    chip = workload.chip
    size = chip.activation_bytes(workload.network.tensors[tensor].elements)
    arrays = -(-size // chip.array_bytes) if home == "arrays" else 0
    return Place(tensor, home, arrays, size)


def stage_data(work: PieceWork, limits: Limits, in_segment: bool, reload_free: bool = False) -> StageData:
    """The numbers of one piece; ``in_segment``: its dynamic operand arises in its segment."""
    chip = work.workload.chip
    arrays = work.workload.arrays(work.piece)
    tiles = () if reload_free and not work.dynamic else work.tiles
    writes = [chip.array_write_cycles(t.rows) for t in tiles]
    return StageData(
        arrays=arrays,
        rows=work.rows,
        row_cycles=work.row_cycles,
        chunks=work.chunks,
        vector_cycles=work.vector_cycles,
        copies=_copies(work, arrays, limits) if arrays else (0,),
        write_cycles=max(writes, default=0),
        copy_write_cycles=sum(writes),
        operand_in_segment=in_segment,
        recurrent=work.recurrent,
    )


def fastest_cycles(work: PieceWork, limits: Limits) -> int:
    """Cycles below which no allocation brings a stage."""
    copies = limits.compute // max(1, work.workload.arrays(work.piece))
    multiply = -(-work.rows // max(1, copies)) * work.row_cycles
    return max(multiply, work.vector_cycles)


def _copies(work: PieceWork, arrays: int, limits: Limits) -> tuple[int, ...]:
    """Numbers of copies worth having: those at which ceil(M/d) falls, until the vector work is the bottleneck."""
    copies, most = [1], min(limits.compute // arrays, work.rows)
    while (waves := -(-work.rows // copies[-1])) > 1 and waves * work.row_cycles > work.vector_cycles:
        more = -(-work.rows // (waves - 1))
        if more > most:
            break
        copies.append(more)
    return tuple(copies)


class SegmentBuilder:
    """Describes segments of one workload."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.dependences = Dependences(workload.network)
        self.stages: dict[object, StageData] = {}
        self._works: dict[Piece, PieceWork] = {}
        self._tiles: dict[Piece, Counter[tuple[int, int, int]]] = {}

    def work(self, piece: Piece) -> PieceWork:
        """The work of a piece, computed once."""
        if piece not in self._works:
            self._works[piece] = PieceWork(self.workload, piece)
        return self._works[piece]

    def weight_tiles(self, work: PieceWork) -> Counter[tuple[int, int, int]]:
        """How many tiles of constant weights of each rank and read time the piece has."""
        if work.piece not in self._tiles:
            chip = self.workload.chip
            self._tiles[work.piece] = Counter((*reload_rank(chip, t), chip.main_cycles(t.bytes)) for t in work.tiles)
        return self._tiles[work.piece]

    def build(
        self,
        first: int,
        last: int,
        kept: Mapping[int, Home],
        limits: Limits,
        reload_free: bool = False,
        relaxed: bool = False,
    ) -> Segment:
        """Describe the segment of cells ``first`` to ``last`` in which the tensors ``kept`` are resident in their homes.

        With ``relaxed`` every tensor that could be kept may also be in a home that takes no room: the problem then bounds the
        segment under every choice of kept tensors. ``reload_free``: constant weights are in the arrays already.
        """
        return _Description(self, first, last, kept, limits, reload_free, relaxed).segment()


class _Description:
    """The state of one :meth:`SegmentBuilder.build`."""

    def __init__(
        self,
        builder: SegmentBuilder,
        first: int,
        last: int,
        kept: Mapping[int, Home],
        limits: Limits,
        reload_free: bool,
        relaxed: bool,
    ) -> None:
        self.builder, self.workload = builder, builder.workload
        self.chip, self.network = builder.workload.chip, builder.workload.network
        self.first, self.last, self.limits, self.reload_free, self.relaxed = first, last, limits, reload_free, relaxed
        self.works = tuple(builder.work(p) for p in self.workload.pieces(first, last))
        self.stage_of = {w.piece.operator: i for i, w in enumerate(self.works)}
        self.kept = {t: home_of(self.workload, t, h) for t, h in kept.items()}
        self.readers: dict[int, list[tuple[int, Moved]]] = {}
        self.writers: dict[int, tuple[int, Moved]] = {}
        for stage, work in enumerate(self.works):
            for moved in work.reads:
                self.readers.setdefault(moved.tensor, []).append((stage, moved))
            for moved in work.writes:
                self.writers[moved.tensor] = (stage, moved)
        self.fixed: list[Use] = []
        self.choices: list[tuple[Place, ...]] = []
        self.placements: list[tuple[Placement, ...]] = []
        self.operand_reads: dict[int, list[int]] = {}

    def segment(self) -> Segment:
        for tensor in sorted({*self.readers, *self.writers}):
            self._tensor(tensor)
        stages = tuple(self._stage(w) for w in self.works)
        kept_arrays = sum(p.arrays for p in self.kept.values())
        kept_bytes = sum(p.bytes for p in self.kept.values() if p.where == "buffer")
        most_memory = sum(max(p.arrays for p in placements) for placements in self.placements)
        problem = SegmentProblem(
            stages=stages,
            tensors=tuple(self.placements),
            dependences=tuple(self._dependences()),
            fixed=tuple(self.fixed),
            total_arrays=self.chip.arrays - kept_arrays,
            compute_arrays=min(self.limits.compute, self.chip.arrays - kept_arrays),
            memory_arrays=min(self.limits.memory - kept_arrays, most_memory),
            buffer_bytes=self.chip.buffer.capacity_bytes - kept_bytes,
            write_drivers=self.chip.array.arrays_written_at_once,
            reload_cycles=self._reload_cycles(),
        )
        return Segment(self.works, self.kept, tuple(self.choices), problem)

    # -- tensors ---------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: int) -> None:
        """Decide what choices a tensor has and what traffic follows from each."""
        facts = self.network.tensors[tensor]
        made_here = tensor in self.writers
        producer = self.writers[tensor][0] if made_here else None
        whole_here = producer is not None and self.workload.is_whole(self.works[producer].piece)
        live_after = self.workload.last_use[tensor] > self.last or (
            producer is not None and not self.workload.is_last(self.works[producer].piece)
        )
        in_main_too = made_here and facts.is_output
        homes: list[Place] = []
        if tensor in self.kept:
            homes = [self.kept[tensor]]
        elif self.relaxed and facts.producer is not None and (live_after or not whole_here):
            homes = self._possible_homes(tensor)
        places: list[Place] = []
        if tensor not in self.kept:
            places = self._on_chip(tensor) if whole_here and tensor in self.readers else []
            places.append(Place(tensor, "main"))
        options = [self._option(p, in_main_too, takes_room=False) for p in homes]
        options += [self._option(p, in_main_too or live_after, takes_room=True) for p in places]
        if len(options) == 1 and not homes:
            self.fixed += options[0].uses
        else:
            self.choices.append((*homes, *places))
            self.placements.append(tuple(options))

    def _option(self, place: Place, in_main_too: bool, takes_room: bool) -> Placement:
        uses = self._uses(place)
        if in_main_too and place.where != "main":
            uses += self._writes(place.tensor, "main", 0)
        buffer_bytes = place.bytes if place.where == "buffer" else 0
        room = (place.arrays, buffer_bytes) if takes_room else (0, 0)
        return Placement(place.where, *room, tuple(uses))

    def _possible_homes(self, tensor: int) -> list[Place]:
        """The homes in which a tensor could be kept on this chip."""
        homes = [home_of(self.workload, tensor, "buffer")]
        if homes[0].bytes > self.chip.buffer.capacity_bytes:
            homes.pop()
        if self.limits.memory and (place := home_of(self.workload, tensor, "arrays")).arrays <= self.limits.memory:
            homes.append(place)
        return homes

    def _on_chip(self, tensor: int) -> list[Place]:
        """The places of a tensor in the buffer and in memory-mode arrays: as few as hold it, doubled while they are too slow."""
        size = self.chip.activation_bytes(self.network.tensors[tensor].elements)
        window = self._window(tensor)
        if window is not None:
            total = self.works[self.writers[tensor][0]].chunks
            size = -(-size // total) * window
        places = []
        if size <= self.chip.buffer.capacity_bytes:
            places.append(Place(tensor, "buffer", 0, size, window))
        if not self.limits.memory:
            return places
        arrays = -(-size // self.chip.array_bytes)
        fastest = max(fastest_cycles(self.works[i], self.limits) for i in self._users(tensor))
        while arrays <= self.limits.memory:
            places.append(Place(tensor, "arrays", arrays, size, window))
            if sum(u.cycles for u in self._uses(places[-1])) <= fastest:
                break
            arrays *= 2
        return places

    def _users(self, tensor: int) -> set[int]:
        return {self.writers[tensor][0], *(stage for stage, _ in self.readers.get(tensor, []))}

    def _window(self, tensor: int) -> int | None:
        """Window in chunks of the producer, None if the tensor must be whole."""
        readers: dict[int, list[Read]] = {}
        for stage, _ in self.readers[tensor]:
            operator = self.works[stage].piece.operator
            readers[operator] = [r for r in self.network.operators[operator].reads if r.tensor == tensor]
        window = self.builder.dependences.window(tensor, readers, self.works[-1].piece.operator)
        return None if window >= self.works[self.writers[tensor][0]].chunks else window

    def _uses(self, place: Place) -> list[Use]:
        """All traffic of a tensor that lives at ``place``."""
        uses = self._writes(place.tensor, place.where, place.arrays)
        for stage, moved in self.readers.get(place.tensor, []):
            if moved.role == "operand":
                reads = [self._cycles(t.bytes, place.where, place.arrays) for t in self.works[stage].tiles]
                if place.tensor in self.writers:
                    uses.append(Use(stage, "operand", place.where, sum(reads)))
                else:
                    known = self.operand_reads.get(stage, reads)
                    self.operand_reads[stage] = [min(pair) for pair in zip(known, reads, strict=True)]
            else:
                uses.append(self._use(stage, "fetch", moved.bytes, place.where, place.arrays))
        return uses

    def _writes(self, tensor: int, where: Where, arrays: int) -> list[Use]:
        if tensor not in self.writers:
            return []
        stage, moved = self.writers[tensor]
        return [self._use(stage, "write", moved.bytes, where, arrays)]

    def _use(self, stage: int, action: Action, size: int, where: Port, arrays: int) -> Use:
        work = self.works[stage]
        return Use(stage, action, where, work.chunks * self._cycles(work.chunk_bytes(size), where, arrays))

    def _cycles(self, size: int, where: Where, arrays: int) -> int:
        if where == "main":
            return self.chip.main_cycles(size)
        return self.chip.buffer_cycles(size) if where == "buffer" else self.chip.arrays_cycles(size, arrays)

    # -- stages ----------------------------------------------------------------------------------------------------

    def _stage(self, work: PieceWork) -> StageData:
        operand = next((m for m in work.reads if m.role == "operand"), None)
        in_segment = operand is not None and operand.tensor in self.writers
        key = (work.piece, in_segment, self.limits.compute, self.reload_free)
        stages = self.builder.stages
        if key not in stages:
            stages[key] = stage_data(work, self.limits, in_segment, self.reload_free)
        return stages[key]

    def _reload_cycles(self) -> int:
        """Reading all tiles one after another, longest writing tail first, and writing one copy of each."""
        tiles: Counter[tuple[int, int, int]] = Counter()
        for stage, work in enumerate(self.works):
            if stage in self.operand_reads:
                chip = self.chip
                tiles.update(
                    (*reload_rank(chip, tile), read)
                    for tile, read in zip(work.tiles, self.operand_reads[stage], strict=True)
                )
            elif not work.dynamic and not self.reload_free:
                tiles.update(self.builder.weight_tiles(work))
        read = end = 0
        for (_, write, each), count in sorted(tiles.items()):
            read += count * each
            end = max(end, read, read - each - write)
        return end

    def _dependences(self) -> Iterator[Dependence]:
        lead_of = self.builder.dependences.lead
        operators = [work.piece.operator for work in self.works]
        for after, consumer in enumerate(operators):
            for before in range(after):
                lead = lead_of(operators[before], consumer)
                if lead is not None:
                    between = tuple(self.stage_of[m] for m in lead.between)
                    yield Dependence(before, after, lead.first, lead.last, between, lead.operand)
