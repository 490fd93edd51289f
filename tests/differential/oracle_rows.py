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

    ``resident``: the weights are in the arrays already. ``recurrent``: a chunk starts when the one before has been written.
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
    recurrent: bool = False


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
    multiply, moved, latency, other = [], [], [], []
    for i, (stage, d) in enumerate(zip(stages, copies, strict=True)):
        loads = []
        for port in ports:
            if any(m.port == port and m.stage == i and m.action != "operand" for m in moves):
                loads.append(load(port, ("fetch", "write"), None if port.startswith("arrays") else i))
        fetch = max((load(port, ("fetch",), i) for port in ports), default=0)
        write = max((load(port, ("write",), i) for port in ports), default=0)
        first = ceil_div(ceil_div(stage.rows, stage.chunks), d) * stage.row_cycles if d else 0
        multiply.append(ceil_div(stage.rows, d) * stage.row_cycles if d else 0)
        moved.append(Fraction(fetch + stage.vector_cycles + write, stage.chunks))
        latency.append(moved[i] + first)
        other.append(Fraction(max(stage.vector_cycles, *loads, 0)))
        if stage.recurrent:
            multiply[i] = stage.chunks * first
            other[i] = max(other[i], stage.chunks * latency[i])
        if i == 0:
            before_vector = Fraction(fetch, stage.chunks) + first

    def time(i: int, chunks: int) -> Fraction:
        """How long so many chunks of a stage take: at the pace of its ports, or at that of its MVMs."""
        share = Fraction(chunks, stages[i].chunks)
        return max(latency[i] + (share - Fraction(1, stages[i].chunks)) * other[i], moved[i] + share * multiply[i])

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
                begin = max(begin, start[k] + between + time(k, wait.first))
                end = max(end, finish[k] + between + time(j, wait.last))
        start.append(begin)
        finish.append(max(end, begin + time(j, stage.chunks)))
    ends = [w for w in waits if not (w.between or w.operand or any(other.before == w.after for other in waits))]
    last_chunks = [
        (w.after, min(Fraction(w.last, stages[w.after].chunks), Fraction(1)), time(w.after, w.last)) for w in ends
    ]
    cycles = [*finish, *(Fraction(load(p, ("fetch", "write", "operand"))) for p in ports if p.startswith("arrays"))]
    if any(s.vector_cycles for s in stages):
        work = [s.vector_cycles for s in stages]
        cycles.append(saturated(stages, waits, start, work, [0] * len(work), last_chunks, before_vector))
    for port in ("main", "buffer"):
        if port in ports:
            work = [load(port, ("fetch", "write"), i) for i in range(len(stages))]
            reads = [load(port, ("operand",), i) for i in range(len(stages))]
            cycles.append(saturated(stages, waits, start, work, reads, last_chunks, Fraction(0)))
    return max(cycles)


def saturated(
    stages: Sequence[Stage],
    waits: Sequence[Wait],
    start: Sequence[Fraction],
    work: Sequence[int],
    operand_reads: Sequence[int],
    last_chunks: Sequence[tuple[int, Fraction, Fraction]],
    first: Fraction,
) -> Fraction:
    """Row (9): all work of a resource and how long it idles: before its work arrives (H, at least ``first``), and while the
    stages that nothing waits for come to their end (Q; ``last_chunks``: stage, share of its work, time)."""
    idle_before = [first]
    for j in range(len(stages)):
        done = Fraction(sum(operand_reads[: j + 1]))
        for i, stage in enumerate(stages[:j]):
            needed = [stage.chunks if w.operand else w.first for w in waits if (w.before, w.after) == (i, j)]
            chunks = min(stage.chunks, max(needed)) if needed else stage.chunks
            done += Fraction(chunks * work[i], stage.chunks)
        idle_before.append(start[j] - done)
    idle_after = [Fraction(0), *(time - share * work[j] for j, share, time in last_chunks)]
    return sum(work) + sum(operand_reads) + max(idle_before) + max(idle_after)
