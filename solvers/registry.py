"""The backends by name, imported on first use."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass

from solvers.errors import SolverUnavailable, UnknownSolver, nearest
from solvers.program import Solver


@dataclass(frozen=True)
class Backend:
    """Where a backend lives: ``module`` has the ``factory``, ``package`` is what it imports, ``pip`` what installs that."""

    module: str
    factory: str
    package: str
    pip: str


BACKENDS: dict[str, Backend] = {
    "highs": Backend("solvers.highs", "Highs", "highspy", "highspy"),
}


def solver_names() -> list[str]:
    """Names of all backends, installed or not."""
    return sorted(BACKENDS)


def is_installed(name: str) -> bool:
    """Whether the package of backend ``name`` can be imported. UnknownSolver if there is no such backend."""
    return importlib.util.find_spec(_backend(name).package) is not None


def get_solver(name: str) -> Solver:
    """The backend ``name``. UnknownSolver if there is none, SolverUnavailable if its package is not installed."""
    backend = _backend(name)
    if not is_installed(name):
        raise SolverUnavailable(f"solver {name!r} needs the package {backend.package}: pip install {backend.pip}")
    factory = getattr(importlib.import_module(backend.module), backend.factory)
    solver: Solver = factory()
    return solver


def _backend(name: str) -> Backend:
    if name not in BACKENDS:
        known = ", ".join(solver_names())
        raise UnknownSolver(f"unknown solver {name!r}{nearest(name, BACKENDS)}; solvers: {known}")
    return BACKENDS[name]
