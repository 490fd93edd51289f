"""A chip: all that the mapper and the simulators may know about the hardware, and its exact unit conversions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator

from hw.errors import ChipError
from hw.figures import Count, Positive, plain
from hw.parts import (
    DEFAULT_KIND,
    HOST_KIND,
    Array,
    Buffer,
    Energy,
    MainMemory,
    Modes,
    Part,
    Precision,
    Text,
    VectorUnit,
)
from hw.problems import chip_error, is_key_path, refuse, split_path, unknown_key_path, unknown_path_problem


def _ceil_div(amount: int, rate: Fraction) -> int:
    return -(-amount * rate.denominator // rate.numerator)


def _array_bytes(array: Array, modes: Modes) -> int:
    return array.rows * array.columns * array.bits_per_cell * modes.capacity_fraction // 8


def _key_path(path: str) -> str:
    if not is_key_path(path, Chip):
        raise unknown_key_path()
    return path


@dataclass(frozen=True)
class WeightFormat:
    """Weights of ``bits`` bits on a chip.

    Each takes ``cells`` cells. A row of an array holds ``per_row`` weights (one slice of each under binding ``arrays``; 0: not
    even one), and ``arrays`` arrays hold a weight together: 1, or one for each cell under binding ``arrays``.
    """

    bits: int
    cells: int
    per_row: int
    arrays: int

    def bytes(self, elements: int) -> int:
        """Bytes of ``elements`` weights in main memory."""
        return -(-elements * self.bits // 8)


class Chip(Part):
    """A dual-mode compute-in-memory chip. Bandwidths are bytes per cycle; times are whole clock cycles, rounded up."""

    schema_version: Literal[1] = Field(default=1, description="version of this file format")
    name: Text = Field(description="name of the chip, as reports show it")
    technology: Text = Field(description="process node and cell, in words")
    clock_mhz: Positive = Field(description="clock in MHz; only converts cycles into seconds")
    precision: Precision
    cores: Count = Field(description="cores (1: flat chip)")
    arrays_per_core: Count = Field(description="arrays of each core")
    interface: Literal["core", "array", "row"] = Field(description="the smallest unit that software may command")
    input_reuse: Literal["line_buffer", "expanded"] = Field(
        description="a convolution fetches each input element once (`line_buffer`) or the im2col matrix (`expanded`)"
    )
    cut_inner: bool = Field(description="whether an operator whose reduction exceeds the chip may be cut along it")
    vector: VectorUnit
    buffer: Buffer
    main_memory: MainMemory
    array: Array
    modes: Modes
    energy: Energy = Field(default_factory=Energy)
    sources: Mapping[Annotated[str, AfterValidator(_key_path)], Text] = Field(
        default_factory=dict,
        description="where each figure is from: key path (`array.rows`) to a publication, or to `assumed: why`",
    )

    @field_validator("modes")
    @classmethod
    def _holds_a_byte(cls, modes: Modes, info: ValidationInfo) -> Modes:
        array = info.data.get("array")
        if modes.switchable and isinstance(array, Array) and _array_bytes(array, modes) < 1:
            cells = array.rows * array.columns * array.bits_per_cell
            raise refuse(
                "an array of at least 8 bits in memory mode",
                f"{cells} cell bits x capacity_fraction {plain(modes.capacity_fraction)}",
            )
        return modes

    def __hash__(self) -> int:
        return hash(self.sha256)

    # -- identity ------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The canonical JSON text: sorted keys, exact numbers. ``Chip.from_mapping`` of its content is this chip again."""
        return json.dumps(self.to_mapping(), sort_keys=True, separators=(",", ":"))

    def to_mapping(self) -> dict[str, object]:
        """Plain mappings as in a chip file; fractions as decimal text, what is not given left out."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def from_mapping(cls, data: Mapping[str, object]) -> Chip:
        """The chip that ``data`` describes (as a chip file does). Raises ChipError with all problems."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise chip_error(error, cls) from None

    @cached_property
    def sha256(self) -> str:
        """Hash of the canonical JSON without ``sources``: how a chip is documented does not change what it is."""
        decisive = {key: value for key, value in self.to_mapping().items() if key != "sources"}
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def with_changes(self, **changes: object) -> Chip:
        """A validated copy with the figures at the given key paths replaced: ``**{"main_memory.bandwidth": 51.2}``.

        Raises ChipError with all problems: unknown key paths (with the nearest) and values that are not allowed.
        """
        unknown = [unknown_path_problem(path, Chip) for path in changes if not is_key_path(path, Chip)]
        if unknown:
            raise ChipError(unknown)
        data: dict[str, Any] = self.to_mapping()
        for path, value in changes.items():
            *sections, key = split_path(path)
            target = data
            for section in sections:
                target = target.setdefault(section, {})
            target[key] = value
        return self.from_mapping(data)

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """Key paths of given figures that the machine model records but does not charge, for reports."""
        given = {
            "main_memory.latency_cycles": self.main_memory.latency_cycles > 0,
            "modes.access_latency_cycles": self.modes.access_latency_cycles > 0,
            "modes.ports": self.modes.ports > 1,
            "cores": self.cores > 1,
            "interface": self.interface != "array",
        }
        return tuple(path for path, is_given in given.items() if is_given)

    # -- arrays and weights --------------------------------------------------------------------------------------

    @property
    def arrays(self) -> int:
        """Arrays of the whole chip."""
        return self.cores * self.arrays_per_core

    def weight_format(self, bits: int | None = None) -> WeightFormat:
        """How arrays and main memory hold weights of ``bits`` bits each (None: those of ``precision.weight_bits``)."""
        array, bits = self.array, self.precision.weight_bits if bits is None else bits
        cells = -(-bits // array.bits_per_cell)
        if array.binding == "arrays":
            return WeightFormat(bits, cells, array.columns, cells)
        return WeightFormat(bits, cells, array.columns // cells, 1)

    @property
    def array_bytes(self) -> int:
        """Bytes that one array holds in memory mode."""
        return _array_bytes(self.array, self.modes)

    # -- sizes in bytes ------------------------------------------------------------------------------------------

    def activation_bytes(self, elements: int) -> int:
        """Bytes of ``elements`` activations."""
        return -(-elements * self.precision.input_bits // 8)

    def accumulator_bytes(self, elements: int) -> int:
        """Bytes of ``elements`` partial sums."""
        return -(-elements * self.precision.accumulator_bits // 8)

    # -- times in cycles -----------------------------------------------------------------------------------------

    def mvm_cycles(self, used_rows: int) -> int:
        """Cycles tau of one matrix-vector multiplication of an array whose tile uses ``used_rows`` rows."""
        passes = -(-self.precision.input_bits // self.array.dac_bits)
        row_groups = -(-used_rows // self.array.max_active_rows)
        return -(-passes * self.array.cycles_per_pass.numerator // self.array.cycles_per_pass.denominator) * row_groups

    def array_write_cycles(self, used_rows: int) -> int:
        """Cycles to write ``used_rows`` rows of one array."""
        return used_rows * self.array.write_cycles_per_row

    def main_cycles(self, size: int) -> int:
        """Cycles to move ``size`` bytes over the main-memory port."""
        return _ceil_div(size, self.main_memory.bandwidth)

    def buffer_cycles(self, size: int) -> int:
        """Cycles to move ``size`` bytes over the buffer's port."""
        return _ceil_div(size, self.buffer.bandwidth)

    def arrays_cycles(self, size: int, arrays: int) -> int:
        """Cycles to move ``size`` bytes over the port of ``arrays`` (at least 1) interleaved memory-mode arrays."""
        return _ceil_div(size, arrays * self.modes.bandwidth)

    def switch_cycles(self, to_compute: int, to_memory: int) -> int:
        """Cycles to switch ``to_compute`` arrays into compute mode and ``to_memory`` arrays into memory mode."""
        modes = self.modes
        compute_turns = -(-to_compute // modes.switched_at_once)
        memory_turns = -(-to_memory // modes.switched_at_once)
        return modes.to_compute_cycles * compute_turns + modes.to_memory_cycles * memory_turns

    # -- vector unit ---------------------------------------------------------------------------------------------

    def vector_passes(self, kind: str) -> Fraction:
        """Passes per element of a vector operator; a kind that is not listed has the passes of ``default``.

        The lanes wait for the host: one of its elements takes as many passes as they could have done meanwhile.
        """
        if kind == HOST_KIND:
            return self.vector.lanes / self.vector.host_elements_per_cycle
        return self.vector.passes.get(kind, self.vector.passes[DEFAULT_KIND])

    def vector_work(self, kind: str, elements: int) -> int:
        """Element passes of ``elements`` elements of ``kind``, rounded up."""
        passes = self.vector_passes(kind)
        return -(-elements * passes.numerator // passes.denominator)

    def vector_cycles(self, work: int) -> int:
        """Cycles of ``work`` element passes on the vector unit."""
        return -(-work // self.vector.lanes)
