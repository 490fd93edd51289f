"""What the timing of a segment depends on: whole cycles and small numbers, no names, addresses or bytes.

Segments that are equal after renaming tensors, operators, arrays and addresses give equal problems, so one simulation
serves them all.
"""

from __future__ import annotations

from dataclasses import dataclass

MAIN, BUFFER, FIRST_ARRAYS = 0, 1, 2
"""Port numbers: main memory, buffer, then the memory-mode arrays of each tensor in order of first use."""


@dataclass(frozen=True)
class Move:
    """``cycles`` (at least 1) on ``port``. ``awaited``: consumers wait for it, so it is the first target of an output."""

    port: int
    cycles: int
    awaited: bool = True


@dataclass(frozen=True)
class Tile:
    """A tile to write: ``read`` cycles on ``port``, and ``write`` cycles of a write driver for each of ``copies`` arrays."""

    port: int
    read: int
    write: int
    copies: int


@dataclass(frozen=True)
class Input:
    """A dependence on stage ``producer``: before chunk ``c``, ``need(c) = ceil((numerator c + offset) / denominator)``.

    ``window``: chunks of the tensor that fit on chip, None for all.
    """

    producer: int
    numerator: int
    denominator: int
    offset: int
    span: int
    window: int | None


@dataclass(frozen=True)
class StageProblem:
    """One operator: cycles per chunk of each stage, its copies and what it waits for.

    ``copies`` holds the arrays of each copy (empty: vector-only), ``depth`` the chunks between two stages, ``operand`` the
    tiles to write once stage ``operand_after`` has finished. ``recurrent``: a chunk is fetched once the one before is written.
    """

    chunks: int
    fetch: tuple[Move, ...]
    inputs: tuple[Input, ...]
    rows: int
    row_cycles: int
    copies: tuple[int, ...]
    depth: int
    vector: int
    write: tuple[Move, ...]
    operand: tuple[Tile, ...]
    operand_after: int | None
    recurrent: bool = False


@dataclass(frozen=True)
class SegmentProblem:
    """One segment. ``store`` lists the moves of its store phase, ``reload`` its tiles, ``stages`` what it executes,
    ``write_drivers`` the arrays that are written at once.

    Switching is left out: it takes a constant time and nothing else depends on it.
    """

    store: tuple[Move, ...]
    reload: tuple[Tile, ...]
    stages: tuple[StageProblem, ...]
    write_drivers: int
