"""An oracle for small programs: every combination of the integer variables, and a linear program for the rest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from solvers.errors import UnknownOption, Unsuitable, nearest
from solvers.highs import Highs
from solvers.program import LinearProgram, Outcome, Settings
from solvers.result import Feature, Termination

MOST_COMBINATIONS = 20_000
"""Combinations of the integers that survive the rows, unless the option ``most_combinations`` says otherwise."""

STEPS_PER_COMBINATION = 50
"""Partial combinations visited for each of the most combinations."""

ROUNDING = 1e-9  # relative, of a row's sum


class BruteForce:
    """Backend ``brute-force``. One option: ``most_combinations``. Integer variables need finite bounds."""

    lacks: frozenset[Feature] = frozenset(
        {Feature.WARM_START, Feature.THREADS, Feature.SEED, Feature.EARLY_BOUND, Feature.LOG}
    )
    reads_model = False

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Try all combinations. Unsuitable if there are too many."""
        most = _most_combinations(settings)
        deadline = math.inf if settings.time_limit is None else time.monotonic() + settings.time_limit
        columns = [column for column, whole in enumerate(program.integer) if whole]
        best: list[float] | None = None
        cost, count = math.inf, 0
        try:
            _refuse_too_many(program, most, lambda: _stopped(settings, deadline) is not None)
            for chosen in _walk(program, columns):
                if (ended := _stopped(settings, deadline)) is not None:
                    return Outcome(ended, best, None, count)
                if len(chosen) < len(columns):
                    continue
                count += 1
                outcome = _completed(program, chosen)
                if outcome.termination is Termination.UNBOUNDED:
                    return Outcome(Termination.UNBOUNDED, None, None, count)
                if outcome.values is None:
                    continue
                objective = program.objective(outcome.values)
                if (-objective if program.maximise else objective) < cost:
                    cost, best = (-objective if program.maximise else objective), outcome.values
                    if settings.on_incumbent is not None:
                        settings.on_incumbent(objective)
        except KeyboardInterrupt:
            return Outcome(Termination.INTERRUPTED, best, None, count)
        if best is None:
            return Outcome(Termination.INFEASIBLE, None, None, count)
        return Outcome(Termination.OPTIMAL, best, program.objective(best), count)


def _most_combinations(settings: Settings) -> int:
    most = MOST_COMBINATIONS
    for name, value in settings.options.items():
        if name != "most_combinations":
            raise UnknownOption(f"brute force has no option {name!r}{nearest(name, ['most_combinations'])}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UnknownOption(f"brute force refuses {value!r} for option {name!r} (a whole number from 1)")
        most = value
    return most


def _stopped(settings: Settings, deadline: float) -> Termination | None:
    if time.monotonic() >= deadline:
        return Termination.TIME_LIMIT
    return Termination.INTERRUPTED if settings.should_stop is not None and settings.should_stop() else None


def _completed(program: LinearProgram, chosen: dict[int, float]) -> Outcome:
    """The best values of the continuous variables once the integers are ``chosen``."""
    if len(chosen) == len(program.names):  # the rows have been checked
        return Outcome(Termination.OPTIMAL, [chosen[column] for column in range(len(chosen))], None)
    outcome = Highs().solve(program.with_fixed(chosen), Settings())
    return replace(outcome, values=outcome.values if outcome.termination is Termination.OPTIMAL else None)


def _refuse_too_many(program: LinearProgram, most: int, stop: Callable[[], bool]) -> None:
    """Unsuitable if more than ``most`` combinations survive the rows, or it takes too many steps to tell."""
    columns = [column for column, whole in enumerate(program.integer) if whole]
    for column in columns:
        if math.isinf(program.lower[column]) or math.isinf(program.upper[column]):
            raise Unsuitable(f"{program.names[column]} has no finite bounds: brute force cannot enumerate it")
    if math.prod(len(_values(program, column)) for column in columns) <= most:
        return
    complete = 0
    for step, chosen in enumerate(_walk(program, columns)):
        complete += len(chosen) == len(columns)
        if complete > most or step > STEPS_PER_COMBINATION * most:
            raise Unsuitable(
                f"more than {most:,} combinations of {len(columns)} integers: raise the option most_combinations, or use "
                "another solver"
            )
        if stop():
            return


def _walk(program: LinearProgram, columns: list[int]) -> Iterator[dict[int, float]]:
    """Depth first, all values of the first of ``columns``, of the first two, ... of all, for which every row can still hold.

    Yields the values chosen so far, in a dictionary that the next step changes.
    """
    rows = [program.row(r) for r in range(len(program.row_names))]
    low, high = list(program.lower), list(program.upper)
    if not all(_may_hold(program, row, r, low, high) for r, row in enumerate(rows)):
        return
    touching = {column: [r for r, row in enumerate(rows) if column in dict(row)] for column in columns}
    chosen: dict[int, float] = {}
    yield chosen
    choices = [iter(_values(program, columns[0]))] if columns else []
    while choices:
        column = columns[len(choices) - 1]
        x = next(choices[-1], None)
        if x is None:
            low[column], high[column] = program.lower[column], program.upper[column]
            chosen.pop(column, None)
            choices.pop()
            continue
        low[column] = high[column] = chosen[column] = float(x)
        if all(_may_hold(program, rows[r], r, low, high) for r in touching[column]):
            yield chosen
            if len(choices) < len(columns):
                choices.append(iter(_values(program, columns[len(choices)])))


def _values(program: LinearProgram, column: int) -> range:
    return range(math.ceil(program.lower[column] - ROUNDING), math.floor(program.upper[column] + ROUNDING) + 1)


def _may_hold(
    program: LinearProgram, row: list[tuple[int, float]], r: int, low: list[float], high: list[float]
) -> bool:
    """Whether some values between ``low`` and ``high`` satisfy row ``r``."""
    least = sum(min(a * low[column], a * high[column]) for column, a in row if a)
    most = sum(max(a * low[column], a * high[column]) for column, a in row if a)
    slack = ROUNDING * max(
        [1.0, *(abs(a * x) for column, a in row for x in (low[column], high[column]) if a and math.isfinite(x))]
    )
    return least <= program.row_upper[r] + slack and most >= program.row_lower[r] - slack
