"""Every form with every solver on a sample of the committed segments, the best of them on all."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.ablation.figures import draw, finalists, summarize, tables
from benchmarks.ablation.pairs import DEFAULT, PAIRS, Pair, Run
from benchmarks.ablation.segments import HarvestedSegment, read_segments, sample
from benchmarks.record import Row
from benchmarks.settings import Outcome, measure_each, stopped
from cmswitch import Options
from cmswitch.allocation import solving
from solvers import SolverFailure

LIMITS = (1.0, 10.0, 60.0)
"""Seconds after which gaps are compared."""
SAMPLE = 24
"""Segments that every pair is given; only the best go on to the others."""


@dataclass(frozen=True)
class Task:
    """A pair on a segment."""

    segment: HarvestedSegment
    pair: Pair

    @property
    def identity(self) -> Row:
        """What its row is known by."""
        segment, pair = self.segment, self.pair
        return {"segment": segment.name, "form": pair.form, "solver": pair.solver}


def run(given: argparse.Namespace) -> Outcome:
    """All pairs on a sample, then the default and the best of them on the other segments; fails if two that solved a segment
    disagree."""
    segments = sample(read_segments(), given.n)
    sampled = sample(segments, SAMPLE)
    pairs = [pair for name, pair in PAIRS.items() if given.only is None or name in given.only]
    limits = [limit for limit in LIMITS if limit < given.limit] + [given.limit]
    warm_up(pairs, segments, limits[-1], given.seed)
    measurer = Measurer(limits, given.seed)
    rows = measure_each("segments, sample", [Task(s, pair) for s in sampled for pair in pairs], measurer.measure)
    chosen = finalists(rows, DEFAULT.name)
    if not stopped(rows):
        others = [segment for segment in segments if segment not in sampled]
        tasks = [Task(s, PAIRS[name]) for s in others for name in chosen]
        rows += measure_each("segments, finalists", tasks, measurer.measure)
    summary = summarize(rows, DEFAULT.name, chosen)
    return Outcome(
        rows=rows,
        summary=summary,
        text=tables(rows, summary),
        plot_size=(16, 12),
        draw=lambda figure: draw(figure, rows, summary),
        failed=bool(summary["disagreements"]),
        stopped=stopped(rows),
        parameters={
            "segments": len(segments),
            "sampled": len(sampled),
            "limits": limits,
            "pairs": [pair.name for pair in pairs],
            "default": default_settings(),
        },
    )


def default_settings() -> dict[str, object]:
    """What decides how the default pair works: a record is about these."""
    return {
        "solver": Options().solver,
        "combinatorial_nodes": solving.COMBINATORIAL_NODES,
        "most_combinatorial": solving.MOST_COMBINATORIAL,
        "milp": solving.MILP,
    }


def warm_up(pairs: Sequence[Pair], segments: Sequence[HarvestedSegment], limit: float, seed: int) -> None:
    """Solve the smallest segment with every pair, so that no measurement includes importing a package or starting a process."""
    smallest = min(
        segments, key=lambda s: (s.operators, s.published.arrays, sum(len(g.copies) for g in s.machine.stages))
    )
    for pair in pairs:
        with contextlib.suppress(SolverFailure, ValueError):  # what has no result is told of when it is measured
            pair.run(smallest, limit, seed)


class Measurer:
    """Rows by segment and pair; ``limits`` ascending, in seconds. With what bound a search begins is worked out (if ``roots``)
    once for each form."""

    def __init__(self, limits: Sequence[float], seed: int, roots: bool = True) -> None:
        self._limits, self._seed, self._with_roots = limits, seed, roots
        self._roots: dict[tuple[str, str], float | None] = {}

    def measure(self, task: Task) -> Row:
        """One row: the effort of the run with the largest limit that was needed, and the gap after each limit."""
        segment, pair = task.segment, task.pair
        row = {
            **task.identity,
            "network": segment.network,
            "chip": segment.chip,
            "operators": segment.operators,
            "size": segment.size,
            "cost_model": pair.cost_model,
        }
        done, gaps, failure = None, dict[str, float | None](), ""
        for limit, found in zip(self._limits, self._runs(task), strict=False):
            if isinstance(found, str):
                failure = found
            else:
                done = found
            gaps[f"{limit:g}"] = None if done is None else done.gap
        if done is None:
            return {**row, "missing": failure}
        for limit in self._limits:
            gaps.setdefault(f"{limit:g}", done.gap)
        return {**row, **_figures(done), "gaps": gaps, "root_bound": self._root(task) if self._with_roots else None}

    def _runs(self, task: Task) -> Iterator[Run | str]:
        """With each limit until the segment is solved; a text says why there is no result."""
        for limit in self._limits:
            try:
                found = task.pair.run(task.segment, limit, self._seed)
            except SolverFailure as error:
                yield str(error)
            except ValueError as error:
                yield str(error)
                return
            else:
                yield found
                if found.termination != "time_limit":
                    return

    def _root(self, task: Task) -> float | None:
        key = (task.segment.name, task.pair.form)
        if key not in self._roots:
            try:
                self._roots[key] = task.pair.root_bound(task.segment)
            except SolverFailure:
                self._roots[key] = None
        return self._roots[key]


def _figures(run: Run) -> dict[str, object]:
    return {
        "termination": run.termination,
        "solved": run.solved,
        "build_seconds": None if run.build is None else round(run.build, 4),
        "solve_seconds": round(run.solve, 4),
        "cpu_seconds": round(run.seconds, 4),
        "programs": run.programs,
        "nodes": run.nodes,
        "objective": None if run.cost is None else float(run.cost),
        "exact": None if run.cost is None else str(run.cost),
        "bound": run.bound,
    }
