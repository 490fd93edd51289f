"""Compiler for dual-mode compute-in-memory chips, built on optimisation solvers. Names are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cmswitch.version import __version__

if TYPE_CHECKING:
    from cmswitch.errors import CmswitchError, InfeasibleError, InputError, SolverError
    from cmswitch.graph import load_network
    from cmswitch.pipeline import Options, Result, compile_network
    from cmswitch.simulator import simulate

__all__ = [
    "CmswitchError",
    "InfeasibleError",
    "InputError",
    "Options",
    "Result",
    "SolverError",
    "__version__",
    "compile_network",
    "load_network",
    "simulate",
]

_MODULES = {
    "CmswitchError": "cmswitch.errors",
    "InfeasibleError": "cmswitch.errors",
    "InputError": "cmswitch.errors",
    "Options": "cmswitch.pipeline",
    "Result": "cmswitch.pipeline",
    "SolverError": "cmswitch.errors",
    "compile_network": "cmswitch.pipeline",
    "load_network": "cmswitch.graph",
    "simulate": "cmswitch.simulator",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
