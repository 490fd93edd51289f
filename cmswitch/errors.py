"""What can go wrong, and the exit code that the command line gives it."""

from __future__ import annotations

from collections.abc import Sequence


class CmswitchError(Exception):
    """Base of all errors that a user can act on. ``str(error)`` is one to a few lines and names the next step."""

    exit_code = 2


class InputError(CmswitchError):
    """A file, option or network that cannot be used as given."""

    @staticmethod
    def listing(where: str, problems: Sequence[str]) -> InputError:
        """The error of one or several ``problems`` with the input ``where``, all of them in one report."""
        if len(problems) == 1:
            return InputError(f"{where}: {problems[0]}")
        return InputError("\n  ".join((f"{where}: {len(problems)} problems", *problems)))


class InfeasibleError(CmswitchError):
    """No plan exists on this chip: ``resource`` is short by ``needed - available`` (in ``unit``); ``remedy`` says what fits."""

    exit_code = 1

    def __init__(self, resource: str, needed: int, available: int, unit: str, remedy: str, subject: str = "") -> None:
        self.resource, self.needed, self.available, self.unit, self.remedy = resource, needed, available, unit, remedy
        where = f"{subject}: " if subject else ""
        super().__init__(
            f"{where}no feasible plan: {resource} needs {needed} {unit}, the chip has {available} "
            f"(short by {needed - available}); {remedy}"
        )


class SolverError(CmswitchError):
    """A solver is missing or failed."""

    exit_code = 3
