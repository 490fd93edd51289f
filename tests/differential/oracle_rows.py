"""The cost rows of one segment with every choice made, in fractions (docstring of :mod:`formulations.allocation`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


def ceil_div(a: int, b: int) -> int:
    """``a / b`` rounded up."""
    return -(-a // b)


@dataclass(frozen=True)
class Stage:
    """An operator in a segment; cycles over all chunks. ``tile_reads`` are from where the operand lives.

    ``resident``: the weights are in the arrays already.
    """

    arrays: int
    rows: int
    row_cycles: int
    chunks: int
    vector_cycles: int
    tile_writes: tuple[int, ...]
    tile_reads: tuple[int, ...]
    tile_reads_from_main: tuple[int, ...]
    operand_made_here: bool
    resident: bool


@dataclass(frozen=True)
class Move:
    """``cycles`` of traffic of a stage on a port; ``action``: fetch, write, or operand (written into the arrays)."""

    stage: int
    action: str
    port: str
    cycles: int


@dataclass(frozen=True)
class Wait:
    """Stage ``after`` waits for ``first`` chunks of ``before``, its last ``last`` chunks for all of them."""

    before: int
    after: int
    first: int
    last: int
    between: tuple[int, ...]
    operand: bool


def segment_cycles(
    stages: Sequence[Stage],
    copies: Sequence[int],
    moves: Sequence[Move],
    waits: Sequence[Wait],
    write_drivers: int,
) -> Fraction:
    """Cycles of reload and execution."""
    return reload_cycles(stages, copies, write_drivers) + execute_cycles(stages, copies, moves, waits, write_drivers)


def reload_cycles(stages: Sequence[Stage], copies: Sequence[int], write_drivers: int) -> Fraction:
    """Row (10)."""
    loaded = [
        (s, d) for s, d in zip(stages, copies, strict=True) if s.arrays and not (s.operand_made_here or s.resident)
    ]
    if not loaded:
        return Fraction(0)
    tiles = [tile for s, _ in loaded for tile in zip(s.tile_writes, s.tile_reads, s.tile_reads_from_main, strict=True)]
    start, end = 0, Fraction(sum(sum(s.tile_writes) * d for s, d in loaded), write_drivers)
    for write, read, _ in sorted(tiles, key=lambda tile: (tile[2] - tile[0], -tile[0], tile[1])):
        end = max(end, Fraction(start + read), Fraction(start + write))
        start += read
    return end


def execute_cycles(
    stages: Sequence[Stage], copies: Sequence[int], moves: Sequence[Move], waits: Sequence[Wait], write_drivers: int
) -> Fraction:
    """Rows (5) to (9)."""

    def load(port: str, actions: tuple[str, ...], stage: int | None = None) -> int:
        """Traffic on a port, of one stage or of all."""
        return sum(m.cycles for m in moves if m.port == port and m.action in actions and stage in (None, m.stage))

    ports = sorted({m.port for m in moves})
    busy, latency, before_vector = [], [], []
    for i, (stage, d) in enumerate(zip(stages, copies, strict=True)):
        multiply = ceil_div(stage.rows, d) * stage.row_cycles if d else 0
        loads = []
        for port in ports:
            if any(m.port == port and m.stage == i and m.action != "operand" for m in moves):
                loads.append(load(port, ("fetch", "write"), None if port.startswith("arrays") else i))
        busy.append(max(multiply, stage.vector_cycles, *loads, 0))
        fetch = max((load(port, ("fetch",), i) for port in ports), default=0)
        write = max((load(port, ("write",), i) for port in ports), default=0)
        first = ceil_div(ceil_div(stage.rows, stage.chunks), d) * stage.row_cycles if d else 0
        before_vector.append(Fraction(fetch, stage.chunks) + first)
        latency.append(before_vector[i] + Fraction(stage.vector_cycles + write, stage.chunks))
    start: list[Fraction] = []
    finish: list[Fraction] = []
    written = Fraction(0)  # end of writing the operands so far: the write drivers take one after another
    for j, (stage, d) in enumerate(zip(stages, copies, strict=True)):
        begin = end = Fraction(0)
        for wait in waits:
            if wait.after != j:
                continue
            k = wait.before
            if wait.operand:
                writing = max(*stage.tile_writes, ceil_div(sum(stage.tile_writes) * d, write_drivers))
                reading = max((load(port, ("operand",), j) for port in ports), default=0)
                written = max(written + writing, finish[k] + max(writing, reading))
                begin = max(begin, written)
            else:
                between = sum((latency[m] for m in wait.between), Fraction(0))
                begin = max(
                    begin, start[k] + latency[k] + Fraction((wait.first - 1) * busy[k], stages[k].chunks) + between
                )
                end = max(end, finish[k] + between + latency[j] + Fraction((wait.last - 1) * busy[j], stage.chunks))
        start.append(begin)
        finish.append(max(end, begin + latency[j] + busy[j] - Fraction(busy[j], stage.chunks)))
    total = [Fraction(load(port, ("fetch", "write", "operand"))) for port in ports]
    vector = Fraction(sum(s.vector_cycles for s in stages))
    if vector:
        vector += filling(stages, waits, start, before_vector[0]) + draining(stages, waits, busy, latency)
    return max(*finish, *total, vector)


def filling(stages: Sequence[Stage], waits: Sequence[Wait], start: Sequence[Fraction], first: Fraction) -> Fraction:
    """H of row (9): how long a saturated vector unit idles before its work arrives, ``first`` for the first stage."""
    idle = [first]
    for j in range(len(stages)):
        done = Fraction(0)
        for i, stage in enumerate(stages[:j]):
            needed = [stage.chunks if w.operand else w.first for w in waits if (w.before, w.after) == (i, j)]
            chunks = min(stage.chunks, max(needed)) if needed else stage.chunks
            done += Fraction(chunks * stage.vector_cycles, stage.chunks)
        idle.append(start[j] - done)
    return max(idle)


def draining(
    stages: Sequence[Stage], waits: Sequence[Wait], busy: Sequence[int], latency: Sequence[Fraction]
) -> Fraction:
    """Q of row (9): how long it idles while the stages that nothing waits for come to their end."""
    idle = [Fraction(0)]
    for wait in waits:
        j = wait.after
        if wait.between or wait.operand or any(other.before == j for other in waits):
            continue
        rest = Fraction(min(wait.last, stages[j].chunks) * stages[j].vector_cycles, stages[j].chunks)
        idle.append(latency[j] + Fraction((wait.last - 1) * busy[j], stages[j].chunks) - rest)
    return max(idle)
