r"""Staggered activation: the fewest arrays active at the same moment that meet a deadline close to the best makespan (Pyomo).

Sets
    g, h batches of activations that are alike;  t slots of ``unit`` cycles, the greatest common divisor of all times
Data (integers, in slots)
    n_g activations, a_g arrays active in each, p_g duration, r_g when their input arrives at the earliest, h -> g batches whose
    results g consumes, in step: no larger share of g may have started than of h has ended;
    E deadline floor((1 + eps) best), II period with which everything repeats (none: it does not)
Variables
    x_gt >= 0 whole  activations of g that start in slot t, r_g <= t <= E - p_g;  P  arrays active at once, at most

    minimise  P                                                                                         [arrays]
    (1)  sum_t x_gt = n_g
    (2)  P >= sum_g a_g sum { x_gt' : g started in t' is active in slot t, t' = t, t-1, .., t-p_g+1 (modulo II) }   for every t
    (3)  n_h sum_{t' <= t} x_gt' <= n_g sum_{t' <= t - p_h} x_ht'   for every h -> g and t

The second level of CIM-MLC (arXiv 2401.12428). Activations that are alike are counted, not named, so that none of their n_g!
orders is searched. Starts in whole slots lose nothing: rounding all starts of a schedule down to slots delays none, keeps (3),
and makes active in slot t only what was active at its end. ``best`` is the makespan without a limit on the arrays.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import pyomo.core as pyo

from formulations.blocks import Expr, add_rows, at_least, linear, require_solution

MOST_SLOTS = 20_000


@dataclass(frozen=True)
class Batch:
    """``count`` n activations of ``arrays`` a for ``cycles`` p, not before ``ready`` r; ``inputs``: earlier batches."""

    count: int
    arrays: int
    cycles: int
    ready: int = 0
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class StaggeringProblem:
    """``batches`` in topological order; ``slack`` eps >= 0; ``period`` II in cycles (None: nothing repeats)."""

    batches: tuple[Batch, ...]
    slack: Fraction = Fraction(0)
    period: int | None = None


Starts = tuple[tuple[int, ...], ...]  # cycles, ascending, of each batch


def earliest_starts(problem: StaggeringProblem) -> Starts:
    """Every activation as early as its inputs allow, whatever is active at the same time. ValueError for a malformed problem."""
    starts: list[tuple[int, ...]] = []
    for g, batch in enumerate(problem.batches):
        if batch.count < 1 or batch.cycles < 1 or any(not 0 <= h < g for h in batch.inputs):
            raise ValueError(f"not a batch after its inputs: {batch}")
        starts.append(
            tuple(max(batch.ready, *_available(problem, batch, q, starts), 0) for q in range(1, batch.count + 1))
        )
    return tuple(starts)


def deadline(problem: StaggeringProblem) -> int:
    """``floor((1 + slack) best)`` in cycles."""
    return math.floor((1 + problem.slack) * _makespan(problem, earliest_starts(problem)))


def evaluate_staggering(problem: StaggeringProblem, starts: Starts) -> int:
    """Arrays active at once, at most. ValueError, naming the constraint, if ``starts`` violate one."""
    latest = deadline(problem)
    active: Counter[int] = Counter()
    for g, (batch, own) in enumerate(zip(problem.batches, starts, strict=True)):
        if len(own) != batch.count or list(own) != sorted(own) or own[0] < batch.ready:
            raise ValueError(f"(1) batch {g}: {batch.count} activations from {batch.ready} on, not {own}")
        if own[-1] + batch.cycles > latest:
            raise ValueError(f"(1) batch {g} ends at {own[-1] + batch.cycles}, after the deadline {latest}")
        for q, start in enumerate(own, 1):
            if start < max(_available(problem, batch, q, list(starts)), default=0):
                raise ValueError(f"(3) batch {g}: activation {q} starts at {start}, before its inputs are there")
            for cycle in range(start, start + batch.cycles):
                active[cycle if problem.period is None else cycle % problem.period] += batch.arrays
    return max(active.values(), default=0)


def build_staggering(problem: StaggeringProblem) -> pyo.ConcreteModel:
    """The program of ``problem``. ValueError if that is malformed or has more than ``MOST_SLOTS`` slots."""
    latest = deadline(problem)
    unit = math.gcd(*(b.cycles for b in problem.batches), *(b.ready for b in problem.batches), problem.period or 0)
    last = latest // unit
    if last > MOST_SLOTS:
        raise ValueError(
            f"{last} slots of {unit} cycles, more than {MOST_SLOTS}: give times with a larger common divisor"
        )
    model = pyo.ConcreteModel(name="staggering")
    model.unit = unit
    slots = [(g, t) for g, b in enumerate(problem.batches) for t in range(b.ready // unit, last - b.cycles // unit + 1)]
    model.x = pyo.Var(slots, domain=pyo.NonNegativeIntegers)
    for (g, _), activated in model.x.items():
        activated.setub(problem.batches[g].count)
    model.P = pyo.Var(bounds=(max(b.arrays for b in problem.batches), None))
    own = {g: [t for _, t in group] for g, group in itertools.groupby(slots, key=lambda slot: slot[0])}
    counts = (linear([(1.0, model.x[g, t]) for t in own[g]]) == b.count for g, b in enumerate(problem.batches))
    add_rows(model, "counts", counts)
    add_rows(model, "peak", at_least(model.P, _active(model, problem, last)))
    add_rows(model, "inputs", _inputs(model, problem, own))
    model.objective = pyo.Objective(expr=model.P)
    return model


def read_staggering(model: pyo.ConcreteModel, problem: StaggeringProblem) -> Starts:
    """The starts that the values of ``model`` stand for. ValueError if the model has no values (nothing was solved)."""
    require_solution(model.x)
    starts: list[list[int]] = [[] for _ in problem.batches]
    for (g, t), count in model.x.items():
        starts[g] += [t * model.unit] * round(count.value)
    return tuple(map(tuple, starts))


def _makespan(problem: StaggeringProblem, starts: Starts) -> int:
    return max(own[-1] + batch.cycles for own, batch in zip(starts, problem.batches, strict=True))


def _available(problem: StaggeringProblem, batch: Batch, q: int, starts: list[tuple[int, ...]]) -> list[int]:
    """(3) When the share of each input is there that activation number ``q`` (from 1) of ``batch`` needs."""
    needed = ((h, -(-q * problem.batches[h].count // batch.count)) for h in batch.inputs)
    return [starts[h][share - 1] + problem.batches[h].cycles for h, share in needed]


def _active(model: pyo.ConcreteModel, problem: StaggeringProblem, last: int) -> Iterator[Expr]:
    """(2) What is active in each slot (of the period)."""
    period = last if problem.period is None else problem.period // model.unit
    terms: list[list[tuple[float, Expr]]] = [[] for _ in range(min(last, period))]
    for (g, t), count in model.x.items():
        batch = problem.batches[g]
        for slot, times in Counter((t + n) % period for n in range(batch.cycles // model.unit)).items():
            terms[slot].append((float(batch.arrays * times), count))
    for own in terms:
        if own:
            yield linear(own)


def _inputs(model: pyo.ConcreteModel, problem: StaggeringProblem, own: dict[int, list[int]]) -> Iterator[Expr]:
    """(3)."""
    for g, batch in enumerate(problem.batches):
        for h in batch.inputs:
            source = problem.batches[h]
            for t in own[g]:
                started = [(float(source.count), model.x[g, early]) for early in own[g] if early <= t]
                ended = [(-float(batch.count), model.x[h, s]) for s in own[h] if s + source.cycles // model.unit <= t]
                yield linear([*started, *ended]) <= 0
