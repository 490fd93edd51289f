"""The one error of this package."""

from __future__ import annotations

from collections.abc import Sequence


class ChipError(Exception):
    """A chip description that cannot be used. ``problems`` holds all of them; ``str(error)`` has one per line."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[ChipError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)
