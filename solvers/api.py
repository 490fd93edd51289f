"""One call for every backend."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from solvers.conflict import find_conflict
from solvers.errors import SolverFailure, SolverUnavailable
from solvers.isolation import Isolated, isolate
from solvers.program import LinearProgram, Outcome, Settings, Solver, read_model
from solvers.registry import find_backend, find_installed, get_solver
from solvers.result import Attempt, Conflict, Feature, SolveResult, Status, Termination

FEASIBILITY = 1e-5  # relative violation that an incumbent may have; the exact re-cost is the formulation's
GAP_SLACK = 1e-9  # rounding of a gap; and relative to the objective, HiGHS's own absolute tolerance


def solve(
    model: Any,
    solver: str | Sequence[str] = "highs",
    time_limit: float | None = None,
    gap: float = 0.0,
    threads: int = 1,
    seed: int = 0,
    warm_start: Mapping[str, float] | None = None,
    options: Mapping[str, bool | int | float | str] | None = None,
    should_stop: Callable[[], bool] | None = None,
    on_incumbent: Callable[[float], None] | None = None,
    explain: bool = False,
    isolated: bool = False,
) -> SolveResult:
    """Solve a Pyomo mixed integer linear ``model`` and load the incumbent's values into it, if there is one.

    ``time_limit`` in seconds; ``gap`` relative; ``warm_start`` by variable name, complete or not; ``options`` are the backend's
    own (of a list, the first's). ``should_stop`` is asked several times a second; KeyboardInterrupt does the same as its True:
    the solve ends with its incumbent and termination ``interrupted``. ``on_incumbent`` is given the objective of each incumbent.
    ``explain``: if the program is infeasible, also find rows that conflict, in at most another time limit or 10 s.

    ``solver`` may be a list: when one fails (crashes, overruns, refuses, is not installed, gives up with nothing) the next gets
    the model and the whole time limit, and ``attempts`` of the result says so. ``isolated`` runs the backend in another process,
    so that a crash is a failure like any other and a backend that ignores its time limit or a wish to stop is ended.

    Raises UnknownSolver, UnknownOption (both ValueError), SolverUnavailable, and SolverFailure if the model is not a linear
    program or no backend has an answer. ValueError for a negative limit or gap, or an unknown start name.
    """
    if (time_limit is not None and time_limit < 0) or gap < 0 or threads < 1:
        raise ValueError(f"time_limit {time_limit}, gap {gap}, threads {threads}: not a usable setting")
    names = [solver] if isinstance(solver, str) else list(solver)
    if not names:
        raise ValueError("the list of solvers is empty")
    for name in names:
        find_backend(name)
    began = time.perf_counter()
    program, variables = read_model(model)
    build_seconds = time.perf_counter() - began
    settings = Settings(
        time_limit, gap, threads, seed, _start(program, warm_start), options or {}, should_stop, on_incumbent
    )
    attempts: list[Attempt] = []
    for name in names:
        last = name == names[-1]
        try:
            result = _attempt(name, program, settings, explain, isolated)
        except (SolverFailure, SolverUnavailable) as error:
            if last and not attempts:
                raise
            attempts.append(Attempt(name, str(error)))
            if last:
                raise SolverFailure("; ".join(f"{a.solver}: {a.reason}" for a in attempts)) from error
        else:
            if last or result.termination is not Termination.ERROR or result.status is not Status.NONE:
                break
            attempts.append(Attempt(name, "gave up without a solution"))
        settings = replace(settings, options={})
    for var, column in zip(variables, program.names if result.values else [], strict=False):
        var.set_value(result.values[column], skip_validation=True)
    return replace(result, attempts=tuple(attempts), build_seconds=build_seconds)


def solve_linear(program: LinearProgram, solver: str = "highs") -> Outcome:
    """Solve a linear program given as arrays; its ``prices`` are, minimising, not negative for rows with a lower bound.

    Raises UnknownSolver (a ValueError) and SolverUnavailable; ValueError if a variable is integer.
    """
    if any(program.integer):
        raise ValueError("solve_linear takes a program without integer variables")
    return get_solver(solver).solve(program, Settings())


def _attempt(name: str, program: LinearProgram, settings: Settings, explain: bool, isolated: bool) -> SolveResult:
    """What one backend makes of ``program``."""
    backend: Solver = isolate(find_installed(name)) if isolated else get_solver(name)
    began, cpu = time.perf_counter(), time.process_time()
    conflict = _trivial_conflict(program)
    outcome = Outcome(Termination.INFEASIBLE, None, None) if conflict else backend.solve(program, settings)
    seconds = time.perf_counter() - began, time.process_time() - cpu
    if isinstance(backend, Isolated):
        seconds = seconds[0], backend.cpu_seconds
    if explain and outcome.termination is Termination.INFEASIBLE and conflict is None:
        conflict = find_conflict(backend, program, settings)
    unsupported = tuple(feature for feature in _asked_for(settings) if feature in backend.lacks)
    result = _result(program, outcome, settings.gap, seconds)
    return replace(result, solver=name, unsupported=unsupported, conflict=conflict)


def _asked_for(settings: Settings) -> list[Feature]:
    asked = {
        Feature.WARM_START: bool(settings.warm_start),
        Feature.INCUMBENTS: settings.on_incumbent is not None,
        Feature.THREADS: settings.threads > 1,
        Feature.SEED: settings.seed != 0,
        Feature.EARLY_BOUND: settings.time_limit is not None,
    }
    return [feature for feature, wanted in asked.items() if wanted]


def _trivial_conflict(program: LinearProgram) -> Conflict | None:
    """A row without variables that does not hold."""
    for r, name in enumerate(program.row_names):
        if program.starts[r] == program.starts[r + 1] and not program.row_lower[r] <= 0.0 <= program.row_upper[r]:
            return Conflict((name,), minimal=True)
    return None


def _start(program: LinearProgram, warm_start: Mapping[str, float] | None) -> dict[int, float] | None:
    if warm_start is None:
        return None
    number = {name: column for column, name in enumerate(program.names)}
    unknown = [name for name in warm_start if name not in number]
    if unknown:
        raise ValueError(f"the warm start names {unknown[0]!r}, which the model has not")
    return {number[name]: x for name, x in warm_start.items()}


def _result(program: LinearProgram, outcome: Outcome, gap: float, seconds: tuple[float, float]) -> SolveResult:
    """Check and classify what the backend handed back."""
    objective = reached = None
    values: dict[str, float] = {}
    status = Status.NONE
    if outcome.values is not None:
        broken = program.violation(outcome.values, FEASIBILITY)
        if broken:
            raise SolverFailure(f"the solver reports an incumbent that is not feasible: {broken}")
        exact = [float(round(x)) if whole else x for x, whole in zip(outcome.values, program.integer, strict=True)]
        values = dict(zip(program.names, exact, strict=True))
        objective = program.objective(outcome.values)
        reached = _gap(objective, outcome.bound)
        near = reached is not None and reached <= gap + GAP_SLACK + 1e-6 / max(1.0, abs(objective))
        status = Status.OPTIMAL if outcome.termination is Termination.OPTIMAL and near else Status.FEASIBLE
    termination = outcome.termination
    if termination is Termination.OPTIMAL and status is not Status.OPTIMAL:
        termination = Termination.PRECISION if outcome.rounded and values else Termination.ERROR
    wall, cpu = seconds
    return SolveResult(
        termination, status, objective, outcome.bound, reached, wall, cpu, 0.0, values, outcome.nodes, outcome.log
    )


def _gap(objective: float, bound: float | None) -> float | None:
    if bound is None or not math.isfinite(bound):
        return None
    if objective == bound:
        return 0.0
    return abs(objective - bound) / abs(objective) if objective else None
