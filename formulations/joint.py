r"""Copies of stages and the cores they lie on, decided together (Pyomo): what neither of the two levels sees alone.

:mod:`formulations.duplication` counts arrays and knows no distances; :mod:`formulations.mapping` places copies that are given.
One after the other (:func:`solve_in_turn`) they may choose copies whose traffic takes longer than what they save, or that the
cores do not hold although there are arrays enough. Duplication alone is a lower bound, the two in turn are an upper one.

Sets
    i, j stages;  d in D_i as in duplication;  k, l cores;  n = 1 .. d copies on one core;  (i, j) streams
Data (integers)
    a_i arrays of one copy, A_k arrays of core k, D_kl hops between the cores k and l, f_ij bytes that all of i sends to all of j,
    W byte hops per cycle of the network, and those of duplication
Variables
    y_id in {0,1}  stage i has d copies;  x_ikdn in {0,1}  stage i has d copies, n of them on core k
    T cycles, in units of ``model.unit`` cycles;  z_ijkdnl >= 0  the share w_jl of j on core l if x_ikdn = 1, else 0

    minimise  T                                                                                         [cycles]
    (1)  sum_d y_id = 1 ;  sum_n x_ikdn <= y_id ;  sum_kn n x_ikdn = d y_id
    (2)  sum_idn a_i n x_ikdn <= A_k
    (3)  sum_l z_ijkdnl = x_ikdn ;  sum_dn z_ijkdnl <= w_jl ;  sum_kdn n/d z_ijkdnl = w_jl ;  w_jl = sum_dn n/d x_jldn
    (4)  T >= cycles of the stages and of the shared port, (3) and (4) of duplication
    (5)  W T >= sum_ij f_ij sum_kdnl n/d D_kl z_ijkdnl

A copy stays together on one core, which several may share, and takes an equal share of the items of its stage, any of them: every
copy of i sends f_ij / (d_i d_j) bytes to every copy of j. Then no other numbers of copies than those of D_i can be better, as
dropping the farthest copy lowers the mean distance. With one copy each, (1) to (3) are those of mapping. (3) is exact where x is
whole; its last sum only tightens it. Copies are counted, not named, so that none of their orders is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import pyomo.core as pyo

from formulations.blocks import Expr, add_rows, capacity, has_solution, linear, require_solution, shared, start_at
from formulations.duplication import (
    DuplicatedStage,
    DuplicationProblem,
    add_copies,
    build_duplication,
    copied_cycles,
    copy_options,
    read_duplication,
)
from formulations.mapping import MappingProblem, build_mapping, check_mapping, evaluate_mapping, read_mapping


@dataclass(frozen=True)
class JointProblem:
    """``stages`` on ``cores`` of A_k arrays; ``traffic`` (i, j, bytes) between stages i < j; ``hops[k][l]`` as in a mapping.

    ``hop_rate`` W in byte hops per cycle; ``port_rate`` and ``pipelined`` as in a duplication.
    """

    stages: tuple[DuplicatedStage, ...]
    cores: tuple[int, ...]
    traffic: tuple[tuple[int, int, int], ...]
    hops: tuple[tuple[int, ...], ...]
    hop_rate: int
    port_rate: int | None = None
    pipelined: bool = True


Places = tuple[tuple[int, ...], ...]  # the cores of the copies of each stage, ascending
Counts = list[tuple[int, int, int]]  # (k, d, n) of one stage: core, copies, how many of these lie there


def copies_alone(problem: JointProblem) -> DuplicationProblem:
    """The coarser level: copies under the arrays of all cores. Its optimum is a lower bound of the joint one."""
    return DuplicationProblem(
        problem.stages, sum(problem.cores), port_rate=problem.port_rate, pipelined=problem.pipelined
    )


def places_alone(problem: JointProblem, copies: tuple[int, ...]) -> MappingProblem:
    """The finer level: cores for given ``copies``, which are its blocks, stage by stage."""
    blocks = [i for i, d in enumerate(copies) for _ in range(d)]
    between = {(i, j): Fraction(size, copies[i] * copies[j]) for i, j, size in problem.traffic}
    pairs = [(t, v) for v in range(len(blocks)) for t in range(v) if (blocks[t], blocks[v]) in between]
    return MappingProblem(
        tuple(problem.stages[i].arrays for i in blocks),
        problem.cores,
        tuple((t, v, between[blocks[t], blocks[v]]) for t, v in pairs),
        problem.hops,
    )


def build_joint(problem: JointProblem) -> pyo.ConcreteModel:
    """The program of ``problem``; ``model.y[i, d]`` and ``model.x[i, k, d, n]`` are the choices.

    ValueError if the network moves nothing, or if a mapping whose blocks are the stages would be malformed.
    """
    _check(problem)
    model = pyo.ConcreteModel(name="joint")
    add_copies(model, copies_alone(problem))
    rate = problem.hop_rate * model.unit
    farthest = max(map(max, problem.hops), default=0) * sum(size for _, _, size in problem.traffic)
    model.T.setub(model.T.ub + farthest / rate)
    counts, cores = _counts(problem), range(len(problem.cores))
    model.x = pyo.Var([(i, *own) for i, of in enumerate(counts) for own in of], domain=pyo.Binary)
    shares = [(i, j, *own, m) for i, j, _ in problem.traffic for own in counts[i] for m in cores]
    model.z = pyo.Var(shares, bounds=(0, 1))
    add_rows(model, "places", _places(model, counts, cores))
    add_rows(model, "arrays", _arrays(model, problem))
    for i, j, _ in problem.traffic:
        add_rows(model, f"products_{i}_{j}", _products(model, i, j, counts, cores))
    bytes_of = {(i, j): size for i, j, size in problem.traffic}
    moved = [(bytes_of[i, j] * problem.hops[k][m] * n / (d * rate), z) for (i, j, k, d, n, m), z in model.z.items()]
    add_rows(model, "network", [shared([linear(moved)], model.T)])
    model.objective = pyo.Objective(expr=model.unit * model.T)
    return model


def read_joint(model: pyo.ConcreteModel, problem: JointProblem) -> Places:
    """The cores of all copies. ValueError if the model has no values (nothing was solved)."""
    require_solution(model.y)
    places: list[list[int]] = [[] for _ in problem.stages]
    for (i, k, _, n), taken in model.x.items():
        places[i] += [k] * (n * round(taken.value))
    return tuple(tuple(sorted(own)) for own in places)


def joint_start(problem: JointProblem, places: Places) -> dict[str, float]:
    """Values of the choices of ``places`` by variable name: a warm start, from :func:`solve_in_turn` for example."""
    copies = tuple(map(len, places))
    start = start_at("y", [copy_options(copies_alone(problem), i) for i in range(len(copies))], copies)
    for i, own in enumerate(_counts(problem)):
        start |= {f"x[{i},{k},{d},{n}]": float(d == copies[i] and n == places[i].count(k)) for k, d, n in own}
    return start


def evaluate_joint(problem: JointProblem, places: Places) -> Fraction:
    """Exact cycles of ``places``. ValueError, naming the constraint, if they violate one."""
    copies = tuple(map(len, places))
    cycles = copied_cycles(copies_alone(problem), copies)
    byte_hops = evaluate_mapping(places_alone(problem, copies), tuple(k for own in places for k in own))
    return max(cycles, Fraction(byte_hops) / problem.hop_rate)


def solve_in_turn(problem: JointProblem, solve: Callable[[Any], object]) -> Places | None:
    """The optimal copies, whichever of them the solver finds, then the optimal cores for these; None if either does not fit.

    ``solve(model)`` solves a Pyomo model to optimality and leaves the values in it, or none if it is infeasible.
    """
    _check(problem)
    coarse = copies_alone(problem)
    model = build_duplication(coarse)
    solve(model)
    if not has_solution(model.y):
        return None
    copies = read_duplication(model, coarse)
    fine = places_alone(problem, copies)
    model = build_mapping(fine)
    solve(model)
    if not has_solution(model.x):
        return None
    placed = iter(read_mapping(model, fine))
    return tuple(tuple(sorted(islice(placed, d))) for d in copies)


def _check(problem: JointProblem) -> None:
    if problem.hop_rate < 1:
        raise ValueError(f"hop_rate {problem.hop_rate}: a network moves at least one byte hop per cycle")
    stages = tuple(stage.arrays for stage in problem.stages)
    check_mapping(MappingProblem(stages, problem.cores, problem.traffic, problem.hops))


def _counts(problem: JointProblem) -> list[Counts]:
    """For each stage and number of copies as many of them as each core holds."""
    options = [copy_options(copies_alone(problem), i) for i in range(len(problem.stages))]
    return [
        [
            (k, d, n)
            for k, room in enumerate(problem.cores)
            for d in own
            for n in range(1, d + 1)
            if stage.arrays * n <= room
        ]
        for stage, own in zip(problem.stages, options, strict=True)
    ]


def _places(model: pyo.ConcreteModel, counts: list[Counts], cores: range) -> Iterator[Expr]:
    """(1) but for its first sum."""
    for (i, d), y in model.y.items():
        own = [(k, n, model.x[i, k, d, n]) for k, of, n in counts[i] if of == d]
        yield linear([*((float(n), x) for _, n, x in own), (-float(d), y)]) == 0
        for m in cores:
            yield linear([*((1.0, x) for k, _, x in own if k == m), (-1.0, y)]) <= 0


def _arrays(model: pyo.ConcreteModel, problem: JointProblem) -> Iterator[Expr]:
    """(2)."""
    for m, room in enumerate(problem.cores):
        terms = [(float(problem.stages[i].arrays * n), x) for (i, k, _, n), x in model.x.items() if k == m]
        yield from capacity(terms, room, none=model.T)


def _products(model: pyo.ConcreteModel, i: int, j: int, counts: list[Counts], cores: range) -> Iterator[Expr]:
    """(3) of one stream."""
    for own in counts[i]:
        yield linear([*((1.0, model.z[i, j, *own, m]) for m in cores), (-1.0, model.x[i, *own])]) == 0
    for m in cores:
        share = [(-n / d, model.x[j, k, d, n]) for k, d, n in counts[j] if k == m]
        for k in cores:
            yield linear([*((1.0, model.z[i, j, *own, m]) for own in counts[i] if own[0] == k), *share]) <= 0
        yield linear([*((n / d, model.z[i, j, k, d, n, m]) for k, d, n in counts[i]), *share]) == 0
