"""The sections of a chip description: frozen, validated, every figure with its unit."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from hw.figures import Count, Natural, NotNegative, Positive, Share
from hw.problems import refuse

DEFAULT_KIND = "default"
"""The key of ``vector.passes`` that stands for every kind that is not listed."""

HOST_KIND = "host"
"""The kind of work that no lane can do: it goes by ``vector.host_elements_per_cycle``, not by passes."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise refuse("text that is not blank")
    return text


Text = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]


class Part(BaseModel):
    """A section of a chip description: immutable, no unknown keys, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Precision(Part):
    """Bits of the numbers that the chip works on."""

    weight_bits: Count = Field(
        description="bits of one weight that the network does not store in a quantised type of its own"
    )
    input_bits: Count = Field(description="bits of one activation, wherever it is stored, moved or fed into an array")
    output_bits: Count = Field(description="bits of one requantised output")
    accumulator_bits: Count = Field(description="bits of one partial sum where it is moved or added outside the arrays")


class VectorUnit(Part):
    """The one unit that runs everything but matrix products, with the scalar core (the *host*) beside its lanes."""

    lanes: Count = Field(description="element passes per cycle")
    host_elements_per_cycle: Positive = Field(
        default=Fraction(1),
        description="elements per cycle of the scalar core that does what no lane can: sorting, text, random numbers",
    )
    passes: Mapping[str, NotNegative] = Field(
        description=f"passes per element of each kind of vector operator; `{DEFAULT_KIND}` (required) is for all others"
    )

    @field_validator("passes")
    @classmethod
    def _has_default(cls, passes: Mapping[str, NotNegative]) -> Mapping[str, NotNegative]:
        if DEFAULT_KIND not in passes:
            raise refuse(f"a section with the key {DEFAULT_KIND!r}, for every kind that it does not list")
        if HOST_KIND in passes:
            raise refuse(f"a section without the key {HOST_KIND!r} (`host_elements_per_cycle` says what it takes)")
        return passes


class Buffer(Part):
    """The on-chip buffer: one pool, one port."""

    capacity_bytes: Natural = Field(description="bytes it holds (0: none)")
    bandwidth: Positive = Field(description="bytes per cycle of its one port, reads and writes together")


class MainMemory(Part):
    """Main memory, outside the chip."""

    bandwidth: Positive = Field(description="bytes per cycle, reads and writes together")
    latency_cycles: Natural = Field(default=0, description="cycles before the first byte (recorded, not yet charged)")


class Array(Part):
    """One array: its size, its matrix-vector multiplication (MVM) and how it is written."""

    rows: Count = Field(description="rows (inputs of an MVM)")
    columns: Count = Field(description="cell columns")
    bits_per_cell: Count = Field(description="bits one cell holds in compute mode")
    binding: Literal["columns", "arrays"] = Field(
        description="where the cells of one weight are: adjacent `columns`, or the same place in several `arrays`"
    )
    max_active_rows: Count = Field(
        description="rows that take part in one pass, at most `rows`; more rows take further passes"
    )
    adder_inputs: Count = Field(
        description="row blocks whose partial sums add in the array periphery at no time; more add on the vector unit"
    )
    dac_bits: Count = Field(description="input bits applied in one pass")
    adc_bits: Count = Field(description="bits of one conversion (recorded, decides no cost)")
    cycles_per_pass: Positive = Field(description="cycles of one pass, conversions included")
    write_cycles_per_row: Count = Field(description="cycles to write one row of one array")
    arrays_written_at_once: Count = Field(description="arrays that can be written at the same time (write drivers)")
    endurance_writes: Positive | None = Field(default=None, description="writes one cell survives, where known")

    @field_validator("max_active_rows")
    @classmethod
    def _within_rows(cls, value: int, info: ValidationInfo) -> int:
        rows = info.data.get("rows")
        if rows is not None and value > rows:
            raise refuse(f"a whole number of at most rows ({rows})")
        return value


_FIXED_MODE: Mapping[str, object] = {
    "to_compute_cycles": 0,
    "to_memory_cycles": 0,
    "switched_at_once": 1,
    "method": "not switchable",
    "contents_survive": False,
    "capacity_fraction": 0,
    "bandwidth": 0,
    "ports": 1,
    "access_latency_cycles": 0,
}


def _allow_switchable_alone(schema: dict[str, Any]) -> None:
    """In the JSON Schema: the other keys are required on a switchable chip only."""
    rest = [key for key in schema["required"] if key != "switchable"]
    schema["required"] = ["switchable"]
    schema["if"] = {"properties": {"switchable": {"const": True}}}
    schema["then"] = {"required": rest}


class Modes(Part):
    """Mode switching, and what an array is as memory. ``switchable: false`` needs no other key."""

    model_config = ConfigDict(json_schema_extra=_allow_switchable_alone)

    switchable: bool = Field(description="whether arrays can change mode; if false they are in compute mode for good")
    to_compute_cycles: Natural = Field(description="cycles to switch from memory to compute mode")
    to_memory_cycles: Natural = Field(description="cycles to switch from compute to memory mode")
    switched_at_once: Count = Field(description="arrays that switch at the same time (1: one after another)")
    method: Text = Field(description="how the mode is changed, in words")
    contents_survive: bool = Field(description="whether a switch keeps what the array holds (recorded, not used)")
    capacity_fraction: Share = Field(description="share of rows x columns x bits_per_cell usable in memory mode")
    bandwidth: NotNegative = Field(description="bytes per cycle of one array in memory mode, reads and writes together")
    ports: Literal[1, 2] = Field(description="ports of an array in memory mode (2: recorded, charged as 1)")
    access_latency_cycles: Natural = Field(
        default=0, description="cycles before the first byte (recorded, not yet charged)"
    )

    @model_validator(mode="before")
    @classmethod
    def _fixed_mode(cls, data: object) -> object:
        if isinstance(data, Mapping) and data.get("switchable") is False:
            return {**_FIXED_MODE, **data}
        return data

    @field_validator("capacity_fraction", "bandwidth")
    @classmethod
    def _usable(cls, value: Positive, info: ValidationInfo) -> Positive:
        if info.data.get("switchable") and value == 0:
            raise refuse("a number above 0 on a switchable chip")
        return value


Picojoules = NotNegative | None


class Energy(Part):
    """Energy and power, all optional: what is not given is not modelled, never zero."""

    mvm_pj: Picojoules = Field(
        default=None,
        description="pJ of one MVM of one array at input_bits, with its conversions unless adc_conversion_pj is given",
    )
    adc_conversion_pj: Picojoules = Field(default=None, description="pJ of one conversion; left out: part of mvm_pj")
    vector_pass_pj: Picojoules = Field(default=None, description="pJ of one element pass of the vector unit")
    buffer_pj_per_byte: Picojoules = Field(default=None, description="pJ per byte over the buffer's port")
    memory_array_pj_per_byte: Picojoules = Field(
        default=None, description="pJ per byte over a memory-mode array's port"
    )
    main_memory_read_pj_per_byte: Picojoules = Field(default=None, description="pJ per byte read from main memory")
    main_memory_write_pj_per_byte: Picojoules = Field(default=None, description="pJ per byte written to main memory")
    array_write_pj_per_row: Picojoules = Field(default=None, description="pJ to write one row of one array")
    switch_pj: Picojoules = Field(default=None, description="pJ of one mode switch of one array")
    static_mw: NotNegative | None = Field(default=None, description="power of the chip at rest, in mW")
