"""The one error of this package."""

from __future__ import annotations

from collections.abc import Sequence

MOST_SHOWN = 20
"""Problems that a message lists; the rest is counted."""


class ChipError(Exception):
    """A chip description that cannot be used. ``problems`` holds all of them; ``str(error)`` has one per line, the first ones."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        more = len(self.problems) - MOST_SHOWN
        rest = [f"and {more} more like these; mend the first ones and try again"] if more > 0 else []
        super().__init__("\n".join([*self.problems[:MOST_SHOWN], *rest]))

    def __reduce__(self) -> tuple[type[ChipError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)
