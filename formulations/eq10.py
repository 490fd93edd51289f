r"""Segment allocation as CMSwitch publishes it (arXiv 2502.17006): its data, exact cost, and exact optimum without a solver.

The equations are those of :mod:`formulations.throughput`, the same problem as a program; :mod:`formulations.literal` is the
program as it was published.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from heapq import heapify, heapreplace
from math import ceil, floor, isqrt

from formulations.stagetime import ceil_div

Rational = Fraction | int


@dataclass(frozen=True)
class Eq10Operator:
    """``rows`` M, ``reduction`` N, ``row_cycles`` tau, ``arrays`` a of one copy.

    ``group``: which operator it is a piece of (None: its operand is in the arrays already, nothing is written); ``held`` h.
    """

    rows: int
    reduction: int
    row_cycles: int
    arrays: int
    group: int | None
    held: int = 0

    @property
    def work(self) -> int:
        """Cycles on one array."""
        return self.rows * self.row_cycles * self.arrays

    @property
    def traffic(self) -> int:
        """Inputs that it fetches."""
        return self.rows * self.reduction


@dataclass(frozen=True)
class Eq10Tensor:
    """``users``: numbers of the operators that write or read it; ``arrays``: what holds it."""

    users: tuple[int, ...]
    arrays: int


@dataclass(frozen=True)
class Eq10Problem:
    """One segment. Bandwidths in inputs/cycle, ``write_cycles`` per array (0: nothing to write).

    ``compute_limit`` and ``memory_limit`` bound the arrays in each mode (None: all ``arrays``).
    """

    operators: tuple[Eq10Operator, ...]
    tensors: tuple[Eq10Tensor, ...]
    arrays: int
    array_bandwidth: Rational
    other_bandwidth: Rational
    write_cycles: int
    compute_limit: int | None = None
    memory_limit: int | None = None

    @property
    def most_compute(self) -> int:
        """Arrays that may compute."""
        return self.arrays if self.compute_limit is None else min(self.arrays, self.compute_limit)

    @property
    def most_memory(self) -> int:
        """Arrays that may be in memory mode."""
        return self.arrays if self.memory_limit is None else min(self.arrays, self.memory_limit)

    def rate(self, operator: Eq10Operator, arrays: int) -> Rational:
        """Inputs per cycle of an operator with ``arrays`` memory arrays besides the held ones."""
        return self.array_bandwidth * (operator.held + arrays) + self.other_bandwidth


@dataclass(frozen=True)
class Eq10Allocation:
    """``compute`` and ``private`` arrays of each operator, ``shared`` arrays of each tensor."""

    compute: tuple[int, ...]
    private: tuple[int, ...]
    shared: tuple[int, ...]

    @property
    def compute_arrays(self) -> int:
        """Arrays in compute mode."""
        return sum(self.compute)

    @property
    def memory_arrays(self) -> int:
        """Arrays in memory mode."""
        return sum(self.private) + sum(self.shared)


@dataclass(frozen=True)
class Eq10Cost:
    """Cycles of the segment by (9) and of its reload by (2)."""

    execute: Fraction
    reload: Fraction

    @property
    def total(self) -> Fraction:
        """The objective."""
        return self.execute + self.reload


def evaluate_eq10(problem: Eq10Problem, allocation: Eq10Allocation) -> Eq10Cost:
    """Exact cost of ``allocation``. ValueError, naming the constraint, if it violates one."""
    compute_arrays, memory_arrays = allocation.compute_arrays, allocation.memory_arrays
    for name, used, most in (
        ("", compute_arrays + memory_arrays, problem.arrays),
        ("compute ", compute_arrays, problem.most_compute),
        ("memory ", memory_arrays, problem.most_memory),
    ):
        if used > most:
            raise ValueError(f"(8) {name}arrays: {used} used, {most} available")
    for e, (tensor, arrays) in enumerate(zip(problem.tensors, allocation.shared, strict=True)):
        if not 0 <= arrays <= tensor.arrays:
            raise ValueError(f"(6)(7) tensor {e}: {arrays} arrays are not within 0 .. {tensor.arrays}")
    times, groups = [Fraction(0)], dict[int, int]()
    for i, op in enumerate(problem.operators):
        compute, memory = allocation.compute[i], allocation.private[i] + _shared_by(problem, allocation.shared, i)
        if compute < op.arrays or allocation.private[i] < 0:
            raise ValueError(f"(8) operator {i}: {compute} compute arrays, one copy takes {op.arrays}")
        rate = problem.rate(op, memory)
        if rate <= 0:
            raise ValueError(f"(10) operator {i} has no bandwidth")
        times += [Fraction(op.work, compute), Fraction(op.traffic) / rate]
        if op.group is not None:
            groups[op.group] = groups.get(op.group, 0) + compute
    return Eq10Cost(max(times), Fraction(problem.write_cycles * max(groups.values(), default=0)))


def _shared_by(problem: Eq10Problem, shared: tuple[int, ...], i: int) -> int:
    return sum(s for tensor, s in zip(problem.tensors, shared, strict=True) if i in tensor.users)


@dataclass(frozen=True)
class OperatorBound:
    """Least cycles of one operator: its share of all compute arrays, alone on the chip, its reload, and the last two together."""

    share: float
    alone: float
    reload: float
    joint: float


def bound_operator(problem: Eq10Problem, op: Eq10Operator) -> OperatorBound:
    """What ``op`` takes at least in any segment on the arrays of ``problem``."""
    rate, most = problem.rate(op, max(0, problem.most_memory)), max(op.arrays, problem.most_compute)
    alone = max(op.work / most, float(op.traffic / rate) if rate > 0 else 0.0)
    if op.group is None:
        return OperatorBound(op.work / most, alone, 0.0, alone)
    joint = 2.0 * isqrt(problem.write_cycles * op.work)  # least work / c + w c
    return OperatorBound(op.work / most, alone, float(problem.write_cycles * op.arrays), joint)


def bound_segment(operators: Iterable[OperatorBound]) -> float:
    """A lower bound on the cycles of a segment of such operators, up to rounding."""
    together = alone = reload = joint = 0.0
    for op in operators:
        together += op.share
        alone = max(alone, op.alone)
        reload = max(reload, op.reload)
        joint = max(joint, op.joint)
    return max(max(together, alone) + reload, joint)


# -- exact, without a solver -----------------------------------------------------------------------------------------------


def solve_eq10_combinatorial(problem: Eq10Problem) -> tuple[Eq10Allocation, Eq10Cost] | None:
    """Optimum, or None if one copy of each operator does not fit.

    The least T is found by bisection; with fewer arrays to reload T only grows, from one value at which the largest group
    shrinks to the next.
    """
    fastest = _least_time(problem)
    if fastest is None:
        return None
    allocation = _fit(problem, _best_time(problem, fastest))
    assert allocation is not None
    return allocation, evaluate_eq10(problem, allocation)


def _least_time(problem: Eq10Problem) -> Fraction | None:
    """The least T that some allocation attains; None if there is no allocation."""
    high = Fraction(0)
    for op in problem.operators:
        rate = problem.rate(op, 0) or problem.array_bandwidth
        if not rate:
            return None
        high = max(high, Fraction(op.work, op.arrays), Fraction(op.traffic) / rate)
    slowest = _fit(problem, high) if high else Eq10Allocation((), (), ())
    if slowest is None:
        return None
    high, low = evaluate_eq10(problem, slowest).execute, Fraction(0)
    while (below := _time_below(problem, high)) > low:
        middle = Fraction((float(low) + float(high)) / 2)
        tried = min(below, middle) if middle > low else below
        found = _fit(problem, tried)
        if found is None:
            low = tried
        else:
            high = evaluate_eq10(problem, found).execute
    return high


def _time_below(problem: Eq10Problem, time: Fraction) -> Fraction:
    """The largest value below ``time`` that a term of (10) can take, 0 if there is none."""
    below = Fraction(0)
    for op in problem.operators:
        if op.work and time:
            compute = max(op.arrays, op.work * time.denominator // time.numerator + 1)
            if compute <= problem.most_compute:
                below = max(below, Fraction(op.work, compute))
        if op.traffic and time and problem.array_bandwidth:
            missing = (op.traffic / time - problem.rate(op, 0)) / problem.array_bandwidth
            memory = max(0, floor(missing) + 1)
            if memory <= problem.most_memory:
                below = max(below, Fraction(op.traffic) / problem.rate(op, memory))
        elif op.traffic and time and (fetch := Fraction(op.traffic) / problem.rate(op, 0)) < time:
            below = max(below, fetch)
    return below


def _best_time(problem: Eq10Problem, fastest: Fraction) -> Fraction:
    """The T from ``fastest`` on that is cheapest together with the reload of the fewest arrays that meet it."""
    groups: dict[int, list[Eq10Operator]] = {}
    for op in problem.operators:
        if op.group is not None:
            groups.setdefault(op.group, []).append(op)
    if not groups or not problem.write_cycles:
        return fastest
    time = best = fastest
    least = max(sum(op.arrays for op in group) for group in groups.values())
    sizes = [(-sum(_compute(op, time) for op in group), name) for name, group in groups.items()]
    heapify(sizes)  # by the sizes at earlier times, which only shrink
    cheapest = None
    while True:
        size, name = sizes[0]
        now = sum(_compute(op, time) for op in groups[name])
        if now < -size:
            heapreplace(sizes, (-now, name))
            continue
        if cheapest is None or time + problem.write_cycles * now < cheapest:
            best, cheapest = time, time + problem.write_cycles * now
        smaller = [Fraction(op.work, c - 1) for op in groups[name] if (c := _compute(op, time)) > op.arrays]
        if not smaller or min(smaller) + problem.write_cycles * least >= cheapest:
            return best
        time = min(smaller)


def _compute(op: Eq10Operator, time: Fraction) -> int:
    """The fewest compute arrays with which an operator meets ``time``."""
    return max(op.arrays, ceil_div(op.work * time.denominator, time.numerator) if op.work else 0)


def _fit(problem: Eq10Problem, time: Fraction) -> Eq10Allocation | None:
    """The fewest arrays with which every operator meets ``time``; None if they are too many."""
    compute = tuple(_compute(op, time) for op in problem.operators)
    room = min(problem.arrays - sum(compute), problem.most_memory)
    if room < 0 or sum(compute) > problem.most_compute:
        return None
    needs = []
    for op in problem.operators:
        missing = Fraction(op.traffic) / time - problem.rate(op, 0) if op.traffic else Fraction(0)
        if missing > 0 and not problem.array_bandwidth:
            return None
        needs.append(ceil(missing / problem.array_bandwidth) if missing > 0 else 0)
    most_users = max((len(tensor.users) for tensor in problem.tensors), default=1)
    if max(needs, default=0) > room or sum(needs) > room * most_users:
        return None
    shared = _share(problem.tensors, tuple(needs)) if any(needs) else (0,) * len(problem.tensors)
    private = tuple(max(0, need - _shared_by(problem, shared, i)) for i, need in enumerate(needs))
    return Eq10Allocation(compute, private, shared) if sum(private) + sum(shared) <= room else None


def _share(tensors: tuple[Eq10Tensor, ...], needs: tuple[int, ...]) -> tuple[int, ...]:
    """Shared arrays per tensor that save most: an array of a tensor serves all of its users that still need one.

    Recursion over the tensors on the needs that later tensors can still serve. A user that no later tensor serves would
    take a private array otherwise, so a shared one in its place costs no more; only beyond that there is a choice.
    """
    later = [{i for tensor in tensors[e + 1 :] for i in tensor.users} for e in range(len(tensors))]

    @cache
    def best(e: int, left: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        if e == len(tensors):
            return 0, ()
        users, capacity = tensors[e].users, tensors[e].arrays
        least = min(capacity, max((left[i] for i in users if i not in later[e]), default=0))
        wanted = sorted((left[i] for i in users), reverse=True)
        most = max(least, min(capacity, wanted[1] if len(wanted) > 1 else 0))
        found: tuple[int, tuple[int, ...]] | None = None
        for amount in range(most, least - 1, -1):
            saved = sum(min(left[i], amount) for i in users) - amount
            rest = tuple(
                0 if i not in later[e] else max(0, need - amount) if i in users else need for i, need in enumerate(left)
            )
            more, amounts = best(e + 1, rest)
            if found is None or saved + more > found[0]:
                found = saved + more, (amount, *amounts)
        assert found is not None
        return found

    return best(0, needs)[1]
