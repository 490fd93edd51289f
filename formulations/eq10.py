r"""Segment allocation as CMSwitch publishes it (arXiv 2502.17006), in throughput form, exact and small.

Sets
    i operators (or pieces of one), g groups of pieces of one operator, e tensors with their users in the segment
Data
    M_i rows, N_i reduction length, tau_i cycles of one MVM, a_i arrays of one copy, A arrays, cap_e arrays that hold tensor e,
    D_c bytes/cycle of a memory-mode array, D_m of the rest of the chip, w cycles of writing one array
Variables (whole arrays)
    Com_i >= a_i compute arrays, s_e <= cap_e memory arrays of tensor e shared by all its users, p_i private memory arrays

    minimise  T + w max_g sum_{i in g} Com_i                                       (9), (2)  [cycles]
    T >= M_i tau_i a_i / Com_i ;  T >= M_i N_i / (D_c Mem_i + D_m)                 (10)
    Mem_i = p_i + sum_{e used by i} s_e
    sum_i Com_i + sum_e s_e + sum_i p_i <= A                                       (8)

``s_e`` and ``p_i`` replace the per-coordinate binaries and H_ij of (6) and (7): an array holds one tensor, so at a join the
shared arrays of different tensors are different arrays. With r = 1/T the rows of (10) are linear, and T >= 1/r is
approached by tangents T >= 2/r_k - r/r_k^2, added until the model's T is exact. Pieces of one operator count as one in (2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from formulations.stagetime import ceil_div

if TYPE_CHECKING:
    import pyomo.environ as pyo

Rational = Fraction | int


@dataclass(frozen=True)
class Eq10Operator:
    """``rows`` M, ``reduction`` N, ``row_cycles`` tau, ``arrays`` a of one copy; ``group``: which operator it is a piece of."""

    rows: int
    reduction: int
    row_cycles: int
    arrays: int
    group: int


@dataclass(frozen=True)
class Eq10Tensor:
    """``users``: numbers of the operators that write or read it; ``arrays``: what holds it."""

    users: tuple[int, ...]
    arrays: int


@dataclass(frozen=True)
class Eq10Problem:
    """One segment. Bandwidths in bytes/cycle, ``write_cycles`` per array (0: nothing to write)."""

    operators: tuple[Eq10Operator, ...]
    tensors: tuple[Eq10Tensor, ...]
    arrays: int
    array_bandwidth: Rational
    other_bandwidth: Rational
    write_cycles: int


@dataclass(frozen=True)
class Eq10Allocation:
    """``compute`` and ``private`` arrays of each operator, ``shared`` arrays of each tensor."""

    compute: tuple[int, ...]
    private: tuple[int, ...]
    shared: tuple[int, ...]


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
    used = sum(allocation.compute) + sum(allocation.private) + sum(allocation.shared)
    if used > problem.arrays:
        raise ValueError(f"(8) arrays: {used} used, {problem.arrays} available")
    for e, (tensor, arrays) in enumerate(zip(problem.tensors, allocation.shared, strict=True)):
        if not 0 <= arrays <= tensor.arrays:
            raise ValueError(f"(6)(7) tensor {e}: {arrays} arrays are not within 0 .. {tensor.arrays}")
    times, groups = [], dict[int, int]()
    for i, op in enumerate(problem.operators):
        compute, memory = allocation.compute[i], allocation.private[i] + _shared_by(problem, allocation, i)
        if compute < op.arrays or allocation.private[i] < 0:
            raise ValueError(f"(8) operator {i}: {compute} compute arrays, one copy takes {op.arrays}")
        bandwidth = problem.array_bandwidth * memory + problem.other_bandwidth
        if bandwidth <= 0:
            raise ValueError(f"(10) operator {i} has no bandwidth")
        times += [Fraction(op.rows * op.row_cycles * op.arrays, compute), Fraction(op.rows * op.reduction) / bandwidth]
        groups[op.group] = groups.get(op.group, 0) + compute
    return Eq10Cost(max(times), Fraction(problem.write_cycles * max(groups.values())))


def _shared_by(problem: Eq10Problem, allocation: Eq10Allocation, i: int) -> int:
    return sum(s for tensor, s in zip(problem.tensors, allocation.shared, strict=True) if i in tensor.users)


# -- exact, without a solver -----------------------------------------------------------------------------------------------


def solve_eq10_combinatorial(problem: Eq10Problem) -> tuple[Eq10Allocation, Eq10Cost] | None:
    """Optimum, or None if one copy of each operator does not fit.

    For every reload level (the arrays of the largest group) the least T is found by bisection over the values T can take.
    """
    times = _possible_times(problem)
    best: tuple[Eq10Allocation, Eq10Cost] | None = None
    groups: dict[int, int] = {}
    for op in problem.operators:
        groups[op.group] = groups.get(op.group, 0) + op.arrays
    fastest = 0
    for level in range(problem.arrays, max(groups.values()) - 1, -1):
        # Fewer arrays to reload make no segment faster, so the least T only moves up from level to level.
        place = bisect_left(times, True, lo=fastest, key=partial(_fits, problem, level))
        if place == len(times):
            break
        fastest = place
        allocation = _fit(problem, times[place], level)
        assert allocation is not None
        cost = evaluate_eq10(problem, allocation)
        if best is None or cost.total < best[1].total:
            best = allocation, cost
    return best


def _possible_times(problem: Eq10Problem) -> list[Fraction]:
    """All values that a term of (10) can take, ascending."""
    times: set[Fraction] = set()
    for op in problem.operators:
        work, traffic = op.rows * op.row_cycles * op.arrays, op.rows * op.reduction
        times.update(Fraction(work, c) for c in range(op.arrays, problem.arrays + 1))
        rates = (problem.array_bandwidth * m + problem.other_bandwidth for m in range(problem.arrays + 1))
        times.update(Fraction(traffic) / rate for rate in rates if rate > 0)
    return sorted(times)


def _fits(problem: Eq10Problem, level: int, time: Fraction) -> bool:
    return _fit(problem, time, level) is not None


def _fit(problem: Eq10Problem, time: Fraction, level: int) -> Eq10Allocation | None:
    """The fewest arrays with which every operator meets ``time``, if no group takes over ``level`` and all fit."""
    compute, needs, groups = [], [], dict[int, int]()
    for op in problem.operators:
        work, traffic = op.rows * op.row_cycles * op.arrays, op.rows * op.reduction
        own = max(op.arrays, ceil_div(work * time.denominator, time.numerator) if work else 0)
        missing = Fraction(traffic) / time - problem.other_bandwidth if traffic else Fraction(0)
        if missing > 0 and not problem.array_bandwidth:
            return None
        compute.append(own)
        rate = Fraction(problem.array_bandwidth)
        needs.append(
            ceil_div(missing.numerator * rate.denominator, missing.denominator * rate.numerator) if missing > 0 else 0
        )
        groups[op.group] = groups.get(op.group, 0) + own
    if max(groups.values()) > level or sum(compute) > problem.arrays:
        return None
    shared = _share(problem.tensors, tuple(needs))
    covered = [sum(s for t, s in zip(problem.tensors, shared, strict=True) if i in t.users) for i in range(len(needs))]
    private = [max(0, need - got) for need, got in zip(needs, covered, strict=True)]
    if sum(compute) + sum(private) + sum(shared) > problem.arrays:
        return None
    return Eq10Allocation(tuple(compute), tuple(private), shared)


def _share(tensors: tuple[Eq10Tensor, ...], needs: tuple[int, ...]) -> tuple[int, ...]:
    """Shared arrays per tensor that save most: an array of a tensor serves all of its users that still need one.

    Recursion over the tensors on the needs that later tensors can still serve. On a chain it is greedy: an array that only
    this tensor can still offer one of its two users saves as much as it could anywhere else.
    """
    later = [{i for tensor in tensors[e + 1 :] for i in tensor.users} for e in range(len(tensors))]
    pairs = all(len(tensor.users) <= 2 for tensor in tensors)

    @cache
    def best(e: int, left: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        if e == len(tensors):
            return 0, ()
        users = tensors[e].users
        wanted = sorted((left[i] for i in users), reverse=True)
        most = min(tensors[e].arrays, wanted[1] if len(wanted) > 1 else 0)
        greedy = pairs and any(i not in later[e] for i in users)
        found: tuple[int, tuple[int, ...]] | None = None
        for amount in range(most, most - 1 if greedy else -1, -1):
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


# -- as a mixed integer linear program ------------------------------------------------------------------------------------


def build_eq10(problem: Eq10Problem) -> pyo.ConcreteModel:
    """The program without tangents but one; times in units of ``model.unit`` cycles, the objective in cycles."""
    import pyomo.environ as pyo

    model = pyo.ConcreteModel(name="eq10")
    arrays, operators = problem.arrays, problem.operators
    model.unit = float(least_time(problem))
    model.Com = pyo.Var(
        range(len(operators)), domain=pyo.NonNegativeIntegers, bounds=lambda _, i: (operators[i].arrays, arrays)
    )
    model.p = pyo.Var(range(len(operators)), domain=pyo.NonNegativeIntegers, bounds=(0, arrays))
    model.s = pyo.Var(
        range(len(problem.tensors)),
        domain=pyo.NonNegativeIntegers,
        bounds=lambda _, e: (0, min(arrays, problem.tensors[e].arrays)),
    )
    model.r = pyo.Var(bounds=(0, 1))
    model.T = pyo.Var(bounds=(1, None))
    model.largest = pyo.Var(bounds=(0, arrays))
    model.rate = pyo.ConstraintList(doc="(10)")
    for i, op in enumerate(operators):
        memory = model.p[i] + sum(model.s[e] for e, tensor in enumerate(problem.tensors) if i in tensor.users)
        model.rate.add(op.rows * op.row_cycles * op.arrays / model.unit * model.r <= model.Com[i])
        bandwidth = float(problem.array_bandwidth) * memory + float(problem.other_bandwidth)
        model.rate.add(op.rows * op.reduction / model.unit * model.r <= bandwidth)
    model.arrays = pyo.Constraint(
        expr=sum(model.Com.values()) + sum(model.p.values()) + sum(model.s.values()) <= arrays, doc="(8)"
    )
    model.reload = pyo.ConstraintList(doc="(2)")
    for group in sorted({op.group for op in operators}):
        model.reload.add(sum(model.Com[i] for i, op in enumerate(operators) if op.group == group) <= model.largest)
    model.tangents = pyo.ConstraintList()
    add_tangent(model, 1.0)
    model.objective = pyo.Objective(expr=model.unit * model.T + problem.write_cycles * model.largest)
    return model


def add_tangent(model: pyo.ConcreteModel, rate: float) -> None:
    """T >= 1/r by its tangent at ``rate`` (1 / model time units)."""
    model.tangents.add(2 / rate - model.r / rate**2 <= model.T)


def least_time(problem: Eq10Problem) -> Fraction:
    """What T is at least with all arrays for one operator: the time unit of the program."""
    most = problem.array_bandwidth * problem.arrays + problem.other_bandwidth
    work = max(Fraction(op.rows * op.row_cycles * op.arrays, problem.arrays) for op in problem.operators)
    traffic = max(Fraction(op.rows * op.reduction) / most for op in problem.operators)
    return max(work, traffic, Fraction(1))


def solve_eq10(
    problem: Eq10Problem, solve: Callable[[Any], object], tolerance: float = 1e-6
) -> tuple[Eq10Allocation, Eq10Cost] | None:
    """Optimum within the relative ``tolerance`` (or what the solver's tolerances can tell apart).

    None if one copy of each operator does not fit.

    ``solve(model)`` solves a Pyomo model to optimality and leaves the values in it; ValueError if it left none.
    """
    if sum(op.arrays for op in problem.operators) > problem.arrays:
        return None
    model = build_eq10(problem)
    best: tuple[Eq10Allocation, Eq10Cost] | None = None
    touched: set[Fraction] = set()
    while True:
        solve(model)
        if model.T.value is None:
            raise ValueError("the model holds no solution")
        allocation = read_eq10(model)
        cost = evaluate_eq10(problem, allocation)
        if best is None or cost.total < best[1].total:
            best = allocation, cost
        bound = model.unit * model.T.value + problem.write_cycles * model.largest.value
        if float(best[1].total) <= bound * (1 + tolerance) or cost.execute in touched:
            return best
        touched.add(cost.execute)
        add_tangent(model, model.unit / float(cost.execute))


def read_eq10(model: pyo.ConcreteModel) -> Eq10Allocation:
    """The allocation that the values of ``model`` stand for."""
    compute, private, shared = (tuple(round(x.value) for x in var.values()) for var in (model.Com, model.p, model.s))
    return Eq10Allocation(compute, private, shared)
