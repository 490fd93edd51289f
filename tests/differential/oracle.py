"""The plan space of a tiny network, enumerated: every plan is priced, the cheapest one counts.

Written from ``docs/machine-model.md``, ``docs/plan-space.md`` and the docstring of :mod:`formulations.allocation`, to be
obviously right and not fast. It shares nothing with the compiler but the network, the chip and their unit conversions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import hw
from cmswitch.graph.network import Network, Read
from tests.differential.oracle_cuts import blocks_of, cut_along_inner, row_blocks_of
from tests.differential.oracle_rows import Move, Stage, Wait, ceil_div, segment_cycles

Kept = frozenset[tuple[int, str]]
"""Tensors that stay on chip across a cut, each with its home: ``buffer`` or ``arrays``."""


@dataclass(frozen=True)
class Transfer:
    """A tensor that a run reads or writes: all its bytes, over all chunks."""

    tensor: int
    role: str
    bytes: int


class Run:
    """Blocks ``first`` to ``last`` of an operator in one segment."""

    def __init__(self, space: PlanSpace, index: int, first: int, last: int) -> None:
        network, chip, operator = space.network, space.chip, space.network.operators[index]
        blocks = space.blocks[index]
        self.operator, self.index, self.first = operator, index, first
        self.ends = last == max(1, len(blocks))
        self.whole = first == 0 and self.ends
        self.tiles = [tile for block in blocks[first:last] for tile in block]
        self.arrays = len(self.tiles)
        self.row_cycles = chip.mvm_cycles(max(t.rows for t in self.tiles)) if blocks else 0
        self.rows = operator.product.rows if operator.product else 0
        all_columns = sum(block[0].columns for block in blocks)
        columns = sum(block[0].columns for block in blocks[first:last])

        def share(amount: int) -> int:
            return ceil_div(amount * columns, all_columns) if blocks else amount

        needs_rows = any(not v.columnwise for v in operator.vector)
        cycles = 0
        for work in operator.vector:
            if work.columnwise:
                cycles += chip.vector_cycles(
                    ceil_div(chip.vector_work(work.kind, share(work.elements)), operator.chunks)
                )
            elif self.ends:
                cycles += chip.vector_cycles(ceil_div(chip.vector_work(work.kind, work.elements), operator.chunks))
        if operator.product:
            sums = ceil_div(row_blocks_of(operator.product, chip), chip.array.adder_inputs) - 1
            work_of_sums = chip.vector_work("add", operator.product.rows * columns * sums)
            cycles += chip.vector_cycles(ceil_div(work_of_sums, operator.chunks))
        self.vector_cycles = operator.chunks * cycles

        self.reads: list[Transfer] = []
        for read in operator.reads:
            if read.role == "matrix":
                elements = read.expanded_elements if chip.input_reuse == "expanded" else read.elements
            elif read.role == "operand" or not needs_rows:
                elements = share(read.elements)
            elif self.ends:
                elements = read.elements
            else:
                continue
            self.reads.append(Transfer(read.tensor, read.role, chip.activation_bytes(elements)))
        sizes = [network.tensors[w.tensor].elements for w in operator.writes]
        if needs_rows and self.ends and first:
            for write, size in zip(operator.writes, sizes, strict=True):
                earlier = ceil_div(size * (all_columns - columns), all_columns)
                self.reads.append(Transfer(write.tensor, "side", chip.activation_bytes(earlier)))
        self.writes = [
            Transfer(write.tensor, "output", chip.activation_bytes(share(size)))
            for write, size in zip(operator.writes, sizes, strict=True)
        ]


@dataclass(frozen=True)
class Place:
    """Where a tensor is in a segment, and the arrays and buffer bytes that it takes there."""

    where: str
    arrays: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Chain:
    """Chunks of an earlier operator that each chunk of a later one waits for, and the operators between on the slowest way."""

    needs: tuple[int, ...]
    between: tuple[int, ...]
    operand: bool


class PlanSpace:
    """All plans of ``network`` on ``chip`` with at most ``compute`` and ``memory`` arrays in each mode.

    ``resident``: a plan of one segment finds its constant weights in the arrays.
    """

    def __init__(self, network: Network, chip: hw.Chip, compute: int, memory: int, resident: bool = False) -> None:
        self.network, self.chip = cut_along_inner(network, chip, compute), chip
        self.compute, self.memory, self.resident = compute, memory, resident
        self.blocks = [blocks_of(o.product, chip) if o.product else () for o in self.network.operators]
        self._known: dict[tuple[int, Kept, int], Fraction] = {}
        self._priced: dict[tuple[int, int, Kept], dict[tuple[int, int], Fraction]] = {}

    @cached_property
    def cells(self) -> list[tuple[int, int, int]]:
        """(operator, first block, last block) of the smallest things that a segment holds."""
        found = []
        for index, blocks in enumerate(self.blocks):
            arrays = sum(len(block) for block in blocks)
            step = max(1, len(blocks))
            if arrays > self.compute:
                step = max(1, min(self.compute, self.chip.arrays // 4) // len(blocks[0]))
            for first in range(0, max(1, len(blocks)), step):
                found.append((index, first, min(first + step, max(1, len(blocks)))))
        return found

    def last_reader(self, tensor: int) -> int:
        """Cells up to and including the last that reads the tensor (0: none)."""
        readers = [i for i, o in enumerate(self.network.operators) if any(r.tensor == tensor for r in o.reads)]
        return max((number + 1 for number, cell in enumerate(self.cells) if cell[0] in readers), default=0)

    def size(self, tensor: int) -> int:
        """Bytes of a whole tensor."""
        return self.chip.activation_bytes(self.network.tensors[tensor].elements)

    def home(self, tensor: int, where: str) -> Place:
        """The room that a kept tensor takes."""
        arrays = ceil_div(self.size(tensor), self.chip.array_bytes) if where == "arrays" else 0
        return Place(where, arrays, self.size(tensor) if where == "buffer" else 0)

    # -- plans -----------------------------------------------------------------------------------------------------

    def best(self) -> Fraction:
        """Cycles of the best plan."""
        cycles = self._best_from(0, frozenset(), 0)
        assert cycles is not None, "a chip that holds each cell has a plan"
        return cycles

    def _best_from(self, cut: int, kept: Kept, mode: int) -> Fraction | None:
        """Cycles of the best rest of a plan: cells from ``cut`` on, ``kept`` on chip, ``mode`` arrays in compute mode."""
        if cut == len(self.cells):
            return Fraction(0)
        key = (cut, kept, mode)
        if key not in self._known:
            self._known[key] = min(self._continuations(cut, kept, mode), default=Fraction(-1))
        return None if self._known[key] < 0 else self._known[key]

    def _continuations(self, cut: int, kept: Kept, mode: int) -> Iterator[Fraction]:
        for last in range(cut + 1, len(self.cells) + 1):
            for new in self._new_kept(cut, last):
                here = kept | new
                after = frozenset((t, h) for t, h in here if self.last_reader(t) > last)
                for (compute, memory), cycles in self._segment(cut, last, here).items():
                    for changed in range(compute, self.chip.arrays - memory + 1):
                        switch = self.chip.switch_cycles(max(0, changed - mode), max(0, mode - changed))
                        rest = self._best_from(last, after, changed)
                        if rest is not None:
                            yield cycles + switch + rest

    def _new_kept(self, cut: int, last: int) -> list[Kept]:
        """All ways to keep tensors that operators begun in the segment produce and later cells read."""
        ways: list[Kept] = [frozenset()]
        for index, first, _ in self.cells[cut:last]:
            for write in self.network.operators[index].writes:
                if first == 0 and self.last_reader(write.tensor) > last:
                    homes = ("buffer", "arrays") if self.memory else ("buffer",)
                    ways += [way | {(write.tensor, home)} for way in ways for home in homes]
        return ways

    # -- one segment -----------------------------------------------------------------------------------------------

    def _segment(self, cut: int, last: int, kept: Kept) -> dict[tuple[int, int], Fraction]:
        """The least cycles of a segment by (arrays that compute, arrays that hold tensors) over all copies and places."""
        key = (cut, last, kept)
        if key not in self._priced:
            self._priced[key] = self._price(cut, last, kept)
        return self._priced[key]

    def _runs(self, cut: int, last: int) -> list[Run]:
        spans: dict[int, tuple[int, int]] = {}
        for index, first, end in self.cells[cut:last]:
            spans[index] = (spans[index][0] if index in spans else first, end)
        return [Run(self, index, first, end) for index, (first, end) in spans.items()]

    def _price(self, cut: int, last: int, kept: Kept) -> dict[tuple[int, int], Fraction]:
        chip, runs = self.chip, self._runs(cut, last)
        homes = {tensor: self.home(tensor, where) for tensor, where in kept}
        kept_arrays = sum(place.arrays for place in homes.values())
        kept_bytes = sum(place.bytes for place in homes.values())
        if (
            kept_arrays > self.memory
            or kept_bytes > chip.buffer.capacity_bytes
            or sum(r.arrays for r in runs) > self.compute
        ):
            return {}
        touched = sorted({t.tensor for run in runs for t in (*run.reads, *run.writes)})
        options = [[homes[t]] if t in homes else self._places(t, runs) for t in touched]
        waits = self._waits(runs)
        resident = self.resident and last - cut == len(self.cells)
        best: dict[tuple[int, int], Fraction] = {}
        room = (self.memory - kept_arrays, chip.buffer.capacity_bytes - kept_bytes)
        for places in self._choices(options, touched, kept, *room):
            held = kept_arrays + sum(p.arrays for t, p in zip(touched, places, strict=True) if t not in homes)
            stages, moves = self._traffic(runs, dict(zip(touched, places, strict=True)), last, kept, resident)
            for copies in self._copies(runs, min(self.compute, chip.arrays - held)):
                compute = sum(run.arrays * d for run, d in zip(runs, copies, strict=True))
                cycles = segment_cycles(stages, copies, moves, waits, chip.array.arrays_written_at_once)
                if (compute, held) not in best or cycles < best[compute, held]:
                    best[compute, held] = cycles
        return best

    def _choices(
        self, options: list[list[Place]], touched: list[int], kept: Kept, arrays: int, size: int
    ) -> Iterator[tuple[Place, ...]]:
        """All combinations of places that ``arrays`` arrays and ``size`` bytes of the buffer hold."""
        if not options:
            yield ()
            return
        for place in options[0]:
            counted = all(touched[0] != t for t, _ in kept)
            left, left_bytes = (arrays - place.arrays, size - place.bytes) if counted else (arrays, size)
            if left >= 0 and left_bytes >= 0:
                for others in self._choices(options[1:], touched[1:], kept, left, left_bytes):
                    yield (place, *others)

    def _copies(self, runs: list[Run], arrays: int) -> Iterator[tuple[int, ...]]:
        """All combinations of copies of the runs that ``arrays`` arrays hold."""
        if not runs:
            yield ()
            return
        run = runs[0]
        for copies in self._worthwhile(run):
            if run.arrays * copies <= arrays:
                for others in self._copies(runs[1:], arrays - run.arrays * copies):
                    yield (copies, *others)

    def _worthwhile(self, run: Run) -> list[int]:
        if not run.arrays:
            return [0]
        found: list[int] = []
        for d in range(1, min(run.rows, self.compute // run.arrays) + 1):
            if d > 1 and ceil_div(run.rows, d) == ceil_div(run.rows, d - 1):
                continue
            found.append(d)
            if ceil_div(run.rows, d) * run.row_cycles <= run.vector_cycles:
                break
        return found

    # -- tensors ---------------------------------------------------------------------------------------------------

    def _places(self, tensor: int, runs: list[Run]) -> list[Place]:
        """Where a tensor that is not kept may be in a segment."""
        made_by = next((run for run in runs if any(w.tensor == tensor for w in run.writes)), None)
        readers = [run for run in runs if any(r.tensor == tensor for r in run.reads)]
        places = [Place("main")]
        if made_by is None or not made_by.whole or not readers:
            return places
        size, chunks = self.size(tensor), made_by.operator.chunks
        window = self.window(tensor, readers, runs[-1].index)
        if window < chunks:
            size = window * ceil_div(size, chunks)
        if size <= self.chip.buffer.capacity_bytes:
            places.append(Place("buffer", 0, size))
        slowest = max(
            max(ceil_div(run.rows, max(1, self.compute // max(1, run.arrays))) * run.row_cycles, run.vector_cycles)
            for run in (made_by, *readers)
        )
        if self.memory:
            arrays = ceil_div(size, self.chip.array_bytes)
            while arrays <= self.memory:
                places.append(Place("arrays", arrays))
                if sum(m.cycles for m in self._moves_of(tensor, runs, places[-1])) <= slowest:
                    break
                arrays *= 2
        return places

    def window(self, tensor: int, readers: list[Run], last: int) -> int:
        """Chunks of a tensor that must be on chip together for the readers of one segment, which ends with ``last``, to proceed.

        A reader that a later operator holds up has released what the chunks that this operator needs of it took.
        """
        producer = self.network.tensors[tensor].producer
        assert producer is not None
        total, most = self.network.operators[producer].chunks, 1
        for run in readers:
            chain = self.chain(producer, run.index)
            assert chain is not None
            passing = (self._longest_chain(producer, run.index) - 1) * ceil_div(total, run.operator.chunks)
            for read in run.operator.reads:
                if read.tensor == tensor:
                    released = [max(0, n - read.need.span) for n in self._needs(run.index, read)]
                    released = [0, *released[1:], total]
                    for chunk, needed in enumerate(chain.needs):
                        most = max(most, needed - released[chunk] + passing)
                    for later in range(run.index + 1, last + 1):
                        made, wanted = self.chain(run.index, later), self.chain(producer, later)
                        if made is not None and wanted is not None:
                            most = max(most, *(n - released[m] for n, m in zip(wanted.needs, made.needs, strict=True)))
        return min(total, most + 2)

    def _longest_chain(self, before: int, after: int) -> int:
        """Operators from ``before`` on, without ``after``, on the longest chain of reads between; -1: there is none."""
        if before == after:
            return 0
        made_by = {self.network.tensors[r.tensor].producer for r in self.network.operators[after].reads}
        chains = [self._longest_chain(before, m) for m in made_by if m is not None and m >= before]
        return max((length + 1 for length in chains if length >= 0), default=-1)

    def _cycles(self, size: int, place: Place) -> int:
        if place.where == "main":
            return self.chip.main_cycles(size)
        return self.chip.buffer_cycles(size) if place.where == "buffer" else self.chip.arrays_cycles(size, place.arrays)

    def _moves_of(self, tensor: int, runs: list[Run], place: Place) -> list[Move]:
        """The traffic of a tensor at a place, but not the reads of an operand that existed before the segment."""
        port = f"arrays:{tensor}" if place.where == "arrays" else place.where
        moves = []
        made_here = any(w.tensor == tensor for run in runs for w in run.writes)
        for stage, run in enumerate(runs):
            chunks = run.operator.chunks
            for action, transfers in (("write", run.writes), ("fetch", run.reads)):
                for moved in transfers:
                    if moved.tensor == tensor and moved.role != "operand":
                        cycles = chunks * self._cycles(ceil_div(moved.bytes, chunks), place)
                        moves.append(Move(stage, action, port, cycles))
                    elif moved.tensor == tensor and made_here:
                        moves.append(Move(stage, "operand", port, sum(self._cycles(t.bytes, place) for t in run.tiles)))
        return moves

    def _traffic(
        self, runs: list[Run], places: dict[int, Place], last: int, kept: Kept, resident: bool
    ) -> tuple[list[Stage], list[Move]]:
        """What each run does, and all traffic of the segment, with every tensor at its place."""
        moves = [move for tensor, place in places.items() for move in self._moves_of(tensor, runs, place)]
        stays = {tensor for tensor, _ in kept}
        for tensor, place in places.items():
            needed_later = tensor not in stays and self.last_reader(tensor) > last
            if place.where != "main" and (self.network.tensors[tensor].is_output or needed_later):
                moves += [m for m in self._moves_of(tensor, runs, Place("main")) if m.action == "write"]
        made_here = {w.tensor for run in runs for w in run.writes}
        stages = []
        for run in runs:
            operand = next((r.tensor for r in run.reads if r.role == "operand"), None)
            source = Place("main") if operand is None else places[operand]
            stages.append(
                Stage(
                    arrays=run.arrays,
                    rows=run.rows,
                    row_cycles=run.row_cycles,
                    chunks=run.operator.chunks,
                    vector_cycles=run.vector_cycles,
                    tile_writes=tuple(self.chip.array_write_cycles(t.rows) for t in run.tiles),
                    tile_reads=tuple(self._cycles(t.bytes, source) for t in run.tiles),
                    tile_reads_from_main=tuple(self.chip.main_cycles(t.bytes) for t in run.tiles),
                    operand_made_here=operand in made_here,
                    resident=resident and operand is None,
                    recurrent=run.operator.product is not None and run.operator.product.recurrent,
                )
            )
        return stages, moves

    # -- dependences -----------------------------------------------------------------------------------------------

    def _needs(self, after: int, read: Read) -> list[int]:
        """Chunks of the read tensor's producer that each chunk of ``after`` waits for."""
        producer = self.network.tensors[read.tensor].producer
        assert producer is not None
        total = self.network.operators[producer].chunks
        if read.role == "operand":
            return [total] * self.network.operators[after].chunks
        return [read.need.chunks(chunk, total) for chunk in range(self.network.operators[after].chunks)]

    def chain(self, before: int, after: int) -> Chain | None:
        """How ``after`` waits for ``before``, over all ways between them; None if it does not."""
        direct: dict[int, list[Read]] = {}
        for read in self.network.operators[after].reads:
            producer = self.network.tensors[read.tensor].producer
            if producer is not None and producer >= before:
                direct.setdefault(producer, []).append(read)
        ways: list[Chain] = []
        for producer, reads in direct.items():
            needs = tuple(max(chunk) for chunk in zip(*(self._needs(after, read) for read in reads), strict=True))
            if producer == before:
                ways.append(Chain(needs, (), any(read.role == "operand" for read in reads)))
            elif (way := self.chain(before, producer)) is not None:
                composed = tuple(way.needs[n - 1] if n else 0 for n in needs)
                ways.append(Chain(composed, (*way.between, producer), False))
        if not ways:
            return None
        slowest = max(ways, key=lambda way: (way.needs[0], len(way.between)))
        needs = tuple(max(chunk) for chunk in zip(*(way.needs for way in ways), strict=True))
        return Chain(needs, slowest.between, any(way.operand for way in ways))

    def _waits(self, runs: list[Run]) -> list[Wait]:
        stage_of = {run.index: stage for stage, run in enumerate(runs)}
        waits = []
        for after, run in enumerate(runs):
            for before in range(after):
                chain = self.chain(runs[before].index, run.index)
                if chain is not None:
                    total = runs[before].operator.chunks
                    waits.append(
                        Wait(
                            before,
                            after,
                            first=max(1, chain.needs[0]),
                            last=max(1, sum(n >= total for n in chain.needs)),
                            between=tuple(stage_of[index] for index in chain.between),
                            operand=chain.operand,
                        )
                    )
        return waits
