"""The segment half of the ablation: every form with every solver on the committed segments."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.ablation.figures import draw, summarize, tables
from benchmarks.ablation.pairs import DEFAULT, PAIRS, Pair, Run
from benchmarks.ablation.segments import HarvestedSegment, read_segments, sample
from benchmarks.record import Row
from benchmarks.settings import Outcome, measure_each
from cmswitch import Options
from cmswitch.allocation import solving
from solvers import SolverFailure

LIMITS = (1.0, 10.0, 60.0)
"""Seconds after which gaps are compared."""


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
    """The default pair on every segment, all pairs on a sample of ``given.n``; fails if two that solved a segment disagree."""
    segments = read_segments()
    compared = sample(segments, given.n)
    pairs = [pair for name, pair in PAIRS.items() if given.only is None or name in given.only]
    limits = [limit for limit in LIMITS if limit < given.limit] + [given.limit]
    tasks = [Task(s, DEFAULT) for s in segments if DEFAULT in pairs]
    tasks += [Task(s, pair) for s in compared for pair in pairs if pair is not DEFAULT]
    warm_up(pairs, segments, given.seed)
    measurer = Measurer(limits, given.seed)
    rows = measure_each("ablation", tasks, measurer.measure)
    summary = summarize(rows, DEFAULT.name)
    return Outcome(
        rows=rows,
        summary=summary,
        text=tables(rows, summary),
        plot_size=(15, 8.5),
        draw=lambda figure: draw(figure, rows, summary),
        failed=bool(summary["disagreements"]),
        parameters={
            "segments": len(segments),
            "compared": len(compared),
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


def warm_up(pairs: Sequence[Pair], segments: Sequence[HarvestedSegment], seed: int) -> None:
    """Solve the smallest segment with every pair, so that no measurement includes importing a package or starting a process."""
    smallest = min(
        segments, key=lambda s: (s.operators, s.published.arrays, sum(len(g.copies) for g in s.machine.stages))
    )
    for pair in pairs:
        pair.run(smallest, LIMITS[-1], seed)


class Measurer:
    """Rows by segment and pair; ``limits`` ascending, in seconds. What begins a search is worked out once for each form."""

    def __init__(self, limits: Sequence[float], seed: int) -> None:
        self._limits, self._seed = limits, seed
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
        return {**row, **_figures(done), "gaps": gaps, "root_bound": self._root(task)}

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
