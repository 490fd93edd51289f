"""Building blocks of small hand-timed programs, and the chip they run on."""

from __future__ import annotations

from typing import Literal

import hw
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
    Store,
    Switch,
    TensorDeclaration,
    Vector,
    WriteTile,
)
from cmswitch.simulator import simulate

CHIP = hw.load_chip("dynaplasia").with_changes(
    **{
        "arrays_per_core": 8,
        "vector.lanes": 4,
        "buffer.capacity_bytes": 256,
        "buffer.bandwidth": 8,
        "main_memory.bandwidth": 4,
        "array.rows": 16,
        "array.columns": 64,
        "array.max_active_rows": 8,
        "array.cycles_per_pass": "1.25",
        "array.write_cycles_per_row": 2,
        "array.arrays_written_at_once": 2,
        "modes.to_compute_cycles": 3,
        "modes.to_memory_cycles": 5,
        "modes.switched_at_once": 2,
        "modes.bandwidth": 1,
    }
)

Phases = tuple[int, int, int, int]
"""Cycles of store, switch, reload and execute of one segment."""


def expect(total: int, phases: list[Phases], program: Program, chip: hw.Chip = CHIP) -> None:
    """Assert the cycles of the whole program and of the four phases of each segment."""
    timing = simulate(program, chip)
    measured = [(s.store_cycles, s.switch_cycles, s.reload_cycles, s.execute_cycles) for s in timing.segments]
    assert (timing.total_cycles, measured) == (total, phases)


def network(
    *segments: SegmentProgram,
    inputs: dict[str, int],
    outputs: dict[str, int],
    between: dict[str, int] | None = None,
    chip: hw.Chip = CHIP,
    resident_weights: bool = False,
) -> Program:
    """A program of these segments; tensors by name with their bytes."""
    tensors = (
        *(TensorDeclaration(name, size, "input") for name, size in inputs.items()),
        *(TensorDeclaration(name, size, "output") for name, size in outputs.items()),
        *(TensorDeclaration(name, size) for name, size in (between or {}).items()),
    )
    return Program("micro", chip.name, chip.sha256, tensors, segments, resident_weights)


def segment(
    *stages: Stage,
    switches: tuple[Switch, ...] = (),
    writes: tuple[WriteTile, ...] = (),
    allocations: tuple[Allocate, ...] = (),
    stores: tuple[Store, ...] = (),
    frees: tuple[str, ...] = (),
) -> SegmentProgram:
    """The statements of one segment, in the order the program form prescribes."""
    return SegmentProgram(stores, switches, allocations, writes, stages, tuple(Free(name) for name in frees))


def to_compute(*arrays: int) -> tuple[Switch, ...]:
    """One switch of these arrays to compute mode."""
    return (Switch("TOC", arrays),)


def tile(
    operator: str,
    *arrays: int,
    rows: int = 8,
    columns: int = 5,
    row_block: int = 0,
    column_block: int = 0,
    source: str | None = None,
) -> WriteTile:
    """A tile of 8-bit weights for the array of each copy: ``rows x columns`` bytes."""
    return WriteTile(
        operator, row_block, column_block, group=0, groups=1, bit=0, rows=rows, columns=columns, bytes=rows * columns,
        arrays=arrays, source=source,
    )  # fmt: skip


def multiply(rows: int, *copies: int | tuple[int, ...], used_rows: int = 8) -> Multiply:
    """A product of ``rows`` rows on copies that are one array each, or the given arrays."""
    return Multiply(rows, used_rows, tuple((copy,) if isinstance(copy, int) else copy for copy in copies))


def stage(
    operator: str,
    chunks: int,
    fetches: tuple[Fetch, ...],
    product: Multiply | None,
    work: int,
    emit: Emit,
    operand: tuple[WriteTile, ...] = (),
    operand_after: str | None = None,
) -> Stage:
    """An operator with one vector operator of ``work`` passes per chunk and one output."""
    vector = (Vector("elementwise", f"{operator}_act", work),)
    return Stage(operator, (operator,), chunks, fetches, product, vector, (emit,), operand, operand_after)


def load(tensor: str, size: int, source: Literal["main", "resident"] = "main", after: After | None = None) -> Fetch:
    """A fetch of ``size`` bytes per chunk."""
    return Fetch(tensor, source, size, after)


def stream(tensor: str, size: int, producer: str, *rule: int) -> Fetch:
    """A fetch of a tensor on chip whose producer is in the segment; ``rule`` (numerator, denominator, offset, span)."""
    return load(tensor, size, "resident", After(producer, *(rule or (1, 1, 1, 1))))


def out(tensor: str, size: int, *targets: Literal["main", "resident"]) -> Emit:
    """An output of ``size`` bytes per chunk, by default to main memory."""
    return Emit(tensor, targets or ("main",), size)


def in_buffer(tensor: str, offset: int, length: int, window: int | None = None) -> Allocate:
    """A place in the buffer: whole, or ``window`` chunks."""
    return Allocate(tensor, Buffer(extents=((offset, length),)), window)


def in_arrays(tensor: str, *arrays: int, window: int | None = None) -> Allocate:
    """A place in memory-mode arrays: whole, or ``window`` chunks."""
    return Allocate(tensor, MemoryArrays(arrays), window)
