"""Legality of a program on a chip: every statement is checked against what the chip holds when it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cmswitch.errors import CmswitchError
from cmswitch.naming import quantity
from cmswitch.program.program import (
    Allocate,
    Buffer,
    Emit,
    Fetch,
    Multiply,
    Program,
    SegmentProgram,
    Stage,
    TensorDeclaration,
    WriteTile,
)
from cmswitch.program.text import Statement, format_statement
from hw import Chip


class SimulationError(CmswitchError):
    """A program that breaks a rule: ``rule`` in words, the ``statement`` that breaks it (text form), its ``segment``."""

    def __init__(self, rule: str, statement: str, segment: int | None) -> None:
        self.rule, self.statement, self.segment = rule, statement, segment
        where = "program" if segment is None else f"segment {segment}"
        super().__init__(f"{where}: {statement}: {rule}")


@dataclass(frozen=True)
class Places:
    """Where tensors are on chip in a segment: ``reload`` those that exist when it starts, ``execute`` all of them."""

    reload: Mapping[str, Allocate]
    execute: Mapping[str, Allocate]


def check_program(program: Program, chip: Chip) -> tuple[Places, ...]:
    """Check every statement in order; the places of tensors per segment. Raises SimulationError at the first breach."""
    if program.chip_sha256 != chip.sha256:
        raise SimulationError(
            f"the program was compiled for another chip description (this one is {chip.name!r}, {chip.sha256})",
            f"chip {program.chip!r} sha256 {program.chip_sha256!r}",
            None,
        )
    checker = _Checker(program, chip)
    places = tuple(checker.segment(index, segment) for index, segment in enumerate(program.segments))
    checker.outputs(len(program.segments) - 1)
    return places


class _Checker:
    """The state of the chip after the statements so far: modes, contents, places, and what main memory holds."""

    def __init__(self, program: Program, chip: Chip) -> None:
        self._chip = chip
        self._tensors = {tensor.name: tensor for tensor in program.tensors}
        self._computing: set[int] = set()
        self._owner: dict[int, str] = {}
        self._places: dict[str, Allocate] = {}
        self._in_main: Counter[str] = Counter()
        self._on_chip: Counter[str] = Counter()
        self._freed: dict[str, int] = {}
        self._index = 0
        names = Counter(tensor.name for tensor in program.tensors)
        for tensor in program.tensors:
            self._require(names[tensor.name] == 1, "a tensor is declared twice", tensor)
            self._require(tensor.bytes > 0, "a tensor has at least one byte", tensor)
            if tensor.kind == "input":
                self._in_main[tensor.name] = tensor.bytes

    def segment(self, index: int, segment: SegmentProgram) -> Places:
        """Check a segment and apply its effects; where its tensors are."""
        self._index = index
        for store in segment.stores:
            place = self._place(store.tensor, store)
            self._require(place.window is None, "a window holds only part of its tensor", store)
            self._require(
                self._on_chip[store.tensor] >= self._tensors[store.tensor].bytes,
                f"{store.tensor!r} is not complete on chip",
                store,
            )
            self._in_main[store.tensor] = self._tensors[store.tensor].bytes
            self._release(store.tensor)
        self._switch(segment)
        before = {name: place for name, place in self._places.items() if self._on_chip[name]}
        for allocation in segment.allocations:
            self._allocate(allocation)
        written: dict[int, WriteTile] = {}
        for tile in segment.writes:
            self._write(tile, written)
            if tile.source is not None:
                self._readable(tile.source, "resident" if tile.source in before else "main", tile.bytes, tile)
        self._stages(segment.stages, written)
        execute = dict(self._places)
        for free in segment.frees:
            self._place(free.tensor, free)
            self._release(free.tensor)
        for name, place in self._places.items():
            self._require(place.window is None, f"the window of {name!r} is not freed at the end of its segment", place)
        return Places(before, execute)

    def outputs(self, last: int) -> None:
        """Every network output must have reached main memory."""
        self._index = last
        for tensor in self._tensors.values():
            if tensor.kind == "output":
                rule = "the network output was never completely written to main memory"
                self._require(self._in_main[tensor.name] >= tensor.bytes, rule, tensor)

    # --- arrays -------------------------------------------------------------------------------------------------------

    def _require(self, holds: bool, rule: str, statement: Statement) -> None:
        if not holds:
            raise SimulationError(rule, format_statement(statement), self._index)

    def _check_arrays(self, arrays: Sequence[int], statement: Statement) -> None:
        for array in arrays:
            rule = f"array {array} does not exist (the chip has {self._chip.arrays})"
            self._require(0 <= array < self._chip.arrays, rule, statement)
        repeated = [array for array, count in Counter(arrays).items() if count > 1]
        self._require(not repeated, f"arrays {repeated} are named twice", statement)
        self._require(bool(arrays), "no arrays are named", statement)

    def _switch(self, segment: SegmentProgram) -> None:
        switched: set[int] = set()
        for switch in segment.switches:
            self._require(self._chip.modes.switchable, "the arrays of this chip cannot switch", switch)
            self._check_arrays(switch.arrays, switch)
            to_compute = switch.mode == "TOC"
            mode = "compute" if to_compute else "memory"
            for array in switch.arrays:
                owner = self._owner.get(array)
                self._require(owner is None, f"array {array} still holds tensor {owner!r}", switch)
                rule = f"redundant switch: array {array} is already in {mode} mode"
                self._require(self._computes(array) != to_compute, rule, switch)
                rule = f"redundant switch: array {array} switches twice in one segment"
                self._require(array not in switched, rule, switch)
                switched.add(array)
                if to_compute:
                    self._computing.add(array)
                else:
                    self._computing.remove(array)

    def _computes(self, array: int) -> bool:
        """Whether an array is in compute mode."""
        return array in self._computing or not self._chip.modes.switchable

    def _write(self, tile: WriteTile, written: dict[int, WriteTile]) -> None:
        self._check_arrays(tile.arrays, tile)
        array = self._chip.array
        self._require(0 < tile.rows <= array.rows, f"a tile has 1 to {quantity(array.rows, 'row')}", tile)
        self._require(0 < tile.columns <= array.columns, f"a tile has 1 to {quantity(array.columns, 'column')}", tile)
        for number in tile.arrays:
            rule = f"array {number} is written with weights in memory mode"
            self._require(self._computes(number), rule, tile)
            rule = f"array {number} is in two places at once: it is written twice in this segment"
            self._require(number not in written, rule, tile)
            written[number] = tile

    # --- tensors ------------------------------------------------------------------------------------------------------

    def _tensor(self, name: str, statement: Statement) -> TensorDeclaration:
        self._require(name in self._tensors, f"tensor {name!r} is not declared", statement)
        return self._tensors[name]

    def _place(self, name: str, statement: Statement) -> Allocate:
        self._tensor(name, statement)
        when = f"it was freed in segment {self._freed[name]}" if name in self._freed else "it was never allocated"
        self._require(name in self._places, f"tensor {name!r} has no place on chip: {when}", statement)
        return self._places[name]

    def _release(self, name: str) -> None:
        del self._places[name]
        del self._on_chip[name]
        self._freed[name] = self._index
        self._owner = {array: owner for array, owner in self._owner.items() if owner != name}

    def _allocate(self, allocation: Allocate) -> None:
        tensor = self._tensor(allocation.tensor, allocation)
        self._require(tensor.name not in self._places, "the tensor already has a place on chip", allocation)
        self._require(allocation.window is None or allocation.window > 0, "a window has at least one chunk", allocation)
        location = allocation.location
        if isinstance(location, Buffer):
            self._buffer(location, allocation)
        else:
            self._check_arrays(location.arrays, allocation)
            for array in location.arrays:
                rule = f"array {array} is allocated to a tensor in compute mode"
                self._require(not self._computes(array), rule, allocation)
                owner = self._owner.get(array)
                rule = f"array {array} is in two places at once: it holds tensor {owner!r}"
                self._require(owner is None, rule, allocation)
                self._owner[array] = tensor.name
        if allocation.window is None:
            self._fits(tensor.bytes, allocation, allocation)
        self._places[tensor.name] = allocation
        self._on_chip[tensor.name] = 0

    def _buffer(self, location: Buffer, allocation: Allocate) -> None:
        capacity = self._chip.buffer.capacity_bytes
        taken = [(first, first + length, allocation.tensor) for first, length in location.extents]
        for first, end, _ in taken:
            self._require(0 <= first < end, "an extent starts at 0 or later and has at least one byte", allocation)
            self._require(end <= capacity, f"over capacity: the buffer has {quantity(capacity, 'byte')}", allocation)
        for name, other in self._places.items():
            if isinstance(other.location, Buffer):
                taken += [(first, first + length, name) for first, length in other.location.extents]
        for (_, end, name), (first, _, other_name) in pairwise(sorted(taken)):
            self._require(
                end <= first, f"bytes of the buffer overlap: those of {name!r} and {other_name!r}", allocation
            )

    def _fits(self, size: int, allocation: Allocate, statement: Statement) -> None:
        location = allocation.location
        is_buffer = isinstance(location, Buffer)
        capacity = location.bytes if isinstance(location, Buffer) else len(location.arrays) * self._chip.array_bytes
        place = "part of the buffer" if is_buffer else "arrays"
        room = quantity(capacity, "byte")
        rule = f"tensor {allocation.tensor!r} of {quantity(size, 'byte')} does not fit its {place} of {room}"
        self._require(size <= capacity, rule, statement)

    def _readable(self, name: str, source: str, size: int, statement: Statement) -> None:
        """``size`` bytes of a tensor (or all of it) exist at ``source`` before the segment executes."""
        needed = min(self._tensor(name, statement).bytes, size)
        if source == "resident":
            place = self._place(name, statement)
            self._require(place.window is None, f"tensor {name!r} has only a window on chip", statement)
            rule = f"tensor {name!r} was not completely written to its place on chip"
            self._require(self._on_chip[name] >= needed, rule, statement)
        else:
            rule = f"tensor {name!r} was not completely written to main memory"
            self._require(self._in_main[name] >= needed, rule, statement)

    # --- stages -------------------------------------------------------------------------------------------------------

    def _stages(self, stages: Sequence[Stage], written: dict[int, WriteTile]) -> None:
        earlier: dict[str, Stage] = {}
        for stage in stages:
            self._require(stage.operator not in earlier, "an operator runs once in a segment", stage)
            self._require(stage.chunks > 0, "an operator has at least one chunk", stage)
            for tile in stage.operand:
                self._operand(stage, tile, earlier)
                self._write(tile, written)
            if stage.operand or stage.operand_after is not None:
                rule = "an operand needs tiles, the operator that produces it, and a product"
                whole = bool(stage.operand) and stage.operand_after is not None and stage.multiply is not None
                self._require(whole, rule, stage)
            for emit in stage.emits:
                self._emit(stage, emit)
            for fetch in stage.fetches:
                self._fetch(stage, fetch, earlier)
            earlier[stage.operator] = stage
        computing: dict[int, str] = {}
        for stage in stages:
            if stage.multiply is not None:
                self._multiply(stage, stage.multiply, written, computing)
        for stage in stages:
            for emit in stage.emits:
                if "main" in emit.targets:
                    self._in_main[emit.tensor] += emit.bytes * stage.chunks
                if "resident" in emit.targets:
                    self._on_chip[emit.tensor] += emit.bytes * stage.chunks

    def _producer(self, operator: str, tensor: str, earlier: Mapping[str, Stage], statement: Statement) -> Emit:
        rule = f"operator {operator!r} is not an earlier operator of the segment"
        self._require(operator in earlier, rule, statement)
        emits = [emit for emit in earlier[operator].emits if emit.tensor == tensor]
        self._require(len(emits) == 1, f"operator {operator!r} does not write tensor {tensor!r}", statement)
        return emits[0]

    def _operand(self, stage: Stage, tile: WriteTile, earlier: Mapping[str, Stage]) -> None:
        self._require(tile.operator == stage.operator, f"the tile is not of operator {stage.operator!r}", tile)
        rule = "an operand is one tensor that an operator of the segment produces"
        if tile.source is None or stage.operand_after is None or tile.source != stage.operand[0].source:
            raise SimulationError(rule, format_statement(tile), self._index)
        emit = self._producer(stage.operand_after, tile.source, earlier, tile)
        place = self._places.get(tile.source)
        self._require(place is None or place.window is None, f"tensor {tile.source!r} has only a window on chip", tile)
        source = "main" if place is None else "resident"
        self._require(source in emit.targets, f"tensor {tile.source!r} is not written to where it is read", tile)

    def _fetch(self, stage: Stage, fetch: Fetch, earlier: Mapping[str, Stage]) -> None:
        self._tensor(fetch.tensor, fetch)
        self._require(fetch.bytes >= 0, "a number of bytes is at least 0", fetch)
        if fetch.after is None:
            producer = next((s for s in earlier.values() if any(e.tensor == fetch.tensor for e in s.emits)), None)
            complete = self._in_main if fetch.source == "main" else self._on_chip
            if producer is not None and complete[fetch.tensor] < self._tensors[fetch.tensor].bytes:
                rule = f"tensor {fetch.tensor!r} is read without waiting for operator {producer.operator!r}"
                raise SimulationError(rule, format_statement(fetch), self._index)
            least = (fetch.bytes - 1) * stage.chunks + 1
            self._readable(fetch.tensor, fetch.source, least, fetch)
            return
        self._require(fetch.after.denominator > 0, "a denominator is at least 1", fetch)
        emit = self._producer(fetch.after.operator, fetch.tensor, earlier, fetch)
        if fetch.source == "resident":
            self._place(fetch.tensor, fetch)
        rule = f"operator {fetch.after.operator!r} does not write tensor {fetch.tensor!r} to {fetch.source} first"
        self._require(emit.targets[:1] == (fetch.source,), rule, fetch)

    def _emit(self, stage: Stage, emit: Emit) -> None:
        tensor = self._tensor(emit.tensor, emit)
        self._require(bool(emit.targets), "an output that goes nowhere", emit)
        self._require(len(set(emit.targets)) == len(emit.targets), "a target is named twice", emit)
        self._require(emit.bytes >= 0, "a number of bytes is at least 0", emit)
        if "resident" in emit.targets:
            place = self._place(emit.tensor, emit)
            if place.window is not None:
                self._fits(min(tensor.bytes, place.window * emit.bytes), place, emit)

    def _multiply(
        self, stage: Stage, multiply: Multiply, written: Mapping[int, WriteTile], computing: dict[int, str]
    ) -> None:
        """Every copy holds the complete grid of tiles of its operator, each tile once, on arrays of its own."""
        self._require(multiply.rows > 0 and bool(multiply.copies), "a product has rows and copies", multiply)
        grids: set[frozenset[tuple[int, int, int, int]]] = set()
        for number, copy in enumerate(multiply.copies):
            self._check_arrays(copy, multiply)
            tiles: list[WriteTile] = []
            for array in copy:
                this = f"copy {number} of {stage.operator!r}"
                other = computing.setdefault(array, this)
                self._require(
                    other == this, f"array {array} is in two places at once: {other} computes on it", multiply
                )
                self._require(self._computes(array), f"compute on array {array}, which is in memory mode", multiply)
                tile = written.get(array)
                if tile is None or tile.operator != stage.operator:
                    held = "nothing that this segment wrote" if tile is None else f"a tile of {tile.operator!r}"
                    rule = f"array {array} does not hold a tile of {stage.operator!r} but {held}"
                    raise SimulationError(rule, format_statement(multiply), self._index)
                tiles.append(tile)
            keys = [(tile.row_block, tile.column_block, tile.group, tile.bit) for tile in tiles]
            grids.add(frozenset(keys))
            self._require(len(set(keys)) == len(keys), "a copy holds a tile twice", multiply)
            largest = max(tile.rows for tile in tiles)
            self._require(largest == multiply.used_rows, f"the largest tile uses {quantity(largest, 'row')}", multiply)
            self._complete(tiles, multiply)
        self._require(len(grids) == 1, "the copies do not hold the same tiles", multiply)

    def _complete(self, tiles: Sequence[WriteTile], multiply: Multiply) -> None:
        """A copy is a run of blocks, by group and column, each with all its row blocks and bit slices."""
        found = {(t.row_block, t.column_block, t.group, t.bit) for t in tiles}
        row_blocks, bits = ({key[axis] for key in found} for axis in (0, 3))
        blocks = {(t.group, t.column_block): t.groups for t in tiles}
        tiles_of_blocks = ((row, column, group, bit) for group, column in blocks for row in row_blocks for bit in bits)
        missing = next((key for key in tiles_of_blocks if key not in found), None)
        rule = f"a copy lacks tile (row block, column block, group, bit) {missing}"
        self._require(missing is None, rule, multiply)
        for what, numbers in (("row block", row_blocks), ("bit slice", bits)):
            gap = next(iter(sorted(set(range(min(numbers), max(numbers) + 1)) - numbers)), None)
            self._require(gap is None, f"a copy lacks {what} {gap}", multiply)
        last_column = max(column for _, column in blocks)
        for (group, column), (next_group, next_column) in pairwise(sorted(blocks)):
            if next_group == group:
                self._require(next_column == column + 1, f"a copy lacks column block {column + 1}", multiply)
            else:
                self._require(column == last_column, f"a copy lacks column block {column + 1}", multiply)
                self._require(next_column == 0, "a copy lacks column block 0", multiply)
                follows = next_group == group + blocks[group, column]
                self._require(follows, "a copy lacks groups, or holds some twice", multiply)
