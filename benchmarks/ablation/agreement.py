"""Every pair on every committed segment, with little time for each: only what it finds counts, not how fast."""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

from benchmarks.ablation.comparison import LIMITS, Measurer, Task, default_settings
from benchmarks.ablation.figures import disagreements, pair_of
from benchmarks.ablation.pairs import PAIRS
from benchmarks.ablation.segments import HarvestedSegment, read_segments, sample
from benchmarks.record import Column, Row, cycles, table
from benchmarks.settings import Outcome

ENDS = ("solved", "bounded", "neither")
"""What can come of a segment: its optimum; a solution or a bound; nothing, or a program too large to try."""
COLUMNS = (
    Column("cost model", "cost_model"),
    Column("form", "form"),
    Column("solver", "solver"),
    Column("segments", "segments", cycles),
    *(Column(end, end, cycles) for end in ENDS),
)


def run(given: argparse.Namespace) -> Outcome:
    """A row for each pair: how many segments it solved, or bounded at least. Fails if two that solved a segment disagree, or if
    one proves a bound above what another's solution costs."""
    segments = sample(read_segments(), given.n)
    pairs = [name for name in PAIRS if given.only is None or name in given.only]
    limit = min(given.limit, LIMITS[0])
    measured = list(_measured(segments, partial(measure, pairs=pairs, limit=limit, seed=given.seed), given.jobs))
    if not measured:
        raise KeyboardInterrupt
    rows = [_counted(name, measured) for name in pairs]
    summary: dict[str, Any] = {
        "reached": len({row["segment"] for row in measured}),
        "compared": _compared(measured),
        "disagreements": disagreements([row for row in measured if "missing" not in row]),
    }
    return Outcome(
        rows=rows,
        summary=summary,
        text=_text(rows, summary),
        plot_size=(8, 5),
        draw=lambda figure: _draw(figure, rows),
        failed=bool(summary["disagreements"]),
        stopped=summary["reached"] < len(segments),
        parameters={
            "segments": len(segments),
            "limit": limit,
            "jobs": given.jobs,
            "pairs": pairs,
            "default": default_settings(),
        },
    )


def _measured(segments: Sequence[HarvestedSegment], measure_one: partial[list[Row]], jobs: int) -> Iterator[Row]:
    """The rows of all pairs on each segment, ``jobs`` segments at a time; of those reached if the run ends before."""
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _ignore_interrupt)
    try:
        for number, rows in enumerate(pool.map(measure_one, segments), 1):
            print(f"agreement [{number}/{len(segments)}] {rows[0]['segment']}", file=sys.stderr, flush=True)
            yield from rows
    except (KeyboardInterrupt, SystemExit, BrokenProcessPool) as error:
        why = "a worker died" if isinstance(error, BrokenProcessPool) else "stopped"
        print(f"agreement: {why}; recording what was measured", file=sys.stderr, flush=True)
        for worker in multiprocessing.active_children():
            worker.terminate()  # a segment may take a minute
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one answers it


def measure(segment: HarvestedSegment, pairs: Sequence[str], limit: float, seed: int) -> list[Row]:
    """The rows of ``pairs`` on ``segment``."""
    measurer = Measurer([limit], seed, roots=False)
    return [measurer.measure(Task(segment, PAIRS[name])) for name in pairs]


def _counted(name: str, measured: Sequence[Row]) -> dict[str, Any]:
    pair, own = PAIRS[name], [row for row in measured if pair_of(row) == name]
    counts = Counter(map(_end, own))
    return {
        "cost_model": pair.cost_model,
        "form": pair.form,
        "solver": pair.solver,
        "segments": len(own),
        **{end: counts[end] for end in ENDS},
    }


def _end(row: Row) -> str:
    """One of :data:`ENDS`."""
    if "missing" in row or not (row["exact"] or row["bound"] > 0):
        return "neither"
    return "solved" if row["solved"] else "bounded"


def _compared(measured: Sequence[Row]) -> dict[str, int]:
    """By cost model, the segments that more than one pair solved."""
    solvers = Counter((row["cost_model"], row["segment"]) for row in measured if row.get("solved"))
    return dict(Counter(model for (model, _), count in solvers.items() if count > 1))


def _text(rows: Sequence[Row], summary: Row) -> str:
    compared = ", ".join(f"{count} ({model})" for model, count in summary["compared"].items())
    lines = [
        f"segments that more than one pair solved: {compared or 'none'}, of {summary['reached']}; "
        f"disagreements: {len(summary['disagreements'])}",
        *(f"FAIL {line}" for line in summary["disagreements"]),
    ]
    return "\n".join([table(COLUMNS, rows), *lines, ""])


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    """What came of the segments, of each pair as a bar."""
    axes = figure.subplots()
    names, left = [pair_of(row) for row in rows], [0] * len(rows)
    for end in ENDS:
        counts = [row[end] for row in rows]
        axes.barh(names, counts, left=left, label=end)
        left = [a + b for a, b in zip(left, counts, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("segments")
    axes.legend(fontsize=7)
