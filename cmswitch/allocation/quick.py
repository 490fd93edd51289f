"""Bounds of all segments that begin at a cell, each in constant time: from what every operator takes alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cmswitch.allocation.pricing import ROUNDING
from cmswitch.allocation.segment import SegmentBuilder
from cmswitch.costs.workload import Piece


@dataclass(frozen=True)
class _Alone:
    """Cycles of pieces whatever else is in their segment.

    ``reads`` of weights; ``writing`` one copy; ``vector`` work; ``longest``: the MVMs of one of them with as many copies as fit;
    ``traded``: the least that MVMs and writing further copies of one of them take together.
    """

    arrays: int = 0
    reads: float = 0.0
    writing: float = 0.0
    vector: float = 0.0
    longest: float = 0.0
    traded: float = 0.0

    def __add__(self, other: _Alone) -> _Alone:
        return _Alone(
            self.arrays + other.arrays,
            self.reads + other.reads,
            self.writing + other.writing,
            self.vector + other.vector,
            max(self.longest, other.longest),
            max(self.traded, other.traded),
        )

    @property
    def bound(self) -> float:
        """Cycles that a segment of these pieces takes at least."""
        run = max(self.vector, self.longest) + max(self.reads, self.writing)
        return (1 - ROUNDING) * max(run, self.traded + self.writing)


class QuickBounds:
    """Bounds for at most ``compute_arrays`` arrays in compute mode."""

    def __init__(self, builder: SegmentBuilder, compute_arrays: int) -> None:
        self._builder, self._compute_arrays = builder, compute_arrays
        self._alone: dict[Piece, _Alone] = {}
        self._from: dict[int, list[float]] = {}

    def of(self, first: int, last: int) -> float:
        """A bound on the segment of cells ``first`` to ``last`` (exclusive); infinite if its operators do not fit together."""
        if first not in self._from:
            self._from[first] = list(self._grow(first))
        bounds = self._from[first]
        return bounds[last - first - 1] if last - first <= len(bounds) else math.inf

    def _grow(self, first: int) -> Iterator[float]:
        """The bounds of one cell, two cells and so on, while they fit."""
        whole, piece = _Alone(), None
        for cell in self._builder.workload.cells[first:]:
            if piece is not None and piece.operator == cell.operator:
                piece = replace(piece, last_block=cell.last_block)
            else:
                whole += self._piece(piece) if piece is not None else _Alone()
                piece = cell
            total = whole + self._piece(piece)
            if total.arrays > self._compute_arrays:
                return
            yield total.bound

    def _piece(self, piece: Piece) -> _Alone:
        if piece not in self._alone:
            builder, workload = self._builder, self._builder.workload
            work = builder.work(piece)
            multiply = work.rows * work.row_cycles
            reads = one = 0.0
            if not work.dynamic:
                for (_, write, read), count in builder.weight_tiles(work).items():
                    reads += count * read
                    one -= count * write / workload.chip.array.arrays_written_at_once
            arrays = workload.arrays(piece)
            most = max(1, min(self._compute_arrays // max(1, arrays), work.rows))
            copies = min(max(1.0, math.sqrt(multiply / one)), most) if one else most
            traded = multiply / copies + one * (copies - 1)
            self._alone[piece] = _Alone(arrays, reads, one, work.vector_cycles, multiply / most, traded)
        return self._alone[piece]
