"""The cycles of one stage for a given number of copies, and its traffic, in exact integers.

The formulas every solver of the segment problem starts from. Equation numbers are those of
:mod:`formulations.allocation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from formulations.segment import Action, Port, SegmentProblem, StageData, Use


def ceil_div(a: int, b: int) -> int:
    """``ceil(a / b)`` of integers, ``b > 0``."""
    return -(-a // b)


def mvm_cycles(stage: StageData, copies: int) -> int:
    """(5) Cycles of all MVMs on ``copies`` copies: ``ceil(M / d) tau``; 0 if the stage is vector-only.

    The chunks of a recurrent stage do not overlap: ``C`` times the first one.
    """
    if stage.recurrent:
        return stage.chunks * first_chunk_cycles(stage, copies)
    return ceil_div(stage.rows, copies) * stage.row_cycles if stage.arrays else 0


def first_chunk_cycles(stage: StageData, copies: int) -> int:
    """(8) Cycles of the MVMs of the first chunk: ``ceil(ceil(M / C) / d) tau``; 0 if the stage is vector-only."""
    return ceil_div(ceil_div(stage.rows, stage.chunks), copies) * stage.row_cycles if stage.arrays else 0


def operand_write_cycles(stage: StageData, copies: int, write_drivers: int) -> int:
    """(8) Cycles of writing a dynamic operand into every copy: ``max(w, ceil(W d / P))``."""
    return max(stage.write_cycles, ceil_div(stage.copy_write_cycles * copies, write_drivers))


def reloaded(problem: SegmentProblem) -> list[int]:
    """Stages whose weights the reload phase writes: all with arrays but those whose operand arises in the segment."""
    return [i for i, stage in enumerate(problem.stages) if stage.arrays and not stage.operand_in_segment]


def reload_cycles(problem: SegmentProblem, copies: tuple[int, ...]) -> Fraction:
    """(10) Cycles of the reload phase for the given copies of each stage."""
    writing = sum(problem.stages[i].copy_write_cycles * copies[i] for i in reloaded(problem))
    return max(Fraction(problem.reload_cycles), Fraction(writing, problem.write_drivers))


@dataclass
class Traffic:
    """Cycles of traffic by (stage, action, port); the port ``arrays`` of tensor e appears as ``arrays:e``."""

    cycles: dict[tuple[int, Action, str], int] = field(default_factory=dict)

    def add(self, uses: Iterable[Use], tensor: int | None) -> None:
        """Add ``uses`` of ``tensor`` (None: fixed traffic). ValueError for fixed traffic on the port of no tensor."""
        for use in uses:
            key = (use.stage, use.action, port_name(use.port, tensor))
            self.cycles[key] = self.cycles.get(key, 0) + use.cycles


class Loads:
    """(6) The traffic of an allocation, by stage and port."""

    def __init__(self, problem: SegmentProblem, traffic: Traffic) -> None:
        self._by_action: dict[tuple[int, str], dict[str, int]] = {}
        self._streamed: list[dict[str, int]] = [{} for _ in problem.stages]
        self._operand: list[dict[str, int]] = [{} for _ in problem.stages]
        for (i, action, port), cycles in traffic.cycles.items():
            self._by_action.setdefault((i, action), {})[port] = cycles
            own = self._operand[i] if action == "operand" else self._streamed[i]
            own[port] = own.get(port, 0) + cycles

    def longest(self, i: int, action: str) -> int:
        """Cycles of ``action``, whose moves run in parallel on distinct ports."""
        return max(self._by_action.get((i, action), {}).values(), default=0)

    def shared(self, port: str) -> tuple[list[int], list[int]]:
        """Cycles of each stage on ``port``: streaming, and reading its operand."""
        return [own.get(port, 0) for own in self._streamed], [own.get(port, 0) for own in self._operand]

    def ports(self, i: int) -> list[int]:
        """(7) What stage i waits for on each port that it streams over: its own load, for arrays that of all users."""
        return [
            sum(self.shared(port)[0]) if port.startswith("arrays:") else cycles
            for port, cycles in self._streamed[i].items()
        ]

    def array_totals(self) -> list[int]:
        """Cycles on the port of the arrays of each tensor."""
        ports = {port for own in (*self._streamed, *self._operand) for port in own if port.startswith("arrays:")}
        return [sum(map(sum, self.shared(port))) for port in sorted(ports)]


@dataclass(frozen=True)
class StageTiming:
    """Times of one stage for given copies and traffic: ``moved`` v of one chunk, ``first`` MVM cycles of the first chunk, ``mvm``
    cycles of all MVMs, ``other`` L, how long everything else keeps it busy."""

    chunks: int
    moved: Fraction
    first: int
    mvm: int
    other: Fraction

    @property
    def latency(self) -> Fraction:
        """(8) ``lambda``: cycles of one chunk."""
        return self.moved + self.first

    def pace(self, chunks: int) -> Fraction:
        """(8) ``t(n)``: cycles of ``chunks`` successive chunks."""
        return max(
            self.latency + Fraction(chunks - 1, self.chunks) * self.other,
            self.moved + Fraction(chunks * self.mvm, self.chunks),
        )


def stage_timing(stage: StageData, copies: int, loads: Loads, i: int) -> StageTiming:
    """(5), (7), (8) Times of ``stage``, number i of its problem, with ``copies`` under the traffic ``loads``."""
    moved = Fraction(loads.longest(i, "fetch") + stage.vector_cycles + loads.longest(i, "write"), stage.chunks)
    first = first_chunk_cycles(stage, copies)
    other = Fraction(max(stage.vector_cycles, *loads.ports(i), 0))
    if stage.recurrent:
        other = max(other, stage.chunks * (moved + first))
    return StageTiming(stage.chunks, moved, first, mvm_cycles(stage, copies), other)


def port_name(port: Port, tensor: int | None) -> str:
    """Name of a physical port: ``main``, ``buffer``, or ``arrays:e`` for the memory-mode arrays of tensor e."""
    if port != "arrays":
        return port
    if tensor is None:
        raise ValueError("fixed traffic cannot use port 'arrays': give the tensor a single placement instead")
    return f"arrays:{tensor}"


def check_problem(problem: SegmentProblem) -> None:
    """ValueError if ``problem`` is not well formed (stage indices, order of dependences, copies, placements, signs)."""
    count = len(problem.stages)
    if count == 0:
        raise ValueError("a segment has at least one stage")
    if problem.write_drivers < 1:
        raise ValueError(f"write_drivers must be at least 1, not {problem.write_drivers}")
    for i, stage in enumerate(problem.stages):
        if stage.chunks < 1:
            raise ValueError(f"stage {i}: chunks must be at least 1, not {stage.chunks}")
        if not stage.copies or any(a >= b for a, b in zip(stage.copies, stage.copies[1:], strict=False)):
            raise ValueError(f"stage {i}: copies must be ascending and not empty, not {stage.copies}")
        if (
            (stage.copies == (0,)) != (stage.arrays == 0)
            or stage.copies[0] < 0
            or (stage.arrays and not stage.copies[0])
        ):
            raise ValueError(f"stage {i}: {stage.arrays} arrays do not go with copies {stage.copies}")
    for e, placements in enumerate(problem.tensors):
        if not placements:
            raise ValueError(f"tensor {e} has no placement")
    for use in [*problem.fixed, *(u for places in problem.tensors for place in places for u in place.uses)]:
        if not 0 <= use.stage < count or use.cycles < 0:
            raise ValueError(f"bad traffic {use}")
    for dep in problem.dependences:
        if not 0 <= dep.before < dep.after < count:
            raise ValueError(f"{dep} is not in topological order")
        if dep.first < 1 or dep.last < 1:
            raise ValueError(f"{dep}: first and last count chunks and are at least 1")
    Traffic().add(problem.fixed, None)
