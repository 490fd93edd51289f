"""OR-Tools CP-SAT on a program in whole numbers, completed by a linear program over the continuous variables."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from typing import Any

from ortools.sat.python import cp_model

from solvers.errors import SolverFailure, UnknownOption, Unsuitable, nearest
from solvers.highs import Highs
from solvers.program import LinearProgram, Outcome, Settings
from solvers.result import Feature, Termination
from solvers.running import Ended, supervise
from solvers.scaling import WholeProgram, whole_program


class CpSat:
    """Backend ``cp-sat``. ``options`` are fields of SatParameters. All variables need finite bounds.

    Integers are searched by CP-SAT; the continuous variables take, for the integers found, their best values by linear
    programming. With continuous variables the bound allows for rounding (:mod:`solvers.scaling`), and a gap that is smaller than
    that ends with termination ``precision``. CP-SAT's presolve is off unless ``cp_model_presolve`` is given: with it OR-Tools
    9.15 calls solutions optimal that are not (or-tools issue 5293).
    """

    lacks: frozenset[Feature] = frozenset()
    reads_model = False

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Solve with a fresh model and solver."""
        parameters = _parameters(settings)
        if any(low > high for low, high in zip(program.lower, program.upper, strict=True)):
            return Outcome(Termination.INFEASIBLE, None, None)
        whole = whole_program(program)
        if any(low > high for low, high in zip(whole.lower, whole.upper, strict=True)):
            return Outcome(Termination.INFEASIBLE, None, None)
        model, variables, constant = _model(program, whole)
        invalid = model.validate()
        if invalid:
            raise Unsuitable(f"CP-SAT refuses the program: {' '.join(invalid.split())[:300]}")
        start = _complete(program, settings.warm_start or {}, settings)
        for column, x in sorted(start.items()):
            near = round(x / float(whole.grid[column]))
            model.add_hint(variables[column], min(max(near, whole.lower[column]), whole.upper[column]))
        solver = cp_model.CpSolver()
        solver.parameters = parameters
        lines: list[str] = []
        solver.log_callback = lines.append
        incumbents: queue.SimpleQueue[float] = queue.SimpleQueue()
        watch = _Incumbents(incumbents, lambda x: program.offset + (x - constant) / float(whole.cost_scale))
        statuses: list[cp_model.CpSolverStatus] = []
        ended = supervise(
            lambda: statuses.append(solver.solve(model, watch if settings.on_incumbent is not None else None)),
            solver.stop_search,
            settings,
            incumbents,
        )
        termination = _termination(statuses[0], ended, settings)
        log, nodes = "\n".join(lines), solver.num_branches
        if statuses[0] == cp_model.MODEL_INVALID:
            raise Unsuitable(f"CP-SAT refuses the program: {solver.solution_info()}")
        if termination is Termination.INFEASIBLE:
            return Outcome(termination, None, None, nodes, log)
        bound = _bound(program, whole, solver.best_objective_bound - constant)
        values = None
        if statuses[0] in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            found = [solver.value(variable) for variable in variables]
            values = _continuous(program, whole, found, settings)
        elif len(start) == len(variables):
            values = [start[column] for column in range(len(variables))]
        if values is None and termination is Termination.OPTIMAL:
            log += "\nthe integers found leave the continuous variables no value within the rounding of their rows\n"
            termination = Termination.ERROR
        return Outcome(termination, values, bound, nodes, log, rounded=not whole.exact)


class _Incumbents(cp_model.CpSolverSolutionCallback):
    def __init__(self, into: queue.SimpleQueue[float], unscaled: Any) -> None:
        super().__init__()
        self._into, self._unscaled = into, unscaled

    def on_solution_callback(self) -> None:
        """Called by CP-SAT in its thread."""
        self._into.put(self._unscaled(self.objective_value))


def _parameters(settings: Settings) -> Any:
    parameters = cp_model.SatParameters()
    parameters.num_workers = settings.threads
    parameters.random_seed = settings.seed
    parameters.relative_gap_limit = settings.gap
    parameters.log_search_progress = True
    parameters.log_to_stdout = False
    parameters.cp_model_presolve = False  # that of OR-Tools 9.15 cuts off optima of correct programs
    if settings.time_limit is not None:
        parameters.max_time_in_seconds = settings.time_limit
    known = [name for name in dir(parameters) if name.islower() and not name.startswith("_")]
    for name, value in settings.options.items():
        if name not in known:
            raise UnknownOption(f"CP-SAT has no option {name!r}{nearest(name, known)}")
        current = getattr(parameters, name)
        if isinstance(current, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not type(current):
            kind = type(current).__name__
            raise UnknownOption(f"CP-SAT refuses {value!r} for option {name!r} (a {kind} such as {current!r})")
        setattr(parameters, name, value)
    return parameters


def _model(program: LinearProgram, whole: WholeProgram) -> tuple[cp_model.CpModel, list[cp_model.IntVar], int]:
    """The model, its variables by column, and the constant in its objective, which stands for the program's offset."""
    model = cp_model.CpModel()
    variables = [model.new_int_var(low, high, "") for low, high in zip(whole.lower, whole.upper, strict=True)]
    for row in whole.rows:
        total = cp_model.LinearExpr.weighted_sum([variables[column] for column in row.columns], list(row.coefficients))
        low = cp_model.INT_MIN if row.low is None else max(row.low, cp_model.INT_MIN)
        high = cp_model.INT_MAX if row.high is None else min(row.high, cp_model.INT_MAX)
        if low > high:
            model.add_bool_or([])  # no whole number lies between the two
        elif row.columns:
            model.add_linear_constraint(total, low, high)
        elif not low <= 0 <= high:
            model.add_bool_or([])
    constant = round(program.offset * whole.cost_scale)  # CP-SAT's gap is relative to the objective with the offset
    total = cp_model.LinearExpr.weighted_sum(variables, list(whole.costs)) + constant
    if not any(whole.costs):
        return model, variables, constant
    if program.maximise:
        model.maximize(total)
    else:
        model.minimize(total)
    return model, variables, constant


def _termination(status: cp_model.CpSolverStatus, ended: Ended, settings: Settings) -> Termination:
    if status == cp_model.OPTIMAL:
        return Termination.OPTIMAL
    if status == cp_model.INFEASIBLE:
        return Termination.INFEASIBLE
    if ended.interrupted:
        return Termination.INTERRUPTED
    return Termination.ERROR if settings.time_limit is None else Termination.TIME_LIMIT


def _bound(program: LinearProgram, whole: WholeProgram, found: float) -> float | None:
    """What a bound on the whole-number objective says about the program's."""
    if not any(program.cost):
        return program.offset
    if abs(found) >= 2.0**62:  # nothing was proven
        return None
    error = -float(whole.cost_error) if not program.maximise else float(whole.cost_error)
    return program.offset + (found + error) / float(whole.cost_scale)


def _continuous(
    program: LinearProgram, whole: WholeProgram, found: list[int], settings: Settings
) -> list[float] | None:
    """The values of all columns: the integers as found, the rest from a linear program; None if that has no solution."""
    if all(program.integer):
        return [float(x) for x in found]
    integers = {column: float(found[column]) for column, discrete in enumerate(program.integer) if discrete}
    return Highs().solve(program.with_fixed(integers), Settings(seed=settings.seed)).values


def _complete(program: LinearProgram, start: Mapping[int, float], settings: Settings) -> Mapping[int, float]:
    """``start`` with the best values of the continuous variables if it gives all integers and they are feasible."""
    integers = {c: float(round(start[c])) for c, discrete in enumerate(program.integer) if discrete and c in start}
    if not integers or len(integers) < sum(program.integer):
        return start
    try:
        values = Highs().solve(program.with_fixed(integers), Settings(seed=settings.seed)).values
    except SolverFailure:
        values = None
    return start if values is None else dict(enumerate(values))
