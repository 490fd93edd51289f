"""A chip with round figures and short ways to write programs for it, for tests that work cycles out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cmswitch.program.program import (
    After,
    Allocate,
    Emit,
    Fetch,
    Free,
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
from hw import Chip

CHIP = Chip.from_mapping(
    {
        "name": "small",
        "technology": "none",
        "clock_mhz": 100,
        "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "accumulator_bits": 32},
        "cores": 1,
        "arrays_per_core": 8,
        "interface": "array",
        "input_reuse": "line_buffer",
        "cut_inner": True,
        "vector": {"lanes": 1, "passes": {"default": 1}},
        "buffer": {"capacity_bytes": 64, "bandwidth": 2},
        "main_memory": {"bandwidth": 1},
        "array": {
            "rows": 4,
            "columns": 4,
            "bits_per_cell": 8,
            "binding": "columns",
            "max_active_rows": 4,
            "adder_inputs": 1,
            "dac_bits": 8,
            "adc_bits": 8,
            "cycles_per_pass": 5,
            "write_cycles_per_row": 3,
            "arrays_written_at_once": 2,
        },
        "modes": {
            "switchable": True,
            "to_compute_cycles": 2,
            "to_memory_cycles": 3,
            "switched_at_once": 4,
            "method": "none",
            "contents_survive": False,
            "capacity_fraction": 1,
            "bandwidth": 1,
            "ports": 1,
        },
        "energy": {"mvm_pj": 10, "main_memory_read_pj_per_byte": 2, "array_write_pj_per_row": "0.5", "static_mw": 1},
    }
)
"""8 arrays of 4x4 (16 bytes, 1 byte/cycle each); MVM 5 cycles, vector 1 pass/cycle; main memory 1 byte/cycle, buffer 64 bytes
with 2 bytes/cycle; a row is written in 3 cycles, 2 arrays at once; to compute 2 cycles, to memory 3, 4 arrays at once."""

Place = Literal["main", "resident"]


def tile(
    operator: str, *arrays: int, size: int = 4, rows: int = 4, source: str | None = None, row_block: int = 0
) -> WriteTile:
    """A tile of an operator, for one copy per array."""
    return WriteTile(operator, row_block, 0, 0, 1, 0, rows, 4, size, arrays, source)


def read(tensor: str, size: int, source: Place = "main", after: After | None = None) -> Fetch:
    """``size`` bytes of a tensor per chunk."""
    return Fetch(tensor, source, size, after)


def stage(
    operator: str,
    chunks: int,
    fetches: Sequence[Fetch],
    emits: Sequence[Emit],
    rows: int = 0,
    copies: Sequence[tuple[int, ...]] = (),
    vector: int = 0,
    operand: Sequence[WriteTile] = (),
    operand_after: str | None = None,
) -> Stage:
    """An operator with ``vector`` element passes per chunk and, if it has ``copies``, a product of ``rows`` rows."""
    multiply = Multiply(rows, 4, tuple(copies)) if copies else None
    work = (Vector("relu", f"{operator}.relu", vector),) if vector else ()
    nodes = (operator,)
    return Stage(operator, nodes, chunks, tuple(fetches), multiply, work, tuple(emits), tuple(operand), operand_after)


def segment(
    stages: Sequence[Stage],
    writes: Sequence[WriteTile] = (),
    switches: Sequence[Switch] = (),
    allocations: Sequence[Allocate] = (),
    frees: Sequence[str] = (),
    stores: Sequence[str] = (),
) -> SegmentProgram:
    """A segment; tensors to store and to free by name."""
    return SegmentProgram(
        tuple(map(Store, stores)),
        tuple(switches),
        tuple(allocations),
        tuple(writes),
        tuple(stages),
        tuple(map(Free, frees)),
    )


def to_compute(*arrays: int) -> Switch:
    """Switch arrays to compute mode."""
    return Switch("TOC", arrays)


def program(
    segments: Sequence[SegmentProgram],
    inputs: dict[str, int],
    outputs: dict[str, int],
    others: dict[str, int] | None = None,
    resident_weights: bool = False,
    chip: Chip = CHIP,
) -> Program:
    """A program; tensors as name to bytes."""
    tensors = [
        *(TensorDeclaration(name, size, "input") for name, size in inputs.items()),
        *(TensorDeclaration(name, size, "output") for name, size in outputs.items()),
        *(TensorDeclaration(name, size) for name, size in (others or {}).items()),
    ]
    return Program("test", chip.name, chip.sha256, tuple(tensors), tuple(segments), resident_weights)
