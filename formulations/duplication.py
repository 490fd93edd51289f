r"""Copies of the stages of a pipeline under a budget of cores (Pyomo).

Sets
    i stages;  d in D_i numbers of copies at which the time of stage i falls
Data (integers)
    M_i items of work, tau_i cycles of one item, a_i arrays of one copy, U arrays of a core, B cores,
    v_i units that stage i moves over the shared port once, e_i units for each of its copies, D units per cycle of the port
Variables
    y_id in {0,1}  stage i has d copies;  T cycles, in units of ``model.unit`` cycles

    minimise  T                                                                                         [cycles]
    (1)  sum_d y_id = 1
    (2)  sum_i sum_d ceil(a_i d / U) y_id <= B
    (3)  pipelined:  T >= sum_d ceil(M_i / d) tau_i y_id   for every i ;
         one after another:  T >= sum_i sum_d ceil(M_i / d) tau_i y_id
    (4)  D T >= sum_i v_i + sum_i sum_d e_i d y_id

The first of the three levels of CIM-MLC (arXiv 2401.12428), which trims for bandwidth afterwards; here (4) is in the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import pyomo.core as pyo

from formulations.blocks import Expr, add_rows, capacity, choices, chosen, linear, makespan, one_each, shared, time_unit
from formulations.stagetime import ceil_div


@dataclass(frozen=True)
class DuplicatedStage:
    """``items`` M, ``item_cycles`` tau, ``arrays`` a of one copy (0: the stage has one copy and needs no
    core); ``traffic`` v and ``copy_traffic`` e in units of the port."""

    items: int
    item_cycles: int
    arrays: int
    traffic: int = 0
    copy_traffic: int = 0

    def cycles(self, copies: int) -> int:
        """What the stage takes with ``copies``."""
        return ceil_div(self.items, copies) * self.item_cycles


@dataclass(frozen=True)
class DuplicationProblem:
    """``cores`` of ``core_arrays`` arrays each, a copy of one stage never sharing a core with another stage.

    ``port_rate`` in units per cycle (None: no shared port); ``pipelined``: the slowest stage counts, else the sum of all.
    """

    stages: tuple[DuplicatedStage, ...]
    cores: int
    core_arrays: int = 1
    port_rate: int | None = None
    pipelined: bool = True


def copy_options(problem: DuplicationProblem, i: int) -> tuple[int, ...]:
    """The numbers of copies of stage i at which it is faster than with fewer and which the chip holds; 1 at least."""
    stage = problem.stages[i]
    most = problem.cores * problem.core_arrays // stage.arrays if stage.arrays else 1
    return tuple(
        d for d in range(1, min(most, stage.items) + 1) if d == 1 or stage.cycles(d) < stage.cycles(d - 1)
    ) or (1,)


def build_duplication(problem: DuplicationProblem) -> pyo.ConcreteModel:
    """The program of ``problem``; ``model.y[i, d]`` are the choices."""
    model = pyo.ConcreteModel(name="duplication")
    add_copies(model, problem)
    cores = [(float(_cores(problem, i, d)), chosen_copies) for (i, d), chosen_copies in model.y.items()]
    add_rows(model, "cores", capacity(cores, problem.cores, none=model.T))
    model.objective = pyo.Objective(expr=model.unit * model.T)
    return model


def add_copies(model: pyo.ConcreteModel, problem: DuplicationProblem) -> None:
    """All but the budget (2) and the objective: ``y``, ``T`` and ``unit`` of ``model`` with (1), (3) and (4)."""
    options = [copy_options(problem, i) for i in range(len(problem.stages))]
    model.unit = time_unit(max(s.cycles(own[-1]) for s, own in zip(problem.stages, options, strict=True)))
    model.y = choices(options)
    model.T = pyo.Var(domain=pyo.NonNegativeReals, bounds=(0, float(_longest(problem, options)) / model.unit))
    add_rows(model, "one_choice", one_each(model.y, options))
    add_rows(model, "time", _time(model, problem, options))


def _longest(problem: DuplicationProblem, options: list[tuple[int, ...]]) -> Fraction:
    """Cycles that no choice exceeds: the fewest copies one after another, and the traffic of the most."""
    times = sum(stage.cycles(own[0]) for stage, own in zip(problem.stages, options, strict=True))
    if problem.port_rate is None:
        return Fraction(times)
    moved = sum(s.traffic + s.copy_traffic * own[-1] for s, own in zip(problem.stages, options, strict=True))
    return times + Fraction(moved, problem.port_rate)


def read_duplication(model: pyo.ConcreteModel, problem: DuplicationProblem) -> tuple[int, ...]:
    """Copies of each stage. ValueError if the model has no values (nothing was solved)."""
    return chosen(model.y, [copy_options(problem, i) for i in range(len(problem.stages))])


def evaluate_duplication(problem: DuplicationProblem, copies: tuple[int, ...]) -> Fraction:
    """Exact cycles with ``copies``. ValueError, naming the constraint, if they violate one."""
    cycles = copied_cycles(problem, copies)
    cores = sum(_cores(problem, i, d) for i, d in enumerate(copies))
    if cores > problem.cores:
        raise ValueError(f"(2) cores: {cores} used, {problem.cores} available")
    return cycles


def copied_cycles(problem: DuplicationProblem, copies: tuple[int, ...]) -> Fraction:
    """Exact cycles with ``copies``, whether or not they fit the cores. ValueError if they violate (1)."""
    if len(copies) != len(problem.stages) or min(copies, default=1) < 1:
        raise ValueError("(1): every stage has at least one copy")
    for i, (stage, d) in enumerate(zip(problem.stages, copies, strict=True)):
        if d > 1 and not stage.arrays:
            raise ValueError(f"(1) stage {i} has no arrays, and cannot have {d} copies")
    times = [stage.cycles(d) for stage, d in zip(problem.stages, copies, strict=True)]
    total = Fraction(max(times) if problem.pipelined else sum(times))
    if problem.port_rate is None:
        return total
    moved = sum(stage.traffic + stage.copy_traffic * d for stage, d in zip(problem.stages, copies, strict=True))
    return max(total, Fraction(moved, problem.port_rate))


def _cores(problem: DuplicationProblem, i: int, copies: int) -> int:
    return ceil_div(problem.stages[i].arrays * copies, problem.core_arrays)


def _time(model: pyo.ConcreteModel, problem: DuplicationProblem, options: list[tuple[int, ...]]) -> Iterator[Expr]:
    """(3), (4)."""
    stages = list(zip(problem.stages, options, strict=True))
    times = [linear([(s.cycles(d) / model.unit, model.y[i, d]) for d in own]) for i, (s, own) in enumerate(stages)]
    if problem.pipelined:
        yield from makespan(model.T, times)
    else:
        yield shared(times, model.T)
    if problem.port_rate is not None:
        rate = problem.port_rate * model.unit
        moved = [
            linear([(s.copy_traffic * d / rate, model.y[i, d]) for d in own], s.traffic / rate)
            for i, (s, own) in enumerate(stages)
        ]
        yield shared(moved, model.T)
