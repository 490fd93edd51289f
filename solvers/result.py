"""What a solve returns: why it stopped, what we hold, and how good it is are separate fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Termination(StrEnum):
    """Why the solver stopped.

    ``precision``: everything was searched, but what rounding leaves between objective and bound is more than the requested gap.
    ``error``: the backend gave up, or claimed an optimum that its own bound does not support.
    """

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"
    PRECISION = "precision"
    ERROR = "error"


class Status(StrEnum):
    """What we hold: nothing, a feasible solution, or one that is optimal within the requested gap."""

    NONE = "none"
    FEASIBLE = "feasible"
    OPTIMAL = "optimal"


class Feature(StrEnum):
    """What a backend may lack and a caller may ask for."""

    WARM_START = "warm start"
    INCUMBENTS = "incumbent callback"
    THREADS = "threads"
    SEED = "seed"
    EARLY_BOUND = "bound before the end"
    LOG = "log"


@dataclass(frozen=True)
class Conflict:
    """Why a program is infeasible: ``rows`` (names of constraints) cannot hold together within the variables' bounds.

    No rows: some variable's bounds admit no value. ``minimal``: without any one of the rows the others can hold; otherwise the
    time for the explanation ran out and some of them may have no part in it.
    """

    rows: tuple[str, ...]
    minimal: bool


@dataclass(frozen=True)
class Attempt:
    """A backend that was tried before the one that answered, and why it did not."""

    solver: str
    reason: str


@dataclass(frozen=True)
class SolveResult:
    """Outcome of :func:`solvers.solve`.

    ``objective`` and ``gap`` are None without an incumbent, ``bound`` if nothing was proven. ``gap`` is
    ``|objective - bound| / |objective|`` (0 if both are 0, None if only the objective is). ``values`` maps variable names to
    values and is empty without an incumbent. ``build_seconds`` is the time to turn the Pyomo model into arrays;
    ``wall_seconds`` and ``cpu_seconds`` are the backend's. A result at a time limit depends on the machine.

    ``solver`` is the backend that answered, ``attempts`` those that failed before it. ``unsupported`` is what was asked for
    and this backend cannot do. ``conflict`` explains an infeasible program if that was asked for.
    """

    termination: Termination
    status: Status
    objective: float | None
    bound: float | None
    gap: float | None
    wall_seconds: float
    cpu_seconds: float
    build_seconds: float
    values: dict[str, float] = field(default_factory=dict)
    nodes: int = 0
    log: str = ""
    solver: str = ""
    attempts: tuple[Attempt, ...] = ()
    unsupported: tuple[Feature, ...] = ()
    conflict: Conflict | None = None
