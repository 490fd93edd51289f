"""HiGHS through highspy, without an intermediate file or modelling layer."""

from __future__ import annotations

import queue
from collections.abc import Mapping

import highspy
import numpy as np

from solvers.errors import SolverFailure, UnknownOption, nearest
from solvers.program import LinearProgram, Outcome, Settings
from solvers.result import Feature, Termination
from solvers.running import supervise, unbounded_or_infeasible

_STATUS = highspy.HighsModelStatus
_TERMINATION = {
    _STATUS.kOptimal: Termination.OPTIMAL,
    _STATUS.kModelEmpty: Termination.OPTIMAL,
    _STATUS.kInfeasible: Termination.INFEASIBLE,
    _STATUS.kUnbounded: Termination.UNBOUNDED,
    _STATUS.kTimeLimit: Termination.TIME_LIMIT,
    _STATUS.kInterrupt: Termination.INTERRUPTED,
}


class _Quiet(highspy.Highs):
    """HiGHS that does not print its banner when it is made."""

    def enableCallbacks(self) -> None:
        """Called on construction, where HiGHS would print."""
        self.setOptionValue("log_to_console", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


class Highs:
    """Backend ``highs``. ``options`` are those of HiGHS, by their HiGHS names."""

    lacks: frozenset[Feature] = frozenset()
    reads_model = False

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Solve with a fresh HiGHS instance in a thread of its own, so that an interrupt always gets through."""
        solver = _instance(program, settings)
        lines: list[str] = []
        solver.cbLogging += lambda event: lines.append(event.message)
        termination = _run(solver, settings)
        discrete = any(program.integer)
        doubtful = solver.getModelStatus() == _STATUS.kUnboundedOrInfeasible
        if doubtful or (discrete and termination is Termination.UNBOUNDED):
            termination = unbounded_or_infeasible(self, program, settings)
        info = solver.getInfo()
        feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        values = None
        if feasible and termination not in (Termination.INFEASIBLE, Termination.UNBOUNDED):
            values = [float(x) for x in solver.getSolution().col_value]
        bound = None
        if discrete and termination not in (Termination.INFEASIBLE, Termination.UNBOUNDED):
            bound = float(info.mip_dual_bound) if abs(info.mip_dual_bound) < highspy.kHighsInf else None
        elif termination is Termination.OPTIMAL and values is not None:
            bound = program.objective(values)
        prices = None
        if not discrete and termination is Termination.OPTIMAL:
            prices = [float(x) for x in solver.getSolution().row_dual]
        return Outcome(termination, values, bound, max(0, info.mip_node_count), "".join(lines), prices)


def check_options(options: Mapping[str, bool | int | float | str]) -> None:
    """UnknownOption if HiGHS has no option of a name or refuses its value."""
    solver = _Quiet()  # type: ignore[no-untyped-call]
    for name, value in options.items():
        _set(solver, name, value)


def _instance(program: LinearProgram, settings: Settings) -> highspy.Highs:
    solver = _Quiet()  # type: ignore[no-untyped-call]
    _set(solver, "threads", settings.threads)
    _set(solver, "random_seed", settings.seed)
    _set(solver, "mip_rel_gap", settings.gap)
    if settings.time_limit is not None:
        _set(solver, "time_limit", settings.time_limit)
    for name, value in settings.options.items():
        _set(solver, name, value)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.cost), len(program.row_names)
    lp.sense_ = highspy.ObjSense.kMaximize if program.maximise else highspy.ObjSense.kMinimize
    lp.offset_ = program.offset
    lp.col_cost_ = np.array(program.cost, dtype=float)
    lp.col_lower_, lp.col_upper_ = np.array(program.lower, dtype=float), np.array(program.upper, dtype=float)
    lp.row_lower_, lp.row_upper_ = np.array(program.row_lower, dtype=float), np.array(program.row_upper, dtype=float)
    if any(program.integer):
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[whole] for whole in program.integer]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.array(program.starts, dtype=np.int32)
    lp.a_matrix_.index_ = np.array(program.columns, dtype=np.int32)
    lp.a_matrix_.value_ = np.array(program.coefficients, dtype=float)
    if solver.passModel(lp) == highspy.HighsStatus.kError:
        raise SolverFailure("HiGHS refuses the model (an infinite or missing coefficient?)")
    if settings.warm_start:
        start = sorted(settings.warm_start.items())
        columns = np.array([column for column, _ in start], dtype=np.int32)
        if solver.setSolution(len(start), columns, np.array([x for _, x in start])) == highspy.HighsStatus.kError:
            raise SolverFailure("HiGHS refuses the warm start")
    return solver


def _set(solver: highspy.Highs, name: str, value: bool | int | float | str) -> None:
    """Set an option and insist that HiGHS took it."""
    status, current = solver.getOptionValue(name)
    if status != highspy.HighsStatus.kOk:
        known = [key for key in dir(solver.getOptions()) if not key.startswith("_")]
        raise UnknownOption(f"HiGHS has no option {name!r}{nearest(name, known)}")
    if isinstance(current, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(current) or solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
        raise UnknownOption(
            f"HiGHS refuses {value!r} for option {name!r} (a {type(current).__name__} such as {current!r})"
        )


def _run(solver: highspy.Highs, settings: Settings) -> Termination:
    """Run to the end; an interrupt, ``should_stop`` or an overrun time limit cancels the solve and keeps the incumbent."""
    solver.HandleUserInterrupt = True
    incumbents: queue.SimpleQueue[float] = queue.SimpleQueue()
    if settings.on_incumbent is not None:
        solver.cbMipImprovingSolution += lambda event: incumbents.put(event.data_out.objective_function_value)

    def work() -> None:
        try:
            solver.run()
        finally:
            release_scheduler()

    ended = supervise(work, solver.cancelSolve, settings, incumbents)
    termination = _TERMINATION.get(solver.getModelStatus(), Termination.ERROR)
    if termination is Termination.INTERRUPTED and ended.overrun:
        return Termination.TIME_LIMIT
    return termination


def release_scheduler() -> None:
    """The task scheduler belongs to the thread that ran: release it there, so that the next solve may choose its threads."""
    highspy.Highs.resetGlobalScheduler(False)
