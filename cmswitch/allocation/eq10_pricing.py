"""Prices of segments by the published CMSwitch equations (cost model ``eq10``), and plans that carry them out.

``docs/plan-space.md`` states what is searched; the program is :mod:`formulations.eq10`. What the equations leave out (vector
work, main memory while a segment runs, room for data) is left out of the price and not of the plan: an outcome holds whole
copies and places with room for their tensors, within the arrays that the equations assign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import hw
from cmswitch.allocation.content import SegmentKey
from cmswitch.allocation.pricing import ROUNDING, Kept, Outcome, Price, Pricer
from cmswitch.allocation.segment import Home, Limits, Place, SegmentBuilder, home_of
from cmswitch.allocation.solving import Allocator
from cmswitch.costs.work import PieceWork
from cmswitch.costs.workload import Piece, Workload
from cmswitch.naming import quantity
from cmswitch.segmentation.plan import AssignedArrays, SharedArrays
from formulations.eq10 import (
    Eq10Allocation,
    Eq10Operator,
    Eq10Problem,
    Eq10Tensor,
    OperatorBound,
    bound_operator,
    bound_segment,
    evaluate_eq10,
)


@dataclass(frozen=True)
class Eq10SegmentCost:
    """T_seg, reload and write-back of a segment in cycles, and the allocation that attains them."""

    execute: Fraction
    reload: Fraction
    write_back: Fraction
    allocation: Eq10Allocation

    @property
    def total(self) -> Fraction:
        """The objective."""
        return self.execute + self.reload + self.write_back

    @property
    def compute_arrays(self) -> int:
        """Arrays that compute."""
        return self.allocation.compute_arrays

    @property
    def memory_arrays(self) -> int:
        """Arrays in memory mode, whatever they hold."""
        return self.allocation.memory_arrays


@dataclass(frozen=True)
class _Segment:
    """A segment's program; ``stages`` of its operators, ``tensors`` of its shared arrays, and the cycles of writing back."""

    problem: Eq10Problem
    works: tuple[PieceWork, ...]
    stages: tuple[int, ...]
    tensors: tuple[int, ...]
    write_back: Fraction


class Eq10Pricer(Pricer):
    """Prices by the published equations. One list of pieces, that of the whole chip, serves all limits."""

    cost_model = "eq10"
    simulation_decides = False
    bounded_by_roofline = False

    def __init__(
        self, builder: SegmentBuilder, limits: Limits, allocator: Allocator, resident_weights: bool = False
    ) -> None:
        super().__init__(builder, limits, allocator, resident_weights)
        operators = self.workload.network.operators
        cells = [operators[cell.operator].nodes for cell in self.workload.cells]
        self._continues = (False, *(before == after for before, after in pairwise(cells)))
        self._bounds: dict[tuple[Piece, bool], OperatorBound | None] = {}
        self._dropped: dict[Piece, tuple[tuple[int, int], ...]] = {}

    @classmethod
    def cutting_limit(cls, limits: Limits, chip: hw.Chip) -> int:
        """See :class:`Pricer`."""
        return chip.arrays

    @classmethod
    def warnings(cls, workload: Workload) -> list[str]:
        """See :class:`Pricer`."""
        vector_only = sum(grid is None for grid in workload.footprints)
        return [
            "cost model eq10: prediction and bound are the published equations, which count no vector work "
            f"(all that {quantity(vector_only, 'operator')} of the network would cost), no main memory while a "
            "segment runs, and neither the network's input nor its outputs; the simulation counts all of it"
        ]

    @property
    def homes(self) -> tuple[Home, ...]:
        """See :class:`Pricer`. The equations know no room in the buffer."""
        return ("arrays",) if self.limits.memory else ()

    def tighten(self, price: Price, should_stop: Callable[[], bool]) -> None:
        """See :class:`Pricer`. Nothing lies between the first bound and the optimum."""
        self.solve(price, should_stop)

    def solve(self, price: Price, should_stop: Callable[[], bool], upper: float = math.inf) -> None:
        """See :class:`Pricer`. Always to optimality: there is nothing to gain from ``upper``."""
        start = self.allocator.cpu_seconds()
        segment = self._describe(*price.representative, price.limits)
        built = self.allocator.cpu_seconds()
        allocation, bound = self.allocator.solve_eq10(segment.problem)
        self.allocator.journal.build += built - start
        self.allocator.journal.solve += self.allocator.cpu_seconds() - built
        self.allocator.journal.programs_solved += 1
        price.solved = price.tight = True
        price.bound = max(price.bound, (bound + float(segment.write_back)) * (1 - ROUNDING))
        if allocation is not None:
            cost = evaluate_eq10(segment.problem, allocation)
            price.exact = Eq10SegmentCost(cost.execute, cost.reload, segment.write_back, allocation)
            price.cost = float(price.exact.total)
            price.bound = min(price.bound, price.cost)
            self._pass_on(price)

    def price(self, first: int, last: int, kept: Kept, limits: Limits | None = None) -> Price:
        """See :class:`Pricer`. The bound on any set of kept tensors counts none of them as written back, this one does."""
        price = super().price(first, last, kept, limits)
        if not price.solved:
            extra = self._write_back(first, last, dict(kept)) - self._write_back(first, last, None)
            price.bound = max(price.bound, (self.relaxed(first, last).bound + float(extra)) * (1 - ROUNDING))
        return price

    def outcome(self, first: int, last: int, kept: Kept, price: Price) -> Outcome:
        """See :class:`Pricer`. Copies are whole; a tensor is in arrays if those assigned to it and to its users hold it."""
        assert isinstance(price.exact, Eq10SegmentCost)
        allocation, segment = price.exact.allocation, self._describe(first, last, kept, price.limits)
        number = {stage: i for i, stage in enumerate(segment.stages)}
        copies, compute, private = [], [], []
        for stage, work in enumerate(segment.works):
            i = number.get(stage)
            compute.append(0 if i is None else allocation.compute[i])
            private.append(0 if i is None else allocation.private[i])
            copies.append(0 if i is None else min(compute[-1] // len(work.tiles), work.rows))
        shared = dict(zip(segment.tensors, allocation.shared, strict=True))
        assigned = AssignedArrays(
            tuple(compute), tuple(private), tuple(SharedArrays(t, arrays) for t, arrays in shared.items() if arrays)
        )
        places = self._places(first, last, dict(kept), shared, private)
        return Outcome(segment.works, tuple(copies), places, price.exact.write_back, assigned)

    def problem(self, first: int, last: int) -> Eq10Problem:
        """The program of a segment across whose cuts nothing is kept."""
        return self._describe(first, last, (), self.limits).problem

    def _first_bound(self, price: Price) -> None:
        first, last, _ = price.representative
        pieces, free, dropped = self.workload.pieces(first, last), self._reload_free(first, last), 0
        for piece in pieces:
            dropped += sum(size for last_use, size in self._never_kept(piece) if last_use > last)
        alone = (self._bound(piece, free) for piece in pieces)
        bound = bound_segment(b for b in alone if b) + float(dropped / self.workload.chip.main_memory.bandwidth)
        price.bound = (1 - ROUNDING) * bound

    def _bound(self, piece: Piece, reload_free: bool) -> OperatorBound | None:
        """What a piece costs at least, whatever tensors are kept (None: no matrix product)."""
        key = (piece, reload_free)
        if key not in self._bounds:
            work = self.builder.work(piece)
            self._bounds[key] = None
            if work.grid is not None:
                touched = {m.tensor for m in (*work.reads, *work.writes)}
                held = sum(home_of(self.workload, t, "arrays").arrays for t in touched if self._could_be_kept(t))
                group = 0 if work.dynamic or not reload_free else None
                operator = self._operator(work, group, held)
                self._bounds[key] = bound_operator(self._problem((operator,), (), 0, self.limits), operator)
        return self._bounds[key]

    def _never_kept(self, piece: Piece) -> tuple[tuple[int, int], ...]:
        """Last use and bytes of what a piece writes and no arrays could keep."""
        if piece not in self._dropped:
            writes = [m for m in self.builder.work(piece).writes if not self._could_be_kept(m.tensor)]
            self._dropped[piece] = tuple((self.workload.last_use[m.tensor], m.bytes) for m in writes)
        return self._dropped[piece]

    def _key(self, first: int, last: int, kept: Mapping[int, Home]) -> SegmentKey:
        """Segments of equal content are equal to the equations if the same operators are parts of one."""
        return (self._keys.key(first, last, kept), self._continues[first + 1 : last])

    # -- the program -----------------------------------------------------------------------------------------------

    def _describe(self, first: int, last: int, kept: Kept | None, limits: Limits) -> _Segment:
        """The program of a segment with ``kept`` tensors (None: with all that could be kept, at no cost of room)."""
        chip, workload = self.workload.chip, self.workload
        works = tuple(self.builder.work(p) for p in workload.pieces(first, last))
        homes = {} if kept is None else {t: home_of(workload, t, h) for t, h in kept}
        held_arrays = sum(place.arrays for place in homes.values())
        touched = [{m.tensor for m in (*work.reads, *work.writes)} for work in works]
        if kept is None:
            homes = {t: home_of(workload, t, "arrays") for t in set().union(*touched) if self._keepable(t, last, works)}
        stages = tuple(stage for stage, work in enumerate(works) if work.grid is not None)
        groups: dict[tuple[str, ...], int] = {}
        operators = []
        for work, own in ((works[stage], touched[stage]) for stage in stages):
            written = work.dynamic or not self._reload_free(first, last)
            group = groups.setdefault(work.operator.nodes, len(groups)) if written else None
            operators.append(self._operator(work, group, sum(homes[t].arrays for t in own if t in homes)))
        tensors, shareable = [], []
        for tensor, size in self._made_and_read(works).items():
            users = tuple(i for i, stage in enumerate(stages) if tensor in touched[stage])
            if tensor not in homes and users:
                tensors.append(tensor)
                shareable.append(Eq10Tensor(users, -(-size // chip.array_bytes) if limits.memory else 0))
        problem = self._problem(tuple(operators), tuple(shareable), held_arrays, limits)
        write_back = self._write_back(first, last, None if kept is None else dict(kept))
        return _Segment(problem, works, stages, tuple(tensors), write_back)

    def _operator(self, work: PieceWork, group: int | None, held: int) -> Eq10Operator:
        product = work.operator.product
        assert product is not None
        return Eq10Operator(
            rows=product.rows,
            reduction=product.inner * product.groups,
            row_cycles=work.row_cycles,
            arrays=self.workload.arrays(work.piece),
            group=group,
            held=held,
        )

    def _problem(
        self, operators: tuple[Eq10Operator, ...], tensors: tuple[Eq10Tensor, ...], held_arrays: int, limits: Limits
    ) -> Eq10Problem:
        chip = self.workload.chip
        inputs_per_byte = Fraction(8, chip.precision.input_bits)
        return Eq10Problem(
            operators=operators,
            tensors=tensors,
            arrays=chip.arrays - held_arrays,
            array_bandwidth=chip.modes.bandwidth * inputs_per_byte,
            other_bandwidth=chip.buffer.bandwidth * inputs_per_byte,
            write_cycles=chip.array_write_cycles(chip.array.rows),
            compute_limit=limits.compute,
            memory_limit=limits.memory - held_arrays,
        )

    def _made_and_read(self, works: Iterable[PieceWork]) -> dict[int, int]:
        """Tensors that one piece writes and another reads, in the order in which they are written, and the bytes written."""
        works = tuple(works)
        read = {m.tensor for work in works for m in work.reads if not m.earlier}
        return {m.tensor: m.bytes for work in works for m in work.writes if m.tensor in read}

    def _could_be_kept(self, tensor: int) -> bool:
        """Whether an operator makes the tensor and the memory-mode arrays hold it."""
        if self.workload.network.tensors[tensor].producer is None or not self.limits.memory:
            return False
        return home_of(self.workload, tensor, "arrays").arrays <= self.limits.memory

    def _keepable(self, tensor: int, last: int, works: Iterable[PieceWork]) -> bool:
        """Whether a tensor that the segment touches could be kept: it comes from an earlier segment or is read in a later one."""
        producer = self.workload.network.tensors[tensor].producer
        whole = any(w.piece.operator == producer and self.workload.is_whole(w.piece) for w in works)
        return self._could_be_kept(tensor) and (not whole or self.workload.last_use[tensor] > last)

    def _write_back(self, first: int, last: int, kept: Mapping[int, Home] | None) -> Fraction:
        """Cycles of moving to main memory what later segments read and is not kept (None: whatever could be kept is)."""
        works = [self.builder.work(p) for p in self.workload.pieces(first, last)]
        size = sum(
            moved.bytes
            for work in works
            for moved in work.writes
            if self.workload.last_use[moved.tensor] > last
            and (not self._keepable(moved.tensor, last, works) if kept is None else moved.tensor not in kept)
        )
        return size / self.workload.chip.main_memory.bandwidth

    # -- the plan --------------------------------------------------------------------------------------------------

    def _places(
        self, first: int, last: int, kept: Mapping[int, Home], shared: Mapping[int, int], private: list[int]
    ) -> dict[int, Place]:
        """Where tensors are: in the arrays assigned to them and to their users, else in the buffer while there is room."""
        segment = self.builder.build(first, last, kept, self.limits)
        room = self.workload.chip.buffer.capacity_bytes
        left, places = list(private), dict(segment.kept)
        for options in segment.choices:
            tensor = options[0].tensor
            if tensor in kept:
                continue
            users = [s for s, w in enumerate(segment.works) if any(m.tensor == tensor for m in (*w.reads, *w.writes))]
            arrays = shared.get(tensor, 0) + sum(left[s] for s in users)
            in_arrays = next((p for p in options if p.where == "arrays"), None)
            in_buffer = next((p for p in options if p.where == "buffer"), None)
            if in_arrays is not None and in_arrays.arrays <= arrays:
                places[tensor] = replace(in_arrays, arrays=arrays)
                for stage in users:
                    left[stage] = 0
            elif in_buffer is not None and in_buffer.bytes <= room:
                places[tensor] = in_buffer
                room -= in_buffer.bytes
        return places
