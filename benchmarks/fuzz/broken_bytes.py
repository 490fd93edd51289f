"""Damage to the bytes of a file, whatever it holds."""

from __future__ import annotations

import random
from collections.abc import Callable

LONGEST = 64
"""Bytes of the longest stretch that is inserted, repeated or lost."""


def _flip(content: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        if content:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def _overwrite(content: bytearray, chance: random.Random) -> None:
    start, length = _stretch(content, chance)
    content[start : start + length] = bytes([chance.choice((0, 0x7F, 0x80, 0xFF))]) * length


def _insert(content: bytearray, chance: random.Random) -> None:
    start, length = _stretch(content, chance)
    content[start:start] = chance.randbytes(length)


def _lose(content: bytearray, chance: random.Random) -> None:
    start, length = _stretch(content, chance)
    del content[start : start + length]


def _repeat(content: bytearray, chance: random.Random) -> None:
    start, length = _stretch(content, chance)
    content[start:start] = content[start : start + length]


def _cut_off(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(len(content) + 1) :]


def _replace_all(content: bytearray, chance: random.Random) -> None:
    content[:] = chance.randbytes(chance.choice((0, 1, 10, 1000)))


def _stretch(content: bytearray, chance: random.Random) -> tuple[int, int]:
    return chance.randrange(len(content) + 1), chance.randint(1, LONGEST)


DAMAGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip,
    _flip,
    _flip,
    _overwrite,
    _insert,
    _lose,
    _repeat,
    _cut_off,
    _replace_all,
)


def damage(content: bytes, chance: random.Random) -> tuple[bytes, list[str]]:
    """The content with one to three damages, and their names."""
    damaged = bytearray(content)
    chosen = chance.choices(DAMAGES, k=chance.choice((1, 1, 2, 3)))
    for change in chosen:
        change(damaged, chance)
    return bytes(damaged), [change.__name__.strip("_") for change in chosen]
