"""What can go wrong before or around a solve."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UnknownSolver(ValueError):
    """No backend of that name; the message gives the nearest and all names."""


class UnknownOption(ValueError):
    """The backend has no option of that name or refuses the value; the message gives the nearest name."""


class SolverUnavailable(Exception):
    """The backend exists but its package is not installed; the message says what to install."""


class SolverFailure(Exception):
    """The backend broke its contract: it refused the model, reported an incumbent that is not feasible, crashed or overran."""


class Unsuitable(SolverFailure):
    """The backend cannot take a program of this kind; the message names the variable or the size, and what would help."""


def nearest(name: str, names: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the name nearest to ``name``, or an empty string."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
