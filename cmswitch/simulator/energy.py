"""Energy: events counted from the statements of a program, times the figures of the chip file.

An MVM converts every column of an array once for each input pass and row group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from cmswitch.program.program import Allocate, Buffer, Program, SegmentProgram, WriteTile
from cmswitch.simulator.legality import Places
from cmswitch.simulator.timing import Energy
from hw import Chip

_FIGURES = {
    "mvm": "mvm_pj",
    "adc": "adc_conversion_pj",
    "vector": "vector_pass_pj",
    "buffer": "buffer_pj_per_byte",
    "memory_arrays": "memory_array_pj_per_byte",
    "main_memory_read": "main_memory_read_pj_per_byte",
    "main_memory_write": "main_memory_write_pj_per_byte",
    "array_write": "array_write_pj_per_row",
    "switch": "switch_pj",
}
"""The figure of the chip file for each counted component."""


def program_energy(program: Program, places: Sequence[Places], chip: Chip, cycles: int) -> Energy:
    """Energy of a legal program that runs for ``cycles``; components without a figure are listed, not counted as zero."""
    sizes = {tensor.name: tensor.bytes for tensor in program.tensors}
    counts: Counter[str] = Counter()
    before: dict[str, Allocate] = {}
    for segment, place in zip(program.segments, places, strict=True):
        for store in segment.stores:
            counts[_component(before[store.tensor], "read")] += sizes[store.tensor]
            counts["main_memory_write"] += sizes[store.tensor]
        _count_segment(segment, place, chip, counts)
        before = dict(place.execute)
    by_component: dict[str, float] = {}
    not_modelled: list[str] = []
    for component, figure in _FIGURES.items():
        each: Fraction | None = getattr(chip.energy, figure)
        if component == "adc" and each is None and chip.energy.mvm_pj is not None:
            continue  # conversions are part of the figure of an MVM then
        if each is None:
            not_modelled.append(component)
        else:
            by_component[component] = float(counts[component] * each)
    if chip.energy.static_mw is None:
        not_modelled.append("static")
    else:
        # mW x microseconds = nJ = 1000 pJ
        by_component["static"] = float(1000 * chip.energy.static_mw * cycles / chip.clock_mhz)
    return Energy(by_component, tuple(not_modelled))


def _component(place: Allocate | None, direction: str) -> str:
    if place is None:
        return f"main_memory_{direction}"
    return "buffer" if isinstance(place.location, Buffer) else "memory_arrays"


def _count_segment(segment: SegmentProgram, places: Places, chip: Chip, counts: Counter[str]) -> None:
    counts["switch"] += sum(len(switch.arrays) for switch in segment.switches)
    _count_tiles(segment.writes, places.reload, counts)
    for stage in segment.stages:
        _count_tiles(stage.operand, places.execute, counts)
        for fetch in stage.fetches:
            place = None if fetch.source == "main" else places.execute[fetch.tensor]
            counts[_component(place, "read")] += fetch.bytes * stage.chunks
        for emit in stage.emits:
            for target in emit.targets:
                place = None if target == "main" else places.execute[emit.tensor]
                counts[_component(place, "write")] += emit.bytes * stage.chunks
        counts["vector"] += sum(operator.work for operator in stage.vector) * stage.chunks
        if stage.multiply is not None:
            activations = stage.multiply.rows * len(stage.multiply.copies[0])
            input_passes = -(-chip.precision.input_bits // chip.array.dac_bits)
            row_groups = -(-stage.multiply.used_rows // chip.array.max_active_rows)
            counts["mvm"] += activations
            counts["adc"] += activations * input_passes * row_groups * chip.array.columns


def _count_tiles(tiles: Iterable[WriteTile], places: Mapping[str, Allocate], counts: Counter[str]) -> None:
    for tile in tiles:
        place = None if tile.source is None else places.get(tile.source)
        counts[_component(place, "read")] += tile.bytes
        counts["array_write"] += tile.rows * len(tile.arrays)
