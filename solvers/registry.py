"""The backends by name, imported on first use."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

from solvers.errors import SolverUnavailable, UnknownSolver, nearest
from solvers.program import Solver


@dataclass(frozen=True)
class Backend:
    """Where a backend lives: ``module`` has the ``factory``, ``packages`` are what it imports and what pip installs."""

    module: str
    factory: str
    packages: tuple[str, ...]

    def load(self) -> Solver:
        """A fresh solver. ImportError if its packages are missing."""
        solver: Solver = getattr(importlib.import_module(self.module), self.factory)()
        return solver


BACKENDS: dict[str, Backend] = {
    "highs": Backend("solvers.highs", "Highs", ("highspy",)),
    "highs-pyomo": Backend("solvers.highs_pyomo", "HighsPyomo", ("highspy", "pyomo")),
    "cp-sat": Backend("solvers.cp_sat", "CpSat", ("ortools", "highspy")),
    "scip": Backend("solvers.scip", "Scip", ("ortools",)),
    "brute-force": Backend("solvers.brute_force", "BruteForce", ("highspy",)),
}


def solver_names() -> list[str]:
    """Names of all backends, installed or not."""
    return sorted(BACKENDS)


def is_installed(name: str) -> bool:
    """Whether the packages of backend ``name`` can be imported. UnknownSolver if there is no such backend."""
    return not _missing(find_backend(name))


def get_solver(name: str) -> Solver:
    """The backend ``name``. UnknownSolver if there is none, SolverUnavailable if a package of it is not installed."""
    return find_installed(name).load()


def find_installed(name: str) -> Backend:
    """Where the backend ``name`` lives. UnknownSolver if there is none, SolverUnavailable if a package is not installed."""
    backend = find_backend(name)
    for package in _missing(backend):
        raise SolverUnavailable(f"solver {name!r} needs the package {package}: pip install {package}")
    return backend


def find_backend(name: str) -> Backend:
    """Where the backend ``name`` lives, installed or not. UnknownSolver if there is none."""
    if name not in BACKENDS:
        known = ", ".join(solver_names())
        raise UnknownSolver(f"unknown solver {name!r}{nearest(name, BACKENDS)}; solvers: {known}")
    return BACKENDS[name]


def _missing(backend: Backend) -> list[str]:
    return [package for package in backend.packages if importlib.util.find_spec(package) is None]
