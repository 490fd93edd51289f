"""What can go wrong, and the exit code that the command line gives it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from cmswitch.naming import quantity

MOST_ALIKE = 10
"""Lines of a report that may differ in names and numbers only: more of them hide the others."""


def listed(problems: Iterable[str]) -> Iterator[str]:
    """A line for each of ``problems``; of those that are alike the first ``MOST_ALIKE``, then how many more there are."""
    counts: Counter[str] = Counter()
    for problem in problems:
        kind = re.sub(r"^\S+: |'[^']*'|\d+", "", problem)
        counts[kind] += 1
        if counts[kind] <= MOST_ALIKE:
            yield f"  {problem}"
    left = sum(max(0, count - MOST_ALIKE) for count in counts.values())
    if left:
        yield f"  and {left} more like these"


class CmswitchError(Exception):
    """Base of all errors that a user can act on. ``str(error)`` is one to a few lines and names the next step."""

    exit_code = 2


class InputError(CmswitchError):
    """A file, option or network that cannot be used as given."""

    @staticmethod
    def listing(where: str, problems: Sequence[str]) -> InputError:
        """The error of one or several ``problems`` with the input ``where``, every kind of them in one report."""
        if len(problems) == 1:
            return InputError(f"{where}: {problems[0]}")
        return InputError("\n".join((f"{where}: {len(problems)} problems", *listed(problems))))


class InfeasibleError(CmswitchError):
    """No plan exists on this chip: ``resource`` is short by ``needed - available``, each one ``unit``; ``remedy`` says what
    fits."""

    exit_code = 1

    def __init__(self, resource: str, needed: int, available: int, unit: str, remedy: str, subject: str = "") -> None:
        self.resource, self.needed, self.available, self.unit, self.remedy = resource, needed, available, unit, remedy
        where = f"{subject}: " if subject else ""
        super().__init__(
            f"{where}no feasible plan: {resource} needs {quantity(needed, unit)}, the chip has {available:,} "
            f"(short by {needed - available:,}); {remedy}"
        )


class SolverError(CmswitchError):
    """A solver is missing or failed."""

    exit_code = 3
