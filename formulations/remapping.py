r"""Row remapping: which row blocks share a pass, so that the results of each column group come early (Pyomo).

An array drives one *row block* (as many rows as may be active at once) per pass. Row blocks of one column group that lie in one
array follow one another; in different arrays they run in the same pass, and their partial sums meet outside.

Sets
    g, h column groups;  r in R_g row blocks of group g, each of which multiplies input slice r;  t = 1 .. S passes
Data (integers)
    K arrays, S row blocks that an array holds (and passes it needs for them), I input slices that can be sent in one pass,
    alpha_g, beta_g weights of the first and of the last partial result of a group
Variables
    x_grt in {0,1}  row block r of g runs in pass t;  v_rt in [0,1]  slice r is sent in pass t
    e_gt in {0,1}  the first partial result of g comes in pass t;  L_g  pass of its last one

    minimise  sum_g ( alpha_g sum_t t e_gt + beta_g L_g )                                               [weighted passes]
    (1)  sum_t x_grt = 1
    (2)  sum_gr x_grt <= K   for every t
    (3)  x_grt <= v_rt ;  sum_r v_rt <= I   for every t
    (4)  L_g >= sum_t t x_grt   for every r in R_g
    (5)  sum_t e_gt = 1 ;  e_gt <= sum_r x_grt
    (6)  L_g <= L_h ;           for successive groups g < h with the same row blocks and weights

The third level of CIM-MLC (arXiv 2401.12428). Arrays, and positions in an array, are alike: (2) counts them, and the row
blocks of a pass are dealt to the arrays in order, which fills none beyond S.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyomo.core as pyo

from formulations.blocks import Expr, add_rows, at_least, capacity, choices, chosen, linear, one_each


@dataclass(frozen=True)
class ColumnGroup:
    """``slices`` R of the input, one row block each; ``first_weight`` alpha, ``last_weight`` beta."""

    slices: tuple[int, ...]
    first_weight: int = 1
    last_weight: int = 1


@dataclass(frozen=True)
class RemappingProblem:
    """``arrays`` K of ``passes`` S row blocks each; ``slices_per_pass`` I."""

    groups: tuple[ColumnGroup, ...]
    arrays: int
    passes: int
    slices_per_pass: int


Passes = tuple[tuple[int, ...], ...]  # from 1 on, of each row block of each group


def build_remapping(problem: RemappingProblem) -> pyo.ConcreteModel:
    """The program of ``problem``. ValueError if a group has no row block."""
    if not problem.groups or not all(group.slices for group in problem.groups):
        raise ValueError("every column group has at least one row block")
    model = pyo.ConcreteModel(name="remapping")
    blocks, passes, groups = _blocks(problem), range(1, problem.passes + 1), range(len(problem.groups))
    slices = sorted({r for _, r in blocks})
    model.x = choices([passes for _ in blocks])
    model.e = choices([passes for _ in groups])
    model.v = pyo.Var(slices, passes, bounds=(0, 1))
    model.L = pyo.Var(groups, bounds=(1, problem.passes))
    add_rows(model, "one_choice", one_each(model.x, [passes for _ in blocks]))
    for name, rows in (
        ("arrays", _arrays(model, problem, blocks)),
        ("inputs", _inputs(model, problem, blocks, slices)),
        ("results", _results(model, problem, blocks)),
        ("symmetry", _symmetry(model, problem)),
    ):
        add_rows(model, name, rows)
    first = [(float(own.first_weight * t), model.e[g, t]) for g, own in enumerate(problem.groups) for t in passes]
    last = [(float(own.last_weight), model.L[g]) for g, own in enumerate(problem.groups)]
    model.objective = pyo.Objective(expr=linear([*first, *last]))
    return model


def read_remapping(model: pyo.ConcreteModel, problem: RemappingProblem) -> Passes:
    """The pass of each row block. ValueError if the model has no values (nothing was solved)."""
    blocks = _blocks(problem)
    taken = chosen(model.x, [range(1, problem.passes + 1) for _ in blocks])
    own = dict(zip(blocks, taken, strict=True))
    return tuple(tuple(own[g, r] for r in group.slices) for g, group in enumerate(problem.groups))


def place_row_blocks(problem: RemappingProblem, passes: Passes) -> tuple[tuple[int, ...], ...]:
    """An array for each row block: those of a pass in order."""
    used = [0] * (problem.passes + 1)
    placed = []
    for own in passes:
        arrays = []
        for t in own:
            arrays.append(used[t])
            used[t] += 1
        placed.append(tuple(arrays))
    return tuple(placed)


def evaluate_remapping(problem: RemappingProblem, passes: Passes) -> int:
    """Weighted passes until the first and the last results. ValueError, naming the constraint, if one is violated."""
    sent: list[set[int]] = [set() for _ in range(problem.passes + 1)]
    used = [0] * (problem.passes + 1)
    total = 0
    for g, (group, own) in enumerate(zip(problem.groups, passes, strict=True)):
        if len(own) != len(group.slices) or any(not 1 <= t <= problem.passes for t in own):
            raise ValueError(f"(1) group {g}: every row block runs in one of {problem.passes} passes, not in {own}")
        for r, t in zip(group.slices, own, strict=True):
            used[t] += 1
            sent[t].add(r)
        total += group.first_weight * min(own) + group.last_weight * max(own)
    if max(used) > problem.arrays:
        raise ValueError(f"(2) arrays: {max(used)} used in one pass, {problem.arrays} available")
    most = max(map(len, sent))
    if most > problem.slices_per_pass:
        raise ValueError(f"(3) input slices: {most} sent in one pass, {problem.slices_per_pass} can be")
    return total


def _blocks(problem: RemappingProblem) -> list[tuple[int, int]]:
    return [(g, r) for g, group in enumerate(problem.groups) for r in group.slices]


def _arrays(model: pyo.ConcreteModel, problem: RemappingProblem, blocks: list[tuple[int, int]]) -> Iterator[Expr]:
    """(2)."""
    for t in range(1, problem.passes + 1):
        yield from capacity([(1.0, model.x[n, t]) for n in range(len(blocks))], problem.arrays, none=model.L[0])


def _inputs(
    model: pyo.ConcreteModel, problem: RemappingProblem, blocks: list[tuple[int, int]], slices: list[int]
) -> Iterator[Expr]:
    """(3)."""
    for t in range(1, problem.passes + 1):
        for n, (_, r) in enumerate(blocks):
            yield model.x[n, t] <= model.v[r, t]
        yield from capacity([(1.0, model.v[r, t]) for r in slices], problem.slices_per_pass, none=model.L[0])


def _results(model: pyo.ConcreteModel, problem: RemappingProblem, blocks: list[tuple[int, int]]) -> Iterator[Expr]:
    """(4), (5)."""
    passes = range(1, problem.passes + 1)
    yield from one_each(model.e, [passes for _ in problem.groups])
    for g in range(len(problem.groups)):
        own = [n for n, (group, _) in enumerate(blocks) if group == g]
        yield from at_least(model.L[g], (linear([(float(t), model.x[n, t]) for t in passes]) for n in own))
        for t in passes:
            yield model.e[g, t] <= linear([(1.0, model.x[n, t]) for n in own])


def _symmetry(model: pyo.ConcreteModel, problem: RemappingProblem) -> Iterator[Expr]:
    """(6)."""
    last: dict[ColumnGroup, int] = {}
    for g, group in enumerate(problem.groups):
        if group in last:
            yield model.L[last[group]] <= model.L[g]
        last[group] = g
