"""Who solves the programs: one call, one result type, one file per backend.

``import solvers`` imports neither Pyomo nor any backend.
"""

from __future__ import annotations

from solvers.api import solve, solve_linear
from solvers.errors import SolverFailure, SolverUnavailable, UnknownOption, UnknownSolver, Unsuitable
from solvers.program import LinearProgram, Outcome
from solvers.registry import find_installed, get_solver, is_installed, solver_names
from solvers.result import Attempt, Conflict, Feature, SolveResult, Status, Termination

__all__ = [
    "Attempt",
    "Conflict",
    "Feature",
    "LinearProgram",
    "Outcome",
    "SolveResult",
    "SolverFailure",
    "SolverUnavailable",
    "Status",
    "Termination",
    "UnknownOption",
    "UnknownSolver",
    "Unsuitable",
    "find_installed",
    "get_solver",
    "is_installed",
    "solve",
    "solve_linear",
    "solver_names",
]
