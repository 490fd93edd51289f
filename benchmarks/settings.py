"""What every benchmark is told, and what it gives back."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks.networks import Case
from benchmarks.record import Row, record, write_plot


class Item(Protocol):
    """Something to measure."""

    @property
    def identity(self) -> Row:
        """What its row is known by."""
        ...


AnItem = TypeVar("AnItem", bound=Item)

STOPPED = "the run was stopped before"
"""Why a row that was not reached is missing."""


@dataclass(frozen=True)
class Settings:
    """What to measure. ``time_limit`` is in seconds for each compilation; ``quick``: only enough to see that it works."""

    cases: Sequence[Case]
    chips: Sequence[str]
    time_limit: float
    quick: bool
    seed: int = 0

    @property
    def parameters(self) -> dict[str, object]:
        """The settings as a record states them."""
        return {
            "networks": [case.name for case in self.cases],
            "chips": list(self.chips),
            "time_limit": self.time_limit,
            "quick": self.quick,
        }


@dataclass(frozen=True)
class Outcome:
    """A benchmark's result: rows and a summary for the record, ``text`` for people, a plot.

    ``parameters`` come on top of the settings; ``failed``: a line does not hold what it has to; ``stopped``: from outside, before
    everything was measured.
    """

    rows: Sequence[Row]
    summary: Row
    text: str
    plot_size: tuple[float, float]
    draw: Callable[[Any], None]
    failed: bool
    parameters: Row
    stopped: bool = False

    def publish(self, folder: Path, name: str, seed: int) -> int:
        """Write ``NAME.json`` and ``NAME.png`` into ``folder``, print the text. Returns 1 if it failed or was stopped."""
        text = record(name, seed, self.parameters, self.rows, self.summary)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
        write_plot(folder / f"{name}.png", self.plot_size, self.draw)
        print(self.text, end="")
        return int(self.failed or self.stopped)


def measure_each(benchmark: str, items: Sequence[AnItem], measure: Callable[[AnItem], Row]) -> list[Row]:
    """A row for every item, each announced on stderr.

    When the run is stopped, the items not reached are missing, so that what is known can be recorded.
    """
    rows: list[Row] = []
    try:
        for number, item in enumerate(items, 1):
            name = " ".join(map(str, item.identity.values()))
            print(f"{benchmark} [{number}/{len(items)}] {name}", file=sys.stderr, flush=True)
            rows.append(measure(item))
    except (KeyboardInterrupt, SystemExit):
        print(f"{benchmark}: stopped; recording what was measured", file=sys.stderr, flush=True)
    return [*rows, *({**item.identity, "missing": STOPPED} for item in items[len(rows) :])]


def stopped(rows: Sequence[Row]) -> bool:
    """Whether :func:`measure_each` was stopped before it had measured all."""
    return any(row.get("missing") == STOPPED for row in rows)


def deadline(seconds: float) -> Callable[[], bool]:
    """Whether ``seconds`` of wall clock from now have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def average(values: Iterable[float]) -> float | None:
    """The mean; None of nothing."""
    found = list(values)
    return sum(found) / len(found) if found else None
