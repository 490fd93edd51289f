"""The functional machine: executes a program on numbers, statement by statement, operator by operator.

It knows the program, the chip, the tensors and what each operator computes, and nothing of how the program was made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cmswitch.functional import layout
from cmswitch.functional.cells import Adc, Grid, cells_of_tile
from cmswitch.functional.description import Product, Task
from cmswitch.functional.errors import ExecutionError
from cmswitch.functional.formats import Array
from cmswitch.functional.memory import Memory, Shapes
from cmswitch.functional.products import Block, Copies, Held, Sums
from cmswitch.functional.steps import Numbers, Steps, one_step
from cmswitch.program.program import Multiply, Program, SegmentProgram, Stage, WriteTile
from hw import Chip

_PIECE = re.compile(r"\[\d+:\d+\]$")


@dataclass(frozen=True)
class Executed:
    """One operator that ran: the sums of its product (None: it has none) in the shape of its output, the codes that its
    product took, and the codes of the tensors that it wrote."""

    task: Task
    sums: Array | None
    matrix: Array | None
    operand: Array | None
    outputs: Mapping[str, Array]


class Machine:
    """One run of a program. ``report`` is called after each operator and may raise StopIteration to end the run.

    With a ``sample`` only products are executed, those that it names at the given rows of their matrix; every operator writes
    what is injected.
    """

    def __init__(
        self,
        program: Program,
        chip: Chip,
        tasks: Mapping[str, Task],
        numbers: Numbers,
        steps: Steps,
        shapes: Shapes,
        report: Callable[[Executed], None],
        adc: Adc = "off",
        sample: Mapping[str, Array] | None = None,
    ) -> None:
        self._program, self._chip, self._tasks, self._steps = program, chip, tasks, steps
        self._report, self._adc, self._sample = report, adc, sample
        self._memory = Memory(chip, numbers.tensors, shapes)
        self._cells: dict[int, Array] = {}
        self._held: dict[str, Held] = {}
        self._starts: dict[str, Block] = {}
        self._sums: dict[str, Sums] = {}

    def run(self, given: Mapping[str, Array], injected: Mapping[str, Array]) -> dict[str, Array]:
        """Execute all segments; the codes of the network outputs in main memory. Raises ExecutionError.

        ``given`` are the codes of the network inputs, ``injected`` those of all tensors that can be known: refused tasks write
        them, and outputs that are not among them are left out.
        """
        for name, codes in given.items():
            self._memory.write(name, "main", codes)
        try:
            for segment in self._program.segments:
                self._segment(segment, injected)
        except StopIteration:
            return {}
        names = [tensor.name for tensor in self._program.tensors if tensor.kind == "output"]
        return {name: self._memory.read(name, "main") for name in names if name in injected}

    def _segment(self, segment: SegmentProgram, injected: Mapping[str, Array]) -> None:
        for store in segment.stores:
            self._memory.store(store.tensor)
        for switch in segment.switches:
            for array in switch.arrays:
                self._cells.pop(array, None)
                self._memory.switch(array, switch.mode == "TOC")
        existing = {tile.source: self._memory.place_of(tile.source) for tile in segment.writes if tile.source}
        for allocation in segment.allocations:
            self._memory.allocate(allocation)
        self._held.clear()
        self._starts = _starts(segment)
        for tile in segment.writes:
            self._write(tile, existing.get(tile.source or "", "main"))
        for stage in segment.stages:
            self._stage(stage, injected)
        for free in segment.frees:
            self._memory.free(free.tensor)

    # --- arrays -------------------------------------------------------------------------------------------------------

    def _task(self, operator: str) -> Task:
        name = operator if operator in self._tasks else _PIECE.sub("", operator)
        if name not in self._tasks:
            raise ExecutionError(f"nothing is known of what operator {operator!r} computes")
        return self._tasks[name]

    def _write(self, tile: WriteTile, source: str) -> None:
        """Fill one array of every copy, as far as they are in compute mode."""
        task = self._task(tile.operator)
        product = task.product
        if task.refusal is not None or product is None:
            return
        held = self._operand(task, product, tile, source)
        grid = self._grid(product, held)
        rows = self._chip.array.rows
        block = held.by_group[
            tile.group : tile.group + tile.groups,
            tile.row_block * rows : (tile.row_block + 1) * rows,
            tile.column_block * grid.width : (tile.column_block + 1) * grid.width,
        ]
        if 0 in block.shape:
            raise ExecutionError(f"operator {tile.operator!r} has no tile {tile.row_block} {tile.column_block}")
        cells = cells_of_tile(self._chip, block, grid, tile.bit, tile.rows, tile.columns)
        for array in tile.arrays:
            if self._memory.computes(array):
                self._cells[array] = cells

    def _operand(self, task: Task, product: Product, tile: WriteTile, source: str) -> Held:
        """What the arrays are filled from: the stored weight, or the tensor that ``tile`` names, read at ``source``."""
        if tile.operator not in self._held:
            if tile.source is None:
                codes = self._steps.weight(task).codes
            else:
                values = self._steps.values({tile.source: self._memory.read(tile.source, source)})
                codes = self._steps.operand(task, values)
            by_group = layout.operand(product, codes)[:, product.first : product.first + product.inner]
            self._held[tile.operator] = Held(codes, by_group, self._steps.operand_format(task))
        return self._held[tile.operator]

    def _grid(self, product: Product, held: Held) -> Grid:
        return Grid.of(self._chip, product.inner, product.columns, product.groups, held.form.bits)

    def _cells_of(self, array: int) -> Array | None:
        return self._cells.get(array) if self._memory.computes(array) else None

    def _copies(self, stage: Stage, product: Product, statement: Multiply) -> Copies:
        """The arrays that a readxb names. Raises ExecutionError if no tile of the operator was written."""
        if stage.operator not in self._held:
            raise ExecutionError(f"operator {stage.operator!r} multiplies before a tile of it was written")
        held, start = self._held[stage.operator], self._starts[stage.operator]
        grid = self._grid(product, held)
        return Copies(self._chip, self._adc, self._cells_of, statement.copies, start, grid, held)

    # --- stages -------------------------------------------------------------------------------------------------------

    def _stage(self, stage: Stage, injected: Mapping[str, Array]) -> None:
        task = self._task(stage.operator)
        given = {name: injected[name] for name in task.writes if name in injected}
        if task.refusal is not None or (self._sample is not None and task.product is None):
            self._emit(stage, given)
            return
        for tile in stage.operand:
            self._write(tile, self._memory.place_of(tile.source or ""))
        codes = {f.tensor: self._memory.read(f.tensor, f.source) for f in stage.fetches if f.tensor in task.reads}
        values = self._steps.values(codes)
        if task.product is None or stage.multiply is None:
            done = Executed(task, None, None, None, self._steps.outputs(task, None, values))
        else:
            copies = self._copies(stage, task.product, stage.multiply)
            run = self._product if task.product.recurrence is None else self._recurrence
            found = run(task, task.product, stage, copies, values)
            if found is None:
                return
            done = found
        self._emit(stage, done.outputs if self._sample is None else given)
        self._report(done)

    def _product(
        self, task: Task, product: Product, stage: Stage, copies: Copies, values: Mapping[str, Array]
    ) -> Executed | None:
        """One piece of a product; None unless it is the last, which ends the operator."""
        matrix = self._steps.matrix(task, values)
        sums = self._sums.setdefault(task.name, Sums.empty(product, copies.grid))
        rows = None if self._sample is None else self._sample.get(task.name)
        copies.add(product, matrix, self._steps.matrix_format(product), sums, rows=rows)
        if sums.missing:
            return None
        del self._sums[task.name]
        if product.carried_in is not None:
            source = next((f.source for f in stage.fetches if f.tensor == product.carried_in), "main")
            sums.values += self._memory.read(product.carried_in, source)
        if product.carried_out is not None:
            self._emit(stage, {product.carried_out: sums.values})
            return None
        found = layout.result(product, sums.values)
        outputs = {} if self._sample is not None else self._steps.outputs(task, found, values)
        return Executed(task, found, matrix, copies.held.codes, outputs)

    def _recurrence(
        self, task: Task, product: Product, stage: Stage, copies: Copies, values: Mapping[str, Array]
    ) -> Executed:
        """One step after another, each on the state that the one before left."""
        step, form = one_step(product), self._steps.matrix_format(product)

        def multiplied(number: int, codes: Array) -> Array:
            sums = Sums.empty(step, copies.grid)
            copies.add(step, codes, form, sums, number * step.rows)
            return np.asarray(sums.values[0])

        found, matrix, outputs = self._steps.recurrence(task, values, multiplied)
        return Executed(task, found, matrix, copies.held.codes, outputs)

    def _emit(self, stage: Stage, outputs: Mapping[str, Array]) -> None:
        for emit in stage.emits:
            if emit.tensor in outputs:
                for target in emit.targets:
                    self._memory.write(emit.tensor, target, outputs[emit.tensor])


def _starts(segment: SegmentProgram) -> dict[str, Block]:
    """The first block of every operator that tiles are written for."""
    found: dict[str, Block] = {}
    for tile in (*segment.writes, *(tile for stage in segment.stages for tile in stage.operand)):
        block = (tile.group, tile.column_block)
        found[tile.operator] = min(found.get(tile.operator, block), block)
    return found
