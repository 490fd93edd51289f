"""Predicted cycles of one segment, in rational arithmetic: the objective of segment allocation, computed once more.

This file follows ``formulations``' segment objective; all else of the checker follows ``docs/machine-model.md`` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from cmswitch.checker.demand import Demand, Tile, round_up
from cmswitch.checker.leads import Lead, Leads
from hw import Chip

Where = Literal["main", "buffer", "arrays"]


@dataclass(frozen=True)
class Home:
    """Where a tensor is on chip; ``arrays`` memory-mode arrays. ``to_main``: its producer streams it to main memory as well."""

    where: Where
    arrays: int
    to_main: bool


@dataclass(frozen=True)
class SegmentCost:
    """Cycles of the execute and reload phases."""

    execute: Fraction
    reload: Fraction


@dataclass(frozen=True)
class _Flow:
    """Cycles on one port: of stage ``stage``, while it does ``action``."""

    stage: int
    action: Literal["fetch", "write", "operand"]
    port: str
    cycles: int


def segment_cost(
    chip: Chip,
    demands: Sequence[Demand],
    copies: Sequence[int],
    homes: Mapping[int, Home],
    leads: Leads,
    weights_resident: bool,
) -> SegmentCost:
    """Cost of the segment whose pieces ask ``demands`` and run in ``copies``, with the tensors in ``homes`` on chip."""
    execute = _makespan(chip, demands, copies, list(_flows(chip, demands, homes)), leads)
    return SegmentCost(execute, _reload(chip, demands, copies, homes, weights_resident))


def _made(demands: Sequence[Demand]) -> set[int]:
    return {w.tensor for d in demands for w in d.writes}


def _port(tensor: int, homes: Mapping[int, Home]) -> str:
    where = homes[tensor].where if tensor in homes else "main"
    return f"arrays of {tensor}" if where == "arrays" else where


def _cycles(chip: Chip, size: int, home: Home | None) -> int:
    """Cycles to move ``size`` bytes from or to a home (None: main memory)."""
    if home is None or home.where == "main":
        return chip.main_cycles(size)
    return chip.buffer_cycles(size) if home.where == "buffer" else chip.arrays_cycles(size, home.arrays)


def _flows(chip: Chip, demands: Sequence[Demand], homes: Mapping[int, Home]) -> Iterator[_Flow]:
    """All traffic of the execute phase."""
    made = _made(demands)
    for stage, demand in enumerate(demands):
        for read in demand.reads:
            home, port = homes.get(read.tensor), _port(read.tensor, homes)
            if read.role != "operand":
                share = round_up(read.bytes, demand.chunks)
                yield _Flow(stage, "fetch", port, demand.chunks * _cycles(chip, share, home))
            elif read.tensor in made:
                yield _Flow(stage, "operand", port, sum(_cycles(chip, t.bytes, home) for t in demand.tiles))
        for write in demand.writes:
            home, port = homes.get(write.tensor), _port(write.tensor, homes)
            share = round_up(write.bytes, demand.chunks)
            yield _Flow(stage, "write", port, demand.chunks * _cycles(chip, share, home))
            if home is not None and home.to_main:
                yield _Flow(stage, "write", "main", demand.chunks * chip.main_cycles(share))


def _makespan(
    chip: Chip, demands: Sequence[Demand], copies: Sequence[int], flows: Sequence[_Flow], leads: Leads
) -> Fraction:
    """Cycles until the last operator of the pipeline ends, and no port or vector unit works longer than that."""
    stage_of = {d.operator: i for i, d in enumerate(demands)}
    busy: list[int] = []
    fill: list[Fraction] = []
    latency: list[Fraction] = []
    start: list[Fraction] = []
    finish: list[Fraction] = []
    drivers_free = Fraction(0)
    for j, demand in enumerate(demands):
        own = [f for f in flows if f.stage == j]
        busy.append(_busy(demand, copies[j], own, flows))
        first_rows = round_up(demand.rows, demand.chunks)
        first_chunk = round_up(first_rows, copies[j]) * demand.row_cycles if demand.tiles else 0
        fill.append(first_chunk + Fraction(_longest(own, "fetch"), demand.chunks))
        latency.append(fill[j] + Fraction(demand.vector_cycles + _longest(own, "write"), demand.chunks))
        begin = end = Fraction(0)
        for before, earlier in enumerate(demands[:j]):
            lead = leads.get((earlier.operator, demand.operator))
            if lead is None:
                continue
            if lead.operand:
                writing = _operand_writing(chip, demand, copies[j])
                drivers_free = max(drivers_free + writing, finish[before] + max(writing, _longest(own, "operand")))
                begin = max(begin, drivers_free)
                continue
            on_the_way = sum((latency[stage_of[m]] for m in lead.between), Fraction(0))
            first, last = _first(lead), _last(lead, earlier)
            ahead = Fraction((first - 1) * busy[before], earlier.chunks)
            begin = max(begin, start[before] + latency[before] + ahead + on_the_way)
            after = Fraction((last - 1) * busy[j], demand.chunks)
            end = max(end, finish[before] + on_the_way + latency[j] + after)
        start.append(begin)
        rest = Fraction((demand.chunks - 1) * busy[j], demand.chunks)
        finish.append(max(end, begin + latency[j] + rest))
    ports = [sum(f.cycles for f in flows if f.port == port) for port in {f.port for f in flows}]
    vector = _vector_unit(demands, leads, busy, fill, latency, start)
    return max(*finish, vector, *map(Fraction, ports))


def _first(lead: Lead) -> int:
    """Chunks of the earlier operator that the later one's first chunk waits for."""
    return max(1, lead.needed[0])


def _last(lead: Lead, earlier: Demand) -> int:
    """Chunks of the later operator that wait for the last chunk of the earlier one."""
    return max(1, sum(1 for n in lead.needed if n >= earlier.chunks))


def _vector_unit(
    demands: Sequence[Demand],
    leads: Leads,
    busy: Sequence[int],
    fill: Sequence[Fraction],
    latency: Sequence[Fraction],
    start: Sequence[Fraction],
) -> Fraction:
    """Cycles of a vector unit that always has work, but while the pipeline fills (before any operator could have given it more)
    and drains (after an operator's last producer ends)."""
    work = sum(d.vector_cycles for d in demands)
    if not work:
        return Fraction(0)
    idle_before = fill[0]
    idle_after = Fraction(0)
    for j, demand in enumerate(demands):
        done = Fraction(0)
        ends_pipeline = not any(before == demand.operator for before, _ in leads)
        for earlier in demands[:j]:
            lead = leads.get((earlier.operator, demand.operator))
            chunks = earlier.chunks if lead is None or lead.operand else _first(lead)
            done += Fraction(chunks * earlier.vector_cycles, earlier.chunks)
            if ends_pipeline and lead is not None and not lead.operand and not lead.between:
                last = _last(lead, earlier)
                remaining = Fraction(last * demand.vector_cycles, demand.chunks)
                idle_after = max(idle_after, latency[j] + Fraction((last - 1) * busy[j], demand.chunks) - remaining)
        idle_before = max(idle_before, start[j] - done)
    return idle_before + work + idle_after


def _busy(demand: Demand, copies: int, own: Sequence[_Flow], flows: Sequence[_Flow]) -> int:
    """Cycles of the stage's slowest resource; arrays that hold a tensor are as slow for one user as for all together."""
    slowest = max(demand.vector_cycles, round_up(demand.rows, copies) * demand.row_cycles if demand.tiles else 0)
    for port in {f.port for f in own if f.action != "operand"}:
        sharers = flows if port.startswith("arrays of") else own
        slowest = max(slowest, sum(f.cycles for f in sharers if f.port == port and f.action != "operand"))
    return slowest


def _longest(own: Sequence[_Flow], action: str) -> int:
    """Cycles of an action whose transfers run in parallel on distinct ports."""
    by_port: dict[str, int] = {}
    for flow in own:
        if flow.action == action:
            by_port[flow.port] = by_port.get(flow.port, 0) + flow.cycles
    return max(by_port.values(), default=0)


def _write_cycles(chip: Chip, tiles: Sequence[Tile]) -> list[int]:
    return [chip.array_write_cycles(t.rows) for t in tiles]


def _operand_writing(chip: Chip, demand: Demand, copies: int) -> int:
    """Cycles of writing a dynamic operand into every copy: the longest tile, and all of it on all write drivers."""
    writes = _write_cycles(chip, demand.tiles)
    return max(max(writes), round_up(sum(writes) * copies, chip.array.arrays_written_at_once))


def _reload(
    chip: Chip, demands: Sequence[Demand], copies: Sequence[int], homes: Mapping[int, Home], weights_resident: bool
) -> Fraction:
    """Cycles until all tiles are read one after another, each is written once, and all drivers have written all copies.

    ``weights_resident`` leaves out constant weights, not a dynamic operand.
    """
    made = _made(demands)
    tiles: list[tuple[int, int, int]] = []  # ascending in the order of reading: negative tail, negative write, read
    writing = 0
    for demand, d in zip(demands, copies, strict=True):
        operand = demand.operand
        if not demand.tiles or operand in made or (operand is None and weights_resident):
            continue
        source = None if operand is None else homes.get(operand)
        writes = _write_cycles(chip, demand.tiles)
        for write, tile in zip(writes, demand.tiles, strict=True):
            tiles.append((chip.main_cycles(tile.bytes) - write, -write, _cycles(chip, tile.bytes, source)))
        writing += d * sum(writes)
    reading, written = 0, 0
    for _, negative_write, read in sorted(tiles):
        written = max(written, reading - negative_write)
        reading += read
    return max(Fraction(reading), Fraction(written), Fraction(writing, chip.array.arrays_written_at_once))
