"""The reload rule: tiles are read one after another and written through a few ports, first come first served."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from cmswitch.simulator.problem import Tile


@dataclass
class WritePorts:
    """The write ports: when each is free. Requests must come in the order in which they are served."""

    count: int
    free: list[int] = field(init=False)
    busy: int = 0

    def __post_init__(self) -> None:
        self.free = [0] * self.count

    def write(self, tile: Tile, start: int) -> int:
        """Write a tile whose read starts at ``start`` into the arrays of all its copies; the end of the last write."""
        read_end = start + tile.read
        last = read_end
        for _ in range(tile.copies):
            begin = max(start, self.free[0])
            end = max(begin + tile.write, read_end)
            heapq.heapreplace(self.free, end)
            self.busy += end - begin
            last = max(last, end)
        return last


@dataclass(frozen=True)
class ReloadRun:
    """A reload phase: its length, and the cycles in which the write ports were in use (summed over ports)."""

    cycles: int
    write_ports_busy: int


def run_reload(tiles: Sequence[Tile], ports: int) -> ReloadRun:
    """Read the tiles one after another from cycle 0 and write them, on ``ports`` write ports."""
    write_ports = WritePorts(ports)
    now = end = 0
    for tile in tiles:
        end = max(end, write_ports.write(tile, now))
        now += tile.read
    return ReloadRun(end, write_ports.busy)
