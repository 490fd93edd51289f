r"""Segment allocation as CMSwitch publishes it (arXiv 2502.17006), in throughput form, exact and small (Pyomo).

Sets
    i operators (or pieces of one), g groups of pieces of one operator, e tensors with their users in the segment
Data
    M_i rows, N_i reduction length, tau_i cycles of one MVM, a_i arrays of one copy, A arrays, cap_e arrays that hold tensor e,
    D_c inputs/cycle of a memory-mode array, D_m of the rest of the chip, w cycles of writing one array,
    h_i memory arrays that serve i at no cost (they hold tensors kept across the segment and are not among the A)
Variables (whole arrays)
    Com_i >= a_i compute arrays, s_e <= cap_e memory arrays of tensor e shared by all its users, p_i private memory arrays,
    r throughput in 1/T, T time of the segment in units of ``model.unit`` cycles

    minimise  T + w max_g sum_{i in g} Com_i                                                            [cycles]
    (2)  largest >= sum_{i in g} Com_i   for every group g
    (7)  Mem_i = h_i + p_i + sum_{e used by i} s_e ;  s_e <= cap_e
    (8)  sum_i Com_i + sum_e s_e + sum_i p_i <= A ;  sum_i Com_i <= compute limit ;  sum_e s_e + sum_i p_i <= memory limit
    (9)  T >= 2 / r_k - r / r_k^2   for every tangent k
    (10) r M_i tau_i a_i <= Com_i ;  r M_i N_i <= D_c Mem_i + D_m

``s_e`` and ``p_i`` replace the per-coordinate binaries and H_ij of (6) and (7): an array holds one tensor, so at a join the
shared arrays of different tensors are different arrays. With r = 1/T the rows of (10) are linear, and T >= 1/r is
approached by tangents that are added until the model's T is exact. Pieces of one operator count as one in (2).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyomo.core as pyo

from formulations.blocks import Expr, add_rows, require_solution
from formulations.eq10 import Eq10Allocation, Eq10Cost, Eq10Problem, evaluate_eq10


def build_eq10(problem: Eq10Problem) -> pyo.ConcreteModel:
    """The program with one tangent."""
    model = pyo.ConcreteModel(name="eq10")
    arrays, operators, tensors = problem.arrays, problem.operators, problem.tensors
    model.Com = pyo.Var(range(len(operators)), domain=pyo.NonNegativeIntegers, bounds=(0, arrays))
    model.p = pyo.Var(range(len(operators)), domain=pyo.NonNegativeIntegers, bounds=(0, arrays))
    model.s = pyo.Var(range(len(tensors)), domain=pyo.NonNegativeIntegers, bounds=(0, arrays))
    for i, op in enumerate(operators):
        model.Com[i].setlb(op.arrays)
    for e, tensor in enumerate(tensors):
        model.s[e].setub(min(arrays, tensor.arrays))
    used = [sum(model.s[e] for e, tensor in enumerate(tensors) if i in tensor.users) for i in range(len(operators))]
    compute, memory = sum(model.Com.values()), sum(model.p.values()) + sum(model.s.values())
    add_rows(
        model,
        "arrays",
        (compute + memory <= arrays, compute <= problem.most_compute, memory <= problem.most_memory),
    )
    add_rates(model, problem, list(model.Com.values()), [model.p[i] + shared for i, shared in enumerate(used)])
    return model


def add_rates(model: pyo.ConcreteModel, problem: Eq10Problem, compute: list[Expr], memory: list[Expr]) -> None:
    """(2), (9), (10) and the objective, whatever the variables that count ``compute`` and ``memory`` arrays by operator."""
    model.unit = float(least_time(problem))
    model.r = pyo.Var(bounds=(0, 1))
    model.T = pyo.Var(bounds=(1, None))
    model.largest = pyo.Var(bounds=(0, problem.arrays))
    rates = []
    for op, own, buffers in zip(problem.operators, compute, memory, strict=True):
        rates.append(op.work / model.unit * model.r <= own)
        bandwidth = float(problem.array_bandwidth) * buffers + float(problem.rate(op, 0))
        rates.append(op.traffic / model.unit * model.r <= bandwidth)
    add_rows(model, "rate", rates)
    groups: dict[int, list[Expr]] = {}
    for op, own in zip(problem.operators, compute, strict=True):
        if op.group is not None:
            groups.setdefault(op.group, []).append(own)
    add_rows(model, "reload", (sum(groups[group]) <= model.largest for group in sorted(groups)))
    model.tangents = pyo.ConstraintList()
    add_tangent(model, 1.0)
    model.objective = pyo.Objective(expr=model.unit * model.T + problem.write_cycles * model.largest)


def add_tangent(model: pyo.ConcreteModel, rate: float) -> None:
    """(9): T >= 1/r by its tangent at ``rate`` (1 / model time units)."""
    model.tangents.add(2 / rate - model.r / rate**2 <= model.T)


def least_time(problem: Eq10Problem) -> Fraction:
    """What T is at least with all arrays for one operator: the time unit of the program."""
    work = max(Fraction(op.work, problem.arrays) for op in problem.operators)
    traffic = max(Fraction(op.traffic) / problem.rate(op, problem.arrays) for op in problem.operators)
    return max(work, traffic, Fraction(1))


def read_eq10(model: pyo.ConcreteModel) -> Eq10Allocation:
    """The allocation that the values of ``model`` stand for. ValueError if the model has no values (nothing was solved)."""
    require_solution(model.Com)
    compute, private, shared = (tuple(round(x.value) for x in var.values()) for var in (model.Com, model.p, model.s))
    return Eq10Allocation(compute, private, shared)


def solve_eq10(
    problem: Eq10Problem,
    solve: Callable[[Any], object],
    tolerance: float = 1e-6,
    build: Callable[[Eq10Problem], pyo.ConcreteModel] = build_eq10,
    read: Callable[[pyo.ConcreteModel], Eq10Allocation] = read_eq10,
) -> tuple[Eq10Allocation, Eq10Cost] | None:
    """Optimum within the relative ``tolerance`` (or what the solver's tolerances can tell apart).

    None if one copy of each operator does not fit. ``problem`` has an operator.

    ``solve(model)`` solves a Pyomo model to optimality and leaves the values in it; ValueError if it left none. Each model
    that it is given bounds the optimum from below. ``build`` and ``read``: another form of the program.
    """
    if sum(op.arrays for op in problem.operators) > problem.most_compute:
        return None
    model = build(problem)
    best: tuple[Eq10Allocation, Eq10Cost] | None = None
    touched: set[Fraction] = set()
    while True:
        solve(model)
        allocation = read(model)
        cost = evaluate_eq10(problem, allocation)
        if best is None or cost.total < best[1].total:
            best = allocation, cost
        bound = model.unit * model.T.value + problem.write_cycles * model.largest.value
        if float(best[1].total) <= bound * (1 + tolerance) or cost.execute in touched:
            return best
        touched.add(cost.execute)
        add_tangent(model, model.unit / float(cost.execute))
