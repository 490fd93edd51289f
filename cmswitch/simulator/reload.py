"""The reload rule: tiles are read one after another and written, row by row, through a few write drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cmswitch.simulator.problem import Tile


@dataclass(frozen=True)
class ReloadRun:
    """Reading and writing some tiles: how long it takes, and the cycles of all write drivers together."""

    cycles: int
    writing: int


def run_reload(tiles: Sequence[Tile], drivers: int) -> ReloadRun:
    """Read the tiles one after another from cycle 0 and write them into the arrays of all their copies.

    A write starts no earlier than the tile's read and ends no earlier than it. The drivers are dealt anew at every row,
    so only their sum matters: what is not read before a tile cannot be written before it either.
    """
    read = sum(tile.read for tile in tiles)
    writing = 0
    end = read
    for tile in reversed(tiles):
        read -= tile.read
        writing += tile.copies * tile.write
        end = max(end, read + tile.write, read - (-writing // drivers))
    return ReloadRun(end, writing)
