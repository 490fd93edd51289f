"""The data of a segment allocation problem (machine model), without Pyomo; :mod:`formulations.evaluate` costs it.

Numbers only: whoever builds a :class:`SegmentProblem` has already turned operators and a chip into cycles, bytes and
arrays. All times are integer cycles over all chunks of an operator unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Port = Literal["main", "buffer", "arrays"]
Action = Literal["fetch", "write", "operand"]


@dataclass(frozen=True)
class Use:
    """Traffic of one stage on one port: ``cycles`` over all its chunks. ``operand``: the read of a dynamic operand."""

    stage: int
    action: Action
    port: Port
    cycles: int


@dataclass(frozen=True)
class Placement:
    """One way to place a tensor: the memory-mode arrays and buffer bytes it takes, and the traffic that results.

    Uses with port ``arrays`` go to this tensor's own arrays (one port, shared by all of its users).
    """

    label: str
    arrays: int
    buffer_bytes: int
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class StageData:
    """One operator i of the segment.

    ``arrays`` a_i for one copy (0: vector-only); ``rows`` M_i; ``row_cycles`` tau_i of one MVM; ``chunks`` C_i;
    ``vector_cycles`` V_i on the vector unit over all chunks; ``copies`` the candidate numbers of copies, ascending ((0,) if
    vector-only). Writing one copy takes ``copy_write_cycles`` W_i on one write driver, its longest tile ``write_cycles`` w_i;
    ``operand_in_segment``: the operand is dynamic and its producer is in the segment, so its writing belongs to the execution
    and not to the reload. ``recurrent``: a chunk starts when the one before has been written.
    """

    arrays: int
    rows: int
    row_cycles: int
    chunks: int
    vector_cycles: int
    copies: tuple[int, ...]
    write_cycles: int
    copy_write_cycles: int
    operand_in_segment: bool = False
    recurrent: bool = False


@dataclass(frozen=True)
class Dependence:
    """Stage ``after`` depends, directly or through others, on stage ``before``.

    ``first``: chunks of ``before`` that must be available before the first chunk of ``after`` (composed over the path);
    ``last``: chunks of ``after`` that need the last chunk of ``before``; ``between``: stages strictly between on that path, whose
    chunk latency adds. ``operand``: direct, through a dynamic operand (everything of ``before``, then the writing).
    """

    before: int
    after: int
    first: int
    last: int
    between: tuple[int, ...] = ()
    operand: bool = False


@dataclass(frozen=True)
class SegmentProblem:
    """Allocate arrays to the stages and tensors of one segment so that execution plus reload is shortest.

    ``compute_arrays`` and ``memory_arrays`` bound the arrays in each mode, ``total_arrays`` their sum (tensors kept across the
    segment are already subtracted from all of them); ``buffer_bytes`` is what the segment may use of the buffer;
    ``write_drivers`` arrays are written at once; ``reload_cycles`` is what the reload phase takes with one copy of everything and
    as many write drivers as tiles. ``fixed`` is traffic that no choice changes. ``tensors`` lists the placements of each tensor
    that has a choice.
    """

    stages: tuple[StageData, ...]
    tensors: tuple[tuple[Placement, ...], ...]
    dependences: tuple[Dependence, ...]
    fixed: tuple[Use, ...]
    total_arrays: int
    compute_arrays: int
    memory_arrays: int
    buffer_bytes: int
    write_drivers: int
    reload_cycles: int


@dataclass(frozen=True)
class SegmentAllocation:
    """A choice: copies of each stage (0 for vector-only) and the index of each tensor's placement."""

    copies: tuple[int, ...]
    placements: tuple[int, ...]
