"""Which rows of an infeasible program conflict: found with the backend that proved it, by leaving rows out."""

from __future__ import annotations

import time
from dataclasses import replace

from solvers.program import LinearProgram, Settings, Solver
from solvers.result import Conflict, Termination

EXPLAIN_SECONDS = 10.0
"""Most time for an explanation; the time limit of the solve counts as well."""


def find_conflict(backend: Solver, program: LinearProgram, settings: Settings) -> Conflict:
    """Rows of the infeasible ``program`` that no solution satisfies together; as few as the time allows to prove.

    Rows are left out many at once as long as the others still conflict, and one by one where they do not.
    """
    limit = EXPLAIN_SECONDS if settings.time_limit is None else min(EXPLAIN_SECONDS, settings.time_limit)
    deadline = time.monotonic() + limit

    def refuted(rows: list[int]) -> bool:
        left = deadline - time.monotonic()
        if left <= 0 or (settings.should_stop is not None and settings.should_stop()):
            return False
        asked = replace(settings, time_limit=left, gap=0.0, warm_start=None, on_incumbent=None)
        return backend.solve(program.with_rows(rows), asked).termination is Termination.INFEASIBLE

    needed: list[int] = []
    open_rows = list(range(len(program.row_names)))
    part = max(1, len(open_rows) // 2)
    while open_rows:
        out, rest = open_rows[:part], open_rows[part:]
        if refuted(needed + rest):
            open_rows = rest
            part *= 2
        elif len(out) == 1:
            needed += out
            open_rows = rest
        else:
            part = max(1, part // 2)
            continue
        part = max(1, min(part, len(open_rows) // 2))
        if time.monotonic() >= deadline:
            needed, open_rows = needed + open_rows, []
    minimal = time.monotonic() < deadline and not (settings.should_stop is not None and settings.should_stop())
    return Conflict(tuple(program.row_names[r] for r in sorted(needed)), minimal)
