"""Words of messages: the nearest valid name, and how many of what there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, valid: Iterable[str]) -> str:
    """`` (did you mean 'x'? choose from a, b, c)`` for a message about the unknown ``name``."""
    names = list(valid)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f" ({hint}choose from {', '.join(names)})"


def quantity(number: int, noun: str, plural: str = "") -> str:
    """``1 array`` or ``1,024 arrays``; ``plural`` if it is not ``noun`` with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
