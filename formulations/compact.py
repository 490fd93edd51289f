r"""Segment allocation under the machine model with whole numbers of copies instead of one binary per option (Pyomo).

The program of :mod:`formulations.allocation` in which the candidates of every stage form *pieces* p of neighbours: one piece at
first. A function F of the copies (the MVM cycles m and c of (5) and (8), the writing of an operand w) becomes a variable above
its lower convex envelope over each piece. What this relaxes: F between the ends of a piece where the candidates are not in
convex position (``ceil(M/d)`` nearly is), and copies that are not candidates. Everything else is exact, so the optimum is a
lower bound, and :func:`solve_compact` splits the pieces in which it falls short of the exact cost until the two meet.

Sets and data as there; p in pieces_i, D_p the candidates of piece p, k lines of its envelope with slope alpha_pk, height beta_pk
Variables
    u_ip in {0,1}  the copies of stage i lie in p;  d_ip >= 0 whole;  F_ip >= 0;  all others but y as there

    minimise  T + R                                                                                     [cycles]
    (1)  sum_p u_ip = 1 ;  min D_p u_ip <= d_ip <= max D_p u_ip
    (2)  sum_o z_eo = 1
    (3)  sum_ip a_i d_ip <= A_compute ;  sum_eo arrays_eo z_eo <= A_memory ;  both together <= A
    (4)  as there
    (5)  F_i = sum_p F_ip ,  F_ip >= alpha_pk d_ip + beta_pk u_ip   for F = m, c, w and every line k
    (6)  as there
    (7)  as there
    (8)  as there, with F_i for sum_d F(d) y_id
    (9)  as there, with F_i for sum_d F(d) y_id
    (10) R >= reload cycles ;  P R >= sum_ip W_i d_ip
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyomo.core as pyo

from formulations.blocks import chosen, envelope
from formulations.copies import Cycles, Piece, PiecewiseCopies, whole_copies
from formulations.evaluate import SegmentCost, evaluate
from formulations.segment import SegmentAllocation, SegmentProblem
from formulations.stages import placements, segment_program
from formulations.stagetime import first_chunk_cycles, mvm_cycles, operand_write_cycles


@dataclass(frozen=True)
class CompactResult:
    """``allocation`` with its exact ``cost``, the cycles that no allocation undercuts, and the programs solved to find both."""

    allocation: SegmentAllocation
    cost: SegmentCost
    bound: float
    programs: int


def whole_pieces(problem: SegmentProblem) -> list[list[Piece]]:
    """One piece for each stage."""
    return [[stage.copies] for stage in problem.stages]


def build_compact(problem: SegmentProblem, pieces: Sequence[Sequence[Piece]] | None = None) -> pyo.ConcreteModel:
    """The program of ``problem`` over ``pieces`` (:func:`whole_pieces` unless given). ValueError if it is not well formed."""
    own = pieces or whole_pieces(problem)
    return segment_program(problem, "segment_compact", lambda model, _: PiecewiseCopies(model, problem, own))


def read_compact(model: pyo.ConcreteModel, problem: SegmentProblem) -> SegmentAllocation:
    """An allocation that fits: the most candidates within the whole numbers. ValueError if nothing was solved."""
    whole = whole_copies(model)
    copies = (max(d for d in stage.copies if d <= most) for stage, most in zip(problem.stages, whole, strict=True))
    return SegmentAllocation(tuple(copies), chosen(model.z, placements(problem)))


def solve_compact(
    problem: SegmentProblem, solve: Callable[[Any], object], tolerance: float = 1e-6
) -> CompactResult | None:
    """Optimum within the relative ``tolerance``; None if nothing fits.

    ``solve(model)`` solves a Pyomo model to optimality and leaves the values in it, or none if it is infeasible. Each model that
    it is given bounds the optimum from below.
    """
    pieces = whole_pieces(problem)
    best: tuple[SegmentAllocation, SegmentCost] | None = None
    programs = 0
    while True:
        model = build_compact(problem, pieces)
        solve(model)
        programs += 1
        if model.T.value is None:
            return None
        bound = model.unit * (model.T.value + model.R.value)
        allocation = read_compact(model, problem)
        cost = evaluate(problem, allocation)
        if best is None or cost.total < best[1].total:
            best = allocation, cost
        taken = zip(allocation.copies, whole_copies(model), strict=True)
        split = [_split(problem, i, pieces[i], copies, whole) for i, (copies, whole) in enumerate(taken)]
        if float(best[1].total) <= bound * (1 + tolerance) or split == pieces:
            return CompactResult(*best, min(bound, float(best[1].total)), programs)
        pieces = split


def _split(problem: SegmentProblem, i: int, pieces: list[Piece], copies: int, whole: int) -> list[Piece]:
    """The pieces with a new end at ``copies``, unless that is the ``whole`` number taken and all of (5) is exact at it."""
    stage, drivers = problem.stages[i], problem.write_drivers
    functions: tuple[Cycles, ...] = (
        mvm_cycles,
        first_chunk_cycles,
        lambda stage, copies: operand_write_cycles(stage, copies, drivers),
    )
    result: list[Piece] = []
    for piece in pieces:
        if copies not in piece or copies == piece[-1]:
            result.append(piece)
            continue
        cut = piece.index(copies) + 1
        inexact = whole != copies or any(
            max(slope * copies + height for slope, height in envelope({d: f(stage, d) for d in piece}))
            < f(stage, copies) * (1 - 1e-12)
            for f in functions
        )
        result += [piece[:cut], piece[cut:]] if inexact else [piece]
    return result
