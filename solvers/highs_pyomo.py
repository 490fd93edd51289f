"""HiGHS through Pyomo's own interface: a second way from a model to HiGHS, which shares no reader with ``highs``."""

from __future__ import annotations

import logging
from typing import Any

from pyomo.contrib.solver.common.results import SolutionStatus, TerminationCondition
from pyomo.contrib.solver.solvers.highs import Highs as PyomoInterface

from solvers.errors import SolverFailure
from solvers.highs import Highs, check_options, release_scheduler
from solvers.program import LinearProgram, Outcome, Settings
from solvers.result import Feature, Termination
from solvers.running import supervise, unbounded_or_infeasible

_TERMINATION = {
    TerminationCondition.convergenceCriteriaSatisfied: Termination.OPTIMAL,
    TerminationCondition.provenInfeasible: Termination.INFEASIBLE,
    TerminationCondition.unbounded: Termination.UNBOUNDED,
    TerminationCondition.maxTimeLimit: Termination.TIME_LIMIT,
}
_UNCLEAR = (TerminationCondition.infeasibleOrUnbounded, TerminationCondition.unbounded)


class HighsPyomo:
    """Backend ``highs-pyomo``. ``options`` are those of HiGHS. Pyomo passes neither a start nor incumbents on."""

    lacks: frozenset[Feature] = frozenset({Feature.WARM_START, Feature.INCUMBENTS})
    reads_model = True

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Solve the Pyomo model that ``program`` was read from; a program without one goes to ``highs``."""
        if program.source is None:
            return Highs().solve(program, settings)
        check_options(settings.options)  # Pyomo would ignore what HiGHS refuses
        model, variables = program.source
        interface = _configured(settings)
        found: list[Any] = []

        def work() -> None:
            level = _LOG.level
            _LOG.setLevel(logging.ERROR)  # a warning for every termination that Pyomo has no name for
            try:
                found.append(interface.solve(model))
            finally:
                _LOG.setLevel(level)
                release_scheduler()

        ended = supervise(work, lambda: _cancel(interface), settings)
        results = found[0]
        termination = _TERMINATION.get(results.termination_condition, Termination.ERROR)
        if ended.interrupted and termination is not Termination.OPTIMAL:
            termination = Termination.INTERRUPTED
        elif ended.overrun and termination is Termination.ERROR:
            termination = Termination.TIME_LIMIT
        elif results.termination_condition in _UNCLEAR:
            termination = unbounded_or_infeasible(self, program, settings)
        values = None
        nothing = termination in (Termination.INFEASIBLE, Termination.UNBOUNDED)
        if results.solution_status in (SolutionStatus.optimal, SolutionStatus.feasible) and not nothing:
            results.solution_loader.load_vars()
            values = _values(program, variables)
        bound = None if nothing or results.objective_bound is None else float(results.objective_bound)
        nodes = getattr(results.extra_info, "mip_node_count", 0)
        return Outcome(termination, values, bound, max(0, nodes), results.solver_log or "")


_LOG = logging.getLogger("pyomo.contrib.solver.solvers.highs")


def _configured(settings: Settings) -> Any:
    interface = PyomoInterface()
    config = interface.config
    config.raise_exception_on_nonoptimal_result = False
    config.load_solutions = False
    config.threads = settings.threads
    config.rel_gap = settings.gap
    config.time_limit = settings.time_limit
    config.solver_options = {"random_seed": settings.seed, **settings.options}
    return interface


def _cancel(interface: Any) -> None:
    """Pyomo has no call for this; its HiGHS object has."""
    if (running := getattr(interface, "_solver_model", None)) is not None:
        running.cancelSolve()


def _values(program: LinearProgram, variables: list[Any]) -> list[float]:
    """Loaded values; a column without a cost or a row is unknown to Pyomo's interface and takes its value nearest to 0."""
    used = set(program.columns)
    values = []
    for column, var in enumerate(variables):
        if column in used or program.cost[column]:
            if var.value is None:
                raise SolverFailure(f"Pyomo loaded no value for {var.name}")
            values.append(float(var.value))
        else:
            values.append(min(max(0.0, program.lower[column]), program.upper[column]))
    return values
