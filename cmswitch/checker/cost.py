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
    """Cycles of the execute and reload phases, and of writing back what is not kept (a phase of ``eq10`` alone)."""

    execute: Fraction
    reload: Fraction
    write_back: Fraction = Fraction(0)


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


@dataclass(frozen=True)
class _Pace:
    """How fast an operator goes: ``fill`` until the vector work of its first chunk, ``latency`` of one chunk and ``mvm`` of all
    (cycles); ``others``: its slowest resource but for the MVMs."""

    chunks: int
    fill: Fraction
    latency: Fraction
    others: Fraction
    mvm: int
    first_mvm: int

    def time(self, chunks: int) -> Fraction:
        """Cycles of ``chunks`` successive chunks, at the pace of the slowest resource."""
        by_others = self.latency + Fraction(chunks - 1, self.chunks) * self.others
        return max(by_others, self.latency - self.first_mvm + Fraction(chunks * self.mvm, self.chunks))


def _makespan(
    chip: Chip, demands: Sequence[Demand], copies: Sequence[int], flows: Sequence[_Flow], leads: Leads
) -> Fraction:
    """Cycles until the last operator of the pipeline ends, and no port or vector unit works longer than that."""
    stage_of = {d.operator: i for i, d in enumerate(demands)}
    paces: list[_Pace] = []
    start: list[Fraction] = []
    finish: list[Fraction] = []
    drivers_free = Fraction(0)
    for j, demand in enumerate(demands):
        own = [f for f in flows if f.stage == j]
        pace = _pace(demand, copies[j], own, flows)
        paces.append(pace)
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
            on_the_way = sum((paces[stage_of[m]].latency for m in lead.between), Fraction(0))
            begin = max(begin, start[before] + on_the_way + paces[before].time(_first(lead)))
            end = max(end, finish[before] + on_the_way + pace.time(_last(lead, earlier)))
        start.append(begin)
        finish.append(max(end, begin + pace.time(demand.chunks)))
    vector = [_Flow(j, "write", "vector unit", d.vector_cycles) for j, d in enumerate(demands) if d.vector_cycles]
    longest = max(finish)
    for port in sorted({f.port for f in (*vector, *flows)}):
        work = [f for f in (*vector, *flows) if f.port == port]
        longest = max(longest, Fraction(sum(f.cycles for f in work)))
        if not port.startswith("arrays of"):
            longest = max(longest, _saturated(demands, leads, paces, start, work))
    return longest


def _first(lead: Lead) -> int:
    """Chunks of the earlier operator that the later one's first chunk waits for."""
    return max(1, lead.needed[0])


def _last(lead: Lead, earlier: Demand) -> int:
    """Chunks of the later operator that wait for the last chunk of the earlier one."""
    return max(1, sum(1 for n in lead.needed if n >= earlier.chunks))


def _saturated(
    demands: Sequence[Demand], leads: Leads, paces: Sequence[_Pace], start: Sequence[Fraction], work: Sequence[_Flow]
) -> Fraction:
    """Cycles of a resource that always has work, but while the pipeline fills (before any operator could have given it more)
    and drains (after an operator's last producer ends)."""
    streamed, read = [0] * len(demands), [0] * len(demands)
    for flow in work:
        (read if flow.action == "operand" else streamed)[flow.stage] += flow.cycles
    idle_before = paces[0].fill if work[0].port == "vector unit" else Fraction(0)
    idle_after = Fraction(0)
    for j, demand in enumerate(demands):
        done = Fraction(sum(read[: j + 1]))
        ends_pipeline = not any(before == demand.operator for before, _ in leads)
        for i, earlier in enumerate(demands[:j]):
            lead = leads.get((earlier.operator, demand.operator))
            chunks = earlier.chunks if lead is None or lead.operand else _first(lead)
            done += Fraction(chunks * streamed[i], earlier.chunks)
            if ends_pipeline and lead is not None and not lead.operand and not lead.between:
                last = _last(lead, earlier)
                idle_after = max(idle_after, paces[j].time(last) - Fraction(last * streamed[j], demand.chunks))
        idle_before = max(idle_before, start[j] - done)
    return idle_before + sum(streamed) + sum(read) + idle_after


def _pace(demand: Demand, copies: int, own: Sequence[_Flow], flows: Sequence[_Flow]) -> _Pace:
    """Arrays that hold a tensor are as slow for one user as for all together."""
    chunks = demand.chunks
    first_mvm = round_up(round_up(demand.rows, chunks), copies) * demand.row_cycles if demand.tiles else 0
    mvm = round_up(demand.rows, copies) * demand.row_cycles if demand.tiles else 0
    fill = first_mvm + Fraction(_longest(own, "fetch"), chunks)
    latency = fill + Fraction(demand.vector_cycles + _longest(own, "write"), chunks)
    others = Fraction(demand.vector_cycles)
    for port in {f.port for f in own if f.action != "operand"}:
        sharers = flows if port.startswith("arrays of") else own
        others = max(others, Fraction(sum(f.cycles for f in sharers if f.port == port and f.action != "operand")))
    if demand.recurrent:
        return _Pace(chunks, fill, latency, max(others, chunks * latency), chunks * first_mvm, first_mvm)
    return _Pace(chunks, fill, latency, others, mvm, first_mvm)


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
