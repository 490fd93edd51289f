"""One call for every backend."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from solvers.errors import SolverFailure
from solvers.program import LinearProgram, Outcome, Settings, read_model
from solvers.registry import get_solver
from solvers.result import SolveResult, Status, Termination

FEASIBILITY = 1e-5  # relative violation that an incumbent may have; the exact re-cost is the formulation's
GAP_SLACK = 1e-9  # rounding of a gap; and relative to the objective, HiGHS's own absolute tolerance


def solve(
    model: Any,
    solver: str = "highs",
    time_limit: float | None = None,
    gap: float = 0.0,
    threads: int = 1,
    seed: int = 0,
    warm_start: Mapping[str, float] | None = None,
    options: Mapping[str, bool | int | float | str] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SolveResult:
    """Solve a Pyomo mixed integer linear ``model`` and load the incumbent's values into it, if there is one.

    ``time_limit`` in seconds; ``gap`` relative; ``warm_start`` by variable name, complete or not; ``options`` are the backend's
    own. ``should_stop`` is asked several times a second; KeyboardInterrupt does the same as its True: the solve ends with
    its incumbent and termination ``interrupted``.

    Raises UnknownSolver, UnknownOption (both ValueError), SolverUnavailable, and SolverFailure if the model is not a linear
    program or the backend's incumbent is not feasible. ValueError for a negative limit or gap, or an unknown start name.
    """
    if (time_limit is not None and time_limit < 0) or gap < 0 or threads < 1:
        raise ValueError(f"time_limit {time_limit}, gap {gap}, threads {threads}: not a usable setting")
    backend = get_solver(solver)
    began = time.perf_counter()
    program, variables = read_model(model)
    built = time.perf_counter()
    broken = _trivially_infeasible(program)
    if broken:
        return _result(program, Outcome(Termination.INFEASIBLE, None, None, log=broken), gap, (0.0, 0.0, built - began))
    settings = Settings(time_limit, gap, threads, seed, _start(program, warm_start), options or {}, should_stop)
    cpu = time.process_time()
    outcome = backend.solve(program, settings)
    seconds = time.perf_counter() - built, time.process_time() - cpu, built - began
    result = _result(program, outcome, gap, seconds)
    if outcome.values is not None:
        for var, name in zip(variables, program.names, strict=True):
            var.set_value(result.values[name], skip_validation=True)
    return result


def solve_linear(program: LinearProgram, solver: str = "highs") -> Outcome:
    """Solve a linear program given as arrays; its ``prices`` are, minimising, not negative for rows with a lower bound.

    Raises UnknownSolver (a ValueError) and SolverUnavailable; ValueError if a variable is integer.
    """
    if any(program.integer):
        raise ValueError("solve_linear takes a program without integer variables")
    return get_solver(solver).solve(program, Settings())


def _trivially_infeasible(program: LinearProgram) -> str:
    """Name of a row without variables that does not hold, or an empty string."""
    for r, name in enumerate(program.row_names):
        if program.starts[r] == program.starts[r + 1] and not program.row_lower[r] <= 0.0 <= program.row_upper[r]:
            return f"{name} has no variables and does not hold"
    return ""


def _start(program: LinearProgram, warm_start: Mapping[str, float] | None) -> dict[int, float] | None:
    if warm_start is None:
        return None
    number = {name: column for column, name in enumerate(program.names)}
    unknown = [name for name in warm_start if name not in number]
    if unknown:
        raise ValueError(f"the warm start names {unknown[0]!r}, which the model has not")
    return {number[name]: x for name, x in warm_start.items()}


def _result(program: LinearProgram, outcome: Outcome, gap: float, seconds: tuple[float, float, float]) -> SolveResult:
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
        termination = Termination.ERROR
    wall, cpu, build = seconds
    return SolveResult(
        termination, status, objective, outcome.bound, reached, wall, cpu, build, values, outcome.nodes, outcome.log
    )


def _gap(objective: float, bound: float | None) -> float | None:
    if bound is None or not math.isfinite(bound):
        return None
    if objective == bound:
        return 0.0
    return abs(objective - bound) / abs(objective) if objective else None
