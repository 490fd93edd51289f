"""SCIP as OR-Tools ships it (GSCIP), through MathOpt."""

from __future__ import annotations

import datetime
import math
import queue
from collections.abc import Callable, Mapping
from typing import Any

from ortools.math_opt.python import mathopt
from ortools.math_opt.solvers.gscip import gscip_pb2
from ortools.util.python.solve_interrupter import SolveInterrupter

from solvers.errors import SolverFailure, UnknownOption
from solvers.program import LinearProgram, Outcome, Settings
from solvers.result import Feature, Termination
from solvers.running import Ended, stderr_to_list, supervise, unbounded_or_infeasible

_TERMINATION = {
    mathopt.TerminationReason.OPTIMAL: Termination.OPTIMAL,
    mathopt.TerminationReason.INFEASIBLE: Termination.INFEASIBLE,
    mathopt.TerminationReason.UNBOUNDED: Termination.UNBOUNDED,
}
_UNCLEAR = (mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED, mathopt.TerminationReason.UNBOUNDED)
_LIMITED = {
    mathopt.Limit.TIME: Termination.TIME_LIMIT,
    mathopt.Limit.INTERRUPTED: Termination.INTERRUPTED,
}


class Scip:
    """Backend ``scip``. ``options`` are SCIP's own (``limits/nodes``): int, float, bool or str as SCIP declares them.

    SCIP writes some errors on stderr; while it runs, what this process writes there goes to the result's log.
    """

    lacks: frozenset[Feature] = frozenset()
    reads_model = False

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Solve with a fresh model."""
        if any(low > high for low, high in zip(program.lower, program.upper, strict=True)):
            return Outcome(Termination.INFEASIBLE, None, None)  # MathOpt refuses such a variable
        model, variables = _model(program)
        lines: list[str] = []
        incumbents: queue.SimpleQueue[float] = queue.SimpleQueue()
        interrupter = SolveInterrupter()
        results: list[mathopt.SolveResult] = []
        extra: dict[str, Any] = {}
        if settings.on_incumbent is not None:
            extra = {
                "callback_reg": mathopt.CallbackRegistration(events={mathopt.Event.MIP_SOLUTION}),
                "cb": _incumbent_callback(program, variables, incumbents),
            }
        hints = [
            mathopt.SolutionHint(variable_values={variables[column]: x for column, x in sorted(start.items())})
            for start in [settings.warm_start]
            if start
        ]

        def work() -> None:
            try:
                results.append(
                    mathopt.solve(
                        model,
                        mathopt.SolverType.GSCIP,
                        params=_parameters(settings),
                        model_params=mathopt.ModelSolveParameters(solution_hints=hints),
                        msg_cb=lines.extend,
                        interrupter=interrupter,
                        **extra,
                    )
                )
            except Exception as error:  # MathOpt raises AttributeError; what went wrong is the context
                raise _translated(error, settings.options, lines) from error

        with stderr_to_list(lines):
            ended = supervise(work, interrupter.interrupt, settings, incumbents)
        return self._outcome(program, settings, variables, results[0], ended, "\n".join(lines))

    def _outcome(
        self,
        program: LinearProgram,
        settings: Settings,
        variables: list[mathopt.Variable],
        result: mathopt.SolveResult,
        ended: Ended,
        log: str,
    ) -> Outcome:
        reason, limit = result.termination.reason, result.termination.limit
        termination = _TERMINATION.get(reason) or _LIMITED.get(limit, Termination.ERROR)
        if termination is Termination.INTERRUPTED and ended.overrun:
            termination = Termination.TIME_LIMIT
        if reason in _UNCLEAR and (any(program.integer) or reason is not mathopt.TerminationReason.UNBOUNDED):
            termination = unbounded_or_infeasible(self, program, settings)
        if termination in (Termination.INFEASIBLE, Termination.UNBOUNDED):
            return Outcome(termination, None, None, result.solve_stats.node_count, log)
        values = None
        if result.has_primal_feasible_solution():
            found = result.variable_values()
            values = [float(found[variable]) for variable in variables]
        dual = result.termination.objective_bounds.dual_bound
        bound = float(dual) if math.isfinite(dual) and abs(dual) < _INFINITY else None
        return Outcome(termination, values, bound, result.solve_stats.node_count, log)


_INFINITY = 1e20  # SCIP's


def _model(program: LinearProgram) -> tuple[mathopt.Model, list[mathopt.Variable]]:
    model = mathopt.Model()
    variables = [
        model.add_variable(lb=low, ub=high, is_integer=whole)
        for low, high, whole in zip(program.lower, program.upper, program.integer, strict=True)
    ]
    for r, (low, high) in enumerate(zip(program.row_lower, program.row_upper, strict=True)):
        row = model.add_linear_constraint(lb=low, ub=high)
        for column, a in program.row(r):
            row.set_coefficient(variables[column], a)
    for variable, c in zip(variables, program.cost, strict=True):
        model.objective.set_linear_coefficient(variable, c)
    model.objective.offset = program.offset
    model.objective.is_maximize = program.maximise
    return model, variables


def _parameters(settings: Settings) -> mathopt.SolveParameters:
    """MathOpt's parameters. UnknownOption for a value of a type that SCIP has no parameters of."""
    own = gscip_pb2.GScipParameters()
    for name, value in settings.options.items():
        if isinstance(value, bool):
            own.bool_params[name] = value
        elif isinstance(value, int):
            own.int_params[name] = value
        elif isinstance(value, float):
            own.real_params[name] = value
        else:
            own.string_params[name] = value
    limit = None if settings.time_limit is None else datetime.timedelta(seconds=settings.time_limit)
    return mathopt.SolveParameters(
        time_limit=limit,
        relative_gap_tolerance=settings.gap,
        threads=settings.threads,
        random_seed=settings.seed,
        gscip=own,
    )


def _incumbent_callback(
    program: LinearProgram, variables: list[mathopt.Variable], into: queue.SimpleQueue[float]
) -> Callable[[mathopt.CallbackData], mathopt.CallbackResult]:
    best: list[float] = []

    def report(data: mathopt.CallbackData) -> mathopt.CallbackResult:
        if data.solution is not None:  # SCIP reports every solution, better or not
            objective = program.objective([data.solution.get(variable, 0.0) for variable in variables])
            if not best or (objective > best[0] if program.maximise else objective < best[0]):
                best[:] = [objective]
                into.put(objective)
        return mathopt.CallbackResult()

    return report


def _translated(
    error: Exception, options: Mapping[str, bool | int | float | str], lines: list[str]
) -> UnknownOption | SolverFailure:
    """What a failed status of MathOpt means."""
    text = " ".join(str(error.__context__ or error).split())
    if "Param(" in text:
        given = ", ".join(f"{name} = {value!r}" for name, value in options.items())
        return UnknownOption(
            f"SCIP refuses an option of {given}: no parameter of that name, type or value ({text[:160]})"
        )
    return SolverFailure(f"SCIP failed: {text[:300]}")
