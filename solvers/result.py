"""What a solve returns: why it stopped, what we hold, and how good it is are separate fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Termination(StrEnum):
    """Why the solver stopped."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"
    ERROR = "error"


class Status(StrEnum):
    """What we hold: nothing, a feasible solution, or one that is optimal within the requested gap."""

    NONE = "none"
    FEASIBLE = "feasible"
    OPTIMAL = "optimal"


@dataclass(frozen=True)
class SolveResult:
    """Outcome of :func:`solvers.solve`.

    ``objective`` and ``gap`` are None without an incumbent, ``bound`` if nothing was proven. ``gap`` is
    ``|objective - bound| / |objective|`` (0 if both are 0, None if only the objective is). ``values`` maps variable names to
    values and is empty without an incumbent. ``build_seconds`` is the time to turn the Pyomo model into arrays;
    ``wall_seconds`` and ``cpu_seconds`` are the backend's. A result at a time limit depends on the machine.
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
