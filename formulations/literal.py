r"""Segment allocation as CMSwitch publishes it (arXiv 2502.17006), literally: one binary per role, operator and array (Pyomo).

Kept to show what it costs: every array is like every other, so A! solutions are the same, and a solver has to refute all of
them. :mod:`formulations.throughput` has the same optimum.

Sets
    i, j operators;  z roles of an array: in (buffer of inputs), out (buffer of outputs), c (compute);  (x, y) arrays
    e tensors, written by the first of their users i_e and read by the others j
Data as in :mod:`formulations.throughput`
Variables
    lambda_z(i, x, y) in {0,1}  array (x, y) has role z for operator i
    theta_e(x, y) in [0,1]  array (x, y) holds tensor e for more than one user;  eta_ej(x, y) in [0,1]  for i_e and j together
    Com_i, Mem_i, H_ej arrays (sums);  r, T, largest as in the throughput form

    minimise  T + w max_g sum_{i in g} Com_i                                                            [cycles]
    (2)  largest >= sum_{i in g} Com_i   for every group g
    (4)  Com_i = sum_xy lambda_c(i, x, y) ;  Com_i >= a_i
    (5)  Mem_i = h_i + sum_xy (lambda_in(i, x, y) + lambda_out(i, x, y))
    (6)  eta_ej(x, y) <= lambda_out(i_e, x, y) ;  eta_ej(x, y) <= lambda_in(j, x, y) ;  eta_ej(x, y) <= theta_e(x, y)
    (7)  H_ej = sum_xy eta_ej(x, y) ;  sum_e theta_e(x, y) <= 1 ;  sum_xy theta_e(x, y) <= cap_e
    (8)  sum_z sum_i lambda_z(i, x, y) - sum_ej eta_ej(x, y) <= 1 for every array, and therefore
         sum_i (Com_i + Mem_i - h_i) - sum_ej H_ej <= A ;  sum_i Com_i <= compute limit ;
         sum_i (Mem_i - h_i) - sum_ej H_ej <= memory limit
    (9)  T >= 2 / r_k - r / r_k^2   for every tangent k
    (10) r M_i tau_i a_i <= Com_i ;  r M_i N_i <= D_c Mem_i + D_m

theta is ours: an array holds one tensor, which the published (6) and (7) leave open at a join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyomo.core as pyo

from formulations.blocks import Expr, add_rows, require_solution
from formulations.eq10 import Eq10Allocation, Eq10Cost, Eq10Problem
from formulations.throughput import add_rates, solve_eq10

ROLES = ("in", "out", "c")


def build_literal(problem: Eq10Problem, width: int = 1) -> pyo.ConcreteModel:
    """The program with one tangent, the arrays in rows of ``width``."""
    model = pyo.ConcreteModel(name="literal")
    operators, tensors = range(len(problem.operators)), problem.tensors
    model.width = width
    model.xy = pyo.Set(initialize=[(n % width, n // width) for n in range(problem.arrays)], dimen=2)
    model.lam = pyo.Var(ROLES, operators, model.xy, domain=pyo.Binary)
    pairs = [(e, j) for e, tensor in enumerate(tensors) for j in tensor.users[1:]]
    model.theta = pyo.Var(range(len(tensors)), model.xy, bounds=(0, 1))
    model.eta = pyo.Var(pairs, model.xy, bounds=(0, 1))
    compute = [sum(model.lam["c", i, x, y] for x, y in model.xy) for i in operators]
    memory = [sum(model.lam[z, i, x, y] for z in ("in", "out") for x, y in model.xy) for i in operators]
    add_rows(model, "one_copy", (compute[i] >= problem.operators[i].arrays for i in operators))
    add_rows(model, "sharing", _sharing(model, problem, pairs))
    add_rows(model, "arrays", _arrays(model, problem, pairs, sum(compute), sum(memory)))
    add_rates(model, problem, compute, memory)
    return model


def read_literal(model: pyo.ConcreteModel, problem: Eq10Problem) -> Eq10Allocation:
    """The allocation that the values of ``model`` stand for. ValueError if the model has no values (nothing was solved)."""
    require_solution(model.lam)
    count = len(problem.operators)
    compute, private, shared = [0] * count, [0] * count, [0] * len(problem.tensors)
    for x, y in model.xy:
        taken = [(z, i) for z in ROLES for i in range(count) if round(model.lam[z, i, x, y].value)]
        users = {i for _, i in taken}
        if ("c", *users) in taken:
            compute[next(iter(users))] += 1
        elif len(users) == 1:
            private[next(iter(users))] += 1
        elif users:
            shared[max(range(len(shared)), key=lambda e: model.theta[e, x, y].value)] += 1
    return Eq10Allocation(tuple(compute), tuple(private), tuple(shared))


def solve_literal(
    problem: Eq10Problem, solve: Callable[[Any], object], tolerance: float = 1e-6
) -> tuple[Eq10Allocation, Eq10Cost] | None:
    """As :func:`formulations.throughput.solve_eq10`, with this program."""
    return solve_eq10(problem, solve, tolerance, build_literal, lambda model: read_literal(model, problem))


def _sharing(model: pyo.ConcreteModel, problem: Eq10Problem, pairs: list[tuple[int, int]]) -> Iterator[Expr]:
    """(6), (7)."""
    for e, j in pairs:
        first = problem.tensors[e].users[0]
        for x, y in model.xy:
            yield model.eta[e, j, x, y] <= model.lam["out", first, x, y]
            yield model.eta[e, j, x, y] <= model.lam["in", j, x, y]
            yield model.eta[e, j, x, y] <= model.theta[e, x, y]
    tensors = range(len(problem.tensors))
    for x, y in model.xy:
        yield sum(model.theta[e, x, y] for e in tensors) <= 1
    for e in tensors:
        yield sum(model.theta[e, x, y] for x, y in model.xy) <= problem.tensors[e].arrays


def _arrays(
    model: pyo.ConcreteModel, problem: Eq10Problem, pairs: list[tuple[int, int]], compute: Expr, memory: Expr
) -> Iterator[Expr]:
    """(8)."""
    operators = range(len(problem.operators))
    for x, y in model.xy:
        roles = sum(model.lam[z, i, x, y] for z in ROLES for i in operators)
        yield roles - sum(model.eta[e, j, x, y] for e, j in pairs) <= 1
    together = sum(model.eta.values())
    yield compute + memory - together <= problem.arrays
    yield compute <= problem.most_compute
    yield memory - together <= problem.most_memory
