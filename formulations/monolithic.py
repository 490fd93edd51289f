r"""A whole tiny network as one mixed integer linear program: all cuts, kept tensors, allocations and modes at once (Pyomo).

Meant to confirm that the lazily priced shortest path is exact; its size grows with the number of candidate segments.

Sets
    v         states between segments (a cut and the tensors kept across it); v = 0 is the first, the last one the end
    q         candidate segments, from state ``source_q`` to state ``target_q``;  p  positions where a segment may start
Data
    one segment problem per q (:mod:`formulations.allocation`): minimise c_q u subject to G_q u >= b_q, u >= 0, parts of u whole
    k_q arrays that tensors kept during q hold;  A arrays;  cycles of switching one batch of B arrays in each direction
Variables
    x_q in {0,1}  q is on the path;  u_q  the variables of its problem (copies y, places z, times)
    kappa_p in 0..A  arrays in compute mode from position p on;  up_p, down_p >= 0 whole  arrays that change mode there
    n_p, m_p >= 0 whole  batches in which they do

    minimise  sum_q c_q u_q + sum_p (to compute cycles n_p + to memory cycles m_p)                      [cycles]
    (1)  sum_{q from 0} x_q = 1 ;  sum_{q to v} x_q = sum_{q from v} x_q   for every v but the first and the end
    (2)  G_q u_q >= b_q x_q ,  and upper bounds of u_q times x_q
    (3)  kappa_p = kappa_{p-1} + up_p - down_p ,  kappa_{-1} = 0
    (4)  up_p + down_p <= A sum_{q starts at p} x_q
    (5)  kappa_p >= sum_{q starts at p} compute arrays_q(u_q) ;
         kappa_p + sum_{q starts at p} (memory arrays_q(u_q) + k_q x_q) <= A
    (6)  B n_p >= up_p ;  B m_p >= down_p

(2) is the perspective of each segment's program: with x_q = 1 it is that program, with x_q = 0 all its variables can be 0.
It is as tight as a disjunction can be, and needs no large constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyomo.core as pyo
from pyomo.repn import generate_standard_repn

from formulations.allocation import build_segment_allocation, read_segment_allocation
from formulations.blocks import Expr, add_rows, require_solution
from formulations.evaluate import SegmentCost, evaluate
from formulations.segment import SegmentAllocation, SegmentProblem


@dataclass(frozen=True)
class Candidate:
    """A segment that a plan may contain: from state ``source`` to state ``target``, starting at ``position``.

    Tensors kept during it hold ``kept_arrays`` arrays, which ``problem`` does not count.
    """

    source: int
    target: int
    position: int
    kept_arrays: int
    problem: SegmentProblem


@dataclass(frozen=True)
class MonolithicProblem:
    """Choose a path of ``candidates`` from state 0 to state ``end``, and the modes of ``arrays`` arrays along it.

    All arrays start in memory mode; ``switched_at_once`` arrays take ``to_compute_cycles`` or ``to_memory_cycles`` together.
    """

    end: int
    positions: int
    candidates: tuple[Candidate, ...]
    arrays: int
    to_compute_cycles: int
    to_memory_cycles: int
    switched_at_once: int


@dataclass(frozen=True)
class MonolithicPlan:
    """The chosen candidates in order, the allocation of each and the arrays in compute mode during it."""

    path: tuple[int, ...]
    allocations: tuple[SegmentAllocation, ...]
    modes: tuple[int, ...]


def build_monolithic(problem: MonolithicProblem) -> pyo.ConcreteModel:
    """The program of ``problem``. ValueError if one of its segments is not well formed."""
    model = pyo.ConcreteModel(name="monolithic")
    model.x = pyo.Var(range(len(problem.candidates)), domain=pyo.Binary)
    model.segment = pyo.Block(range(len(problem.candidates)))
    cycles = [_switched_on(model.segment[q], c.problem, model.x[q]) for q, c in enumerate(problem.candidates)]
    add_rows(model, "flow", _flow(model, problem))
    switching = _modes(model, problem)
    model.objective = pyo.Objective(expr=sum(cycles) + switching, sense=pyo.minimize)
    return model


def read_monolithic(model: pyo.ConcreteModel, problem: MonolithicProblem) -> MonolithicPlan:
    """The plan that the values of ``model`` stand for. ValueError if the model has no values (nothing was solved)."""
    require_solution(model.x)
    chosen = [q for q in range(len(problem.candidates)) if round(model.x[q].value)]
    path = tuple(sorted(chosen, key=lambda q: problem.candidates[q].position))
    return MonolithicPlan(
        path,
        tuple(read_segment_allocation(model.segment[q].program, problem.candidates[q].problem) for q in path),
        tuple(round(model.kappa[problem.candidates[q].position].value) for q in path),
    )


def evaluate_monolithic(problem: MonolithicProblem, plan: MonolithicPlan) -> Fraction:
    """Exact cycles of ``plan``. ValueError if it is not a plan of ``problem``."""
    state, mode, total = 0, 0, Fraction(0)
    for q, allocation, kappa in zip(plan.path, plan.allocations, plan.modes, strict=True):
        candidate = problem.candidates[q]
        cost: SegmentCost = evaluate(candidate.problem, allocation)
        if candidate.source != state:
            raise ValueError(f"(1) candidate {q} starts in state {candidate.source}, the plan is in {state}")
        if not cost.compute_arrays <= kappa <= problem.arrays - cost.memory_arrays - candidate.kept_arrays:
            raise ValueError(f"(5) candidate {q} cannot run with {kappa} arrays in compute mode")
        batches = -(-abs(kappa - mode) // problem.switched_at_once)
        total += cost.total + batches * (problem.to_compute_cycles if kappa > mode else problem.to_memory_cycles)
        state, mode = candidate.target, kappa
    if state != problem.end:
        raise ValueError(f"(1) the plan ends in state {state}, not in {problem.end}")
    return total


def _switched_on(block: Any, problem: SegmentProblem, x: Expr) -> Expr:
    """(2): the program of one segment, its rows and upper bounds scaled by ``x``; returns its cycles."""
    block.program = build_segment_allocation(problem)
    block.rows = pyo.ConstraintList()
    cycles = block.program.objective.expr
    block.program.objective.deactivate()
    for row in list(block.program.component_data_objects(pyo.Constraint, active=True)):
        low, body, high = row.to_bounded_expression(evaluate_bounds=True)
        repn = generate_standard_repn(body, quadratic=False)
        linear = sum(c * v for c, v in zip(repn.linear_coefs, repn.linear_vars, strict=True))
        if low is not None:
            block.rows.add(linear >= (low - repn.constant) * x)
        if high is not None:
            block.rows.add(linear <= (high - repn.constant) * x)
        row.deactivate()
    for var in block.program.component_data_objects(pyo.Var):
        low, high = var.bounds
        if high is not None:
            block.rows.add(var <= high * x)
        if low:
            block.rows.add(var >= low * x)
            var.setlb(0)
    return cycles


def _flow(model: pyo.ConcreteModel, problem: MonolithicProblem) -> list[Expr]:
    """(1)."""
    states = sorted(
        {0, *(c.source for c in problem.candidates), *(c.target for c in problem.candidates)} - {problem.end}
    )
    rows = []
    for state in states:
        leaving = sum(model.x[q] for q, c in enumerate(problem.candidates) if c.source == state)
        entering = sum(model.x[q] for q, c in enumerate(problem.candidates) if c.target == state)
        rows.append(leaving - entering == (1 if state == 0 else 0))
    return rows


def _modes(model: pyo.ConcreteModel, problem: MonolithicProblem) -> Expr:
    """(3) to (6); returns the cycles of all switches."""
    positions, arrays = range(problem.positions), problem.arrays
    for name in ("kappa", "up", "down", "up_batches", "down_batches"):
        model.add_component(name, pyo.Var(positions, domain=pyo.NonNegativeIntegers, bounds=(0, arrays)))
    model.modes = pyo.ConstraintList()
    for p in positions:
        starting = [q for q, c in enumerate(problem.candidates) if c.position == p]
        before = model.kappa[p - 1] if p else 0
        model.modes.add(model.kappa[p] == before + model.up[p] - model.down[p])
        model.modes.add(model.up[p] + model.down[p] <= arrays * sum(model.x[q] for q in starting))
        model.modes.add(problem.switched_at_once * model.up_batches[p] >= model.up[p])
        model.modes.add(problem.switched_at_once * model.down_batches[p] >= model.down[p])
        compute: Expr = 0
        memory: Expr = 0
        for q in starting:
            candidate, program = problem.candidates[q], model.segment[q].program
            memory += candidate.kept_arrays * model.x[q]
            for i, stage in enumerate(candidate.problem.stages):
                compute += sum(stage.arrays * d * program.y[i, d] for d in stage.copies)
            for e, places in enumerate(candidate.problem.tensors):
                memory += sum(place.arrays * program.z[e, o] for o, place in enumerate(places))
        model.modes.add(model.kappa[p] >= compute)
        model.modes.add(model.kappa[p] + memory <= arrays)
    return sum(
        problem.to_compute_cycles * model.up_batches[p] + problem.to_memory_cycles * model.down_batches[p]
        for p in positions
    )
