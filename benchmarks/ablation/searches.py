"""Whole compilations by three searches: how many programs each needs, what that costs, and how good its plan is.

*lazy* is the compiler's own: programs are solved where the shortest path by bounds needs them. *published* is a dynamic programme
over the ends of segments, which solves programs for every run of operators that fits the chip and settles what stays on chip
before the next segment is known; *published, nothing kept* is the same with one program for each run. *eager* solves one for
every segment in every state. All share builder, programs, solvers and cache; a program is told from another by its numbers alone.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import hw
from benchmarks.ablation.counted import PRICERS, Counted, CountingAllocator, counting_allocator
from benchmarks.ablation.exhaustive import Needed, Stop, count, eager, every_segment, published
from benchmarks.networks import CHIPS, Case, UsageError, find_cases
from benchmarks.record import Column, Row, cycles, decimals, percent, table
from benchmarks.settings import Outcome, deadline, measure_each, stopped
from cmswitch import load_network
from cmswitch.allocation.pricing import ROUNDING
from cmswitch.allocation.segment import SegmentBuilder
from cmswitch.costs.workload import build_workload
from cmswitch.graph.network import Network
from cmswitch.lowering import lower
from cmswitch.pipeline import SEARCH_SHARE, schedule_limits
from cmswitch.segmentation.plan import Plan
from cmswitch.segmentation.schedule import Found, Space, find_plan, plan_of
from cmswitch.segmentation.search import Path, every_edge
from cmswitch.simulator import simulate

GAP = 2e-4
"""Relative gap to which lazy search proves its plan, a fifth of the compiler's default so that plans can be compared; half of it
is what a program may leave, in every search."""
MOST_SHARE = 0.2
"""Of the distinct programs that the published search needs, lazy search is to solve no more."""
MOST_SOLVED = 400
"""Programs up to which a search that solves everything is carried out; beyond, its programs are counted."""
TARGET_NETWORKS = ("light_resnet50", "light_densenet121", "zoo:bert-large")
NETWORKS = (*TARGET_NETWORKS, "zoo:resnet18", "zoo:mobilenet_v2")
LAZY, PUBLISHED, UNKEPT, EAGER = "lazy", "published", "published, nothing kept", "eager"
SEARCHES = (LAZY, UNKEPT, PUBLISHED, EAGER)
SETTINGS = {"gap": GAP, "most_solved": MOST_SOLVED}
"""What every row of a record has in common."""
PLAN_FIGURES = ("predicted_cycles", "gap", "simulated_cycles", "segments")

COLUMNS = (
    Column("network", "network"),
    Column("chip", "chip"),
    Column("search", "search"),
    Column("cache", "cache"),
    Column("bounds", "bounds"),
    Column("segments asked", "requests", cycles),
    Column("programs needed", "needed_text"),
    Column("solved", "solved", cycles),
    Column("distinct", "distinct", cycles),
    Column("of published", "share", percent),
    Column("nothing kept", "share_unkept", percent),
    Column("LPs of runs", "flows", cycles),
    Column("LPs", "relaxations", cycles),
    Column("CPU s", "cpu_seconds", decimals(2)),
    Column("in programs", "program_seconds", decimals(2)),
    Column("in LPs", "linear_seconds", decimals(2)),
    Column("predicted", "predicted_cycles", lambda value: cycles(math.ceil(value))),
    Column("gap", "gap", percent),
    Column("simulated", "simulated_cycles", cycles),
)


@dataclass(frozen=True)
class Variant:
    """A search, with or without the cache by content and the bounds on unsolved segments."""

    search: str
    cache: bool = True
    bounds: bool = True


@dataclass(frozen=True)
class Line:
    """One row to be."""

    case: Case
    chip: str
    variant: Variant

    @property
    def identity(self) -> Row:
        """What its row is known by."""
        return {"network": self.case.name, "chip": self.chip, **vars(self.variant)}


VARIANTS = (
    Variant(LAZY),
    Variant(UNKEPT),
    Variant(PUBLISHED),
    Variant(LAZY, cache=False),
    Variant(LAZY, bounds=False),
    Variant(EAGER),
    Variant(UNKEPT, cache=False),
    Variant(UNKEPT, bounds=False),
    Variant(LAZY, cache=False, bounds=False),
)
"""What is compared. To a search that solves everything bounds matter only where they make a program smaller."""


def run(given: argparse.Namespace) -> Outcome:
    """A row for each network, chip and variant; what takes longer than ``given.limit`` seconds is stopped, and says so."""
    lines = [Line(case, chip, v) for chip in CHIPS for v in VARIANTS for case in find_cases(NETWORKS)]
    known = _recorded(given.out / "ablation-searches.json", given.seed) if given.resume else []
    reached = [{key: row[key] for key in lines[0].identity} for row in known]
    left = [line for line in lines if line.identity not in reached]
    measured = [*known, *measure_each("searches", left, lambda line: measure(line, given.limit, given.seed))]
    rows = sorted(with_shares(measured), key=lambda row: (CHIPS.index(row["chip"]), row["network"]))
    failed = failures(rows)
    return Outcome(
        rows=rows,
        summary={"failures": failed},
        text="\n".join([text(rows), *(f"FAIL {failure}" for failure in failed), ""]),
        plot_size=(9, 7),
        draw=lambda figure: draw(figure.subplots(), rows),
        failed=bool(failed),
        stopped=stopped(rows),
        parameters={
            "networks": list(NETWORKS),
            "chips": list(CHIPS),
            **SETTINGS,
            "most_share": MOST_SHARE,
            "target_networks": list(TARGET_NETWORKS),
        },
    )


def _recorded(path: pathlib.Path, seed: int) -> list[Row]:
    """The rows of a record that have a result. Raises UsageError if it is not one of the same measurement."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: no record to resume ({error.strerror}); begin without --resume") from error
    asked = {"seed": seed, **SETTINGS}
    found = {"seed": record["seed"], **{key: record["parameters"].get(key) for key in SETTINGS}}
    if found != asked:
        raise UsageError(f"{path}: measured with {found}, not {asked}; begin without --resume")
    return [row for row in record["rows"] if "missing" not in row]


def measure(line: Line, time_limit: float, seed: int) -> Row:
    """The row of one variant."""
    if line.case.model is None:
        return {**line.identity, "missing": line.case.missing}
    network = load_network(line.case.model, dims=line.case.dims)
    found = figures(network, hw.load_chip(line.chip), line.variant, time_limit, seed)
    return {**line.identity, "time_limit": time_limit, **found}


def figures(
    network: Network, chip: hw.Chip, variant: Variant, time_limit: float, seed: int = 0, gap: float = GAP
) -> dict[str, Any]:
    """What one variant needs and finds for ``network`` on ``chip``.

    ``needed``: distinct programs that the search needs; with ``needed_complete`` false, at least. A search that would solve more
    than ``MOST_SOLVED`` is only counted. *published* cannot be, as what it asks next depends on solutions: it solves programs
    until time is up. Cycles and ``gap`` are None without a plan, ``gap`` also without a bound.
    """
    allocator = counting_allocator(gap / 2, variant.cache, seed)
    compilation = _Compilation(network, chip, variant, allocator, gap, time_limit)
    start = allocator.cpu_seconds()
    found, needed = compilation.lazy() if variant.search == LAZY else compilation.exhaustive()
    spent = allocator.cpu_seconds() - start
    counts, seconds = allocator.counts, allocator.seconds
    return {
        "requests": needed.requests,
        "needed": needed.distinct,
        "needed_complete": needed.complete,
        "solved": counts["programs"],
        "distinct": len(allocator.programs),
        "solver_runs": counts["allocations"],
        "flows": counts["flows"],
        "relaxations": counts["relaxations"],
        "cpu_seconds": round(spent, 3),
        "program_seconds": round(seconds["programs"], 3),
        "linear_seconds": round(seconds["flows"] + seconds["relaxations"], 3),
        **(found or dict.fromkeys(PLAN_FIGURES)),
    }


class _Compilation:
    """One network on one chip by one variant; what it finds are the ``PLAN_FIGURES`` of a plan."""

    def __init__(
        self,
        network: Network,
        chip: hw.Chip,
        variant: Variant,
        allocator: CountingAllocator,
        gap: float,
        time_limit: float,
    ) -> None:
        self.chip, self.variant, self.allocator, self.gap, self.time_limit = chip, variant, allocator, gap, time_limit
        (limits,) = schedule_limits("dual-mode", chip)
        self.builder = SegmentBuilder(build_workload(network, chip, limits.compute))
        self.pricer_type = PRICERS[variant.cache, variant.bounds]

    def lazy(self) -> tuple[Row, Needed]:
        """As the compiler does: an all-compute plan by the bounds of dual-mode, then dual-mode from there."""
        space, known, stop = Space(self._pricer()), None, deadline(self.time_limit)
        if self.chip.modes.switchable:
            known = self._find(Space(self._pricer("all-compute")), "all-compute", stop, wider=space)
        found = self._find(space, "dual-mode", stop, known=known)
        solved, journal = len(self.allocator.programs), self.allocator.journal
        return self._simulated(found.plan, found.cost, found.gap), Needed(
            journal.segments_considered, solved, not stop()
        )

    def _find(self, space: Space, schedule: str, stop: Stop, **others: Any) -> Found:
        return find_plan(space, schedule, self.gap * SEARCH_SHARE, stop, **others)

    def exhaustive(self) -> tuple[Row | None, Needed]:
        """By the variant's search; None if it would take too long."""
        search, pricer = self.variant.search, self._pricer()
        if search == PUBLISHED:
            path, needed = published(pricer, True, deadline(self.time_limit))
            return None if path is None else self._planned(pricer, path), needed
        counted = self._count()
        if not counted.complete or (counted.distinct if self.variant.cache else counted.requests) > MOST_SOLVED:
            return None, counted
        stop = deadline(self.time_limit)
        path, needed = eager(pricer, stop) if search == EAGER else published(pricer, False, stop)
        return (None, counted) if path is None else (self._planned(pricer, path), needed)

    def _count(self) -> Needed:
        """The programs that the variant's search would need, counted for at most as long as it may run."""
        pricer = self._pricer()
        edges = every_edge(pricer) if self.variant.search == EAGER else every_segment(pricer)
        return count(edges, pricer, deadline(self.time_limit))

    def _pricer(self, schedule: str = "dual-mode") -> Counted:
        (limits,) = schedule_limits(schedule, self.chip)
        return self.pricer_type(self.builder, limits, self.allocator)

    def _planned(self, pricer: Counted, path: Path) -> Row:
        plan, cost = plan_of("dual-mode", pricer, path, 0.0)
        return self._simulated(plan, cost, None)

    def _simulated(self, plan: Plan, cost: Fraction, gap: float | None) -> Row:
        timing = simulate(lower(plan, self.builder.workload), self.chip)
        found = (float(cost), gap, timing.total_cycles, len(plan.segments))
        return dict(zip(PLAN_FIGURES, found, strict=True))


def with_shares(rows: Sequence[Row]) -> list[Row]:
    """The rows; those of lazy search with the ``share`` of the distinct programs of *published* that it solves, and the
    ``share_unkept`` of those of *published, nothing kept*."""
    return [
        {**row, "share": _share(row, rows, PUBLISHED), "share_unkept": _share(row, rows, UNKEPT)}
        if row["search"] == LAZY
        else row
        for row in rows
    ]


def _share(row: Row, rows: Sequence[Row], search: str) -> float | None:
    """With the cache; at most so much where programs were not counted to the end; None without a count, or if lazy search was
    stopped."""
    for other in rows:
        if (other["network"], other["chip"], other["search"]) != (row["network"], row["chip"], search):
            continue
        if other["cache"] and other["bounds"] and other.get("needed") and row.get("needed_complete"):
            return float(row["distinct"] / other["needed"])
    return None


def _judged(rows: Sequence[Row]) -> list[Row]:
    """Rows that have to meet the target: lazy search, with cache and bounds, on the target networks."""
    full = [row for row in rows if row["search"] == LAZY and row["cache"] and row["bounds"]]
    return [row for row in full if row["network"] in TARGET_NETWORKS]


def failures(rows: Sequence[Row]) -> list[str]:
    """Target networks on which lazy search, with cache and bounds, was stopped before its proof, solves too many programs (of
    *published* or of *published, nothing kept*, where the count may have been stopped), or finds a worse plan than another."""
    found = []
    for row in _judged(rows):
        name = f"{row['network']} on {row['chip']}"
        if "missing" in row:
            found.append(f"{name}: {row['missing']}")
            continue
        if not row["needed_complete"]:
            found.append(f"{name}: lazy search was stopped at a gap of {percent(row['gap'])}")
            continue
        share = min((s for s in (row["share"], row["share_unkept"]) if s is not None), default=None)
        if share is None or share > MOST_SHARE:
            part = "an unknown part" if share is None else percent(share)
            found.append(f"{name}: lazy search solves {part} of the programs of the published search")
        others = [r for r in rows if (r["network"], r["chip"]) == (row["network"], row["chip"]) and r["search"] != LAZY]
        best = min((r["predicted_cycles"] for r in others if r.get("predicted_cycles")), default=None)
        if best is not None and row["predicted_cycles"] > best * (1 + ROUNDING):
            found.append(f"{name}: another search finds {best:,.0f} cycles, lazy search {row['predicted_cycles']:,.0f}")
    return found


def text(rows: Sequence[Row]) -> str:
    """The table."""
    shown = []
    for row in rows:
        needed = row.get("needed")
        least = "" if row.get("needed_complete") else ">= "
        yes = {key: "on" if row[key] else "off" for key in ("cache", "bounds")}
        shown.append({**row, **yes, "needed_text": f"{least}{needed:,}" if needed else None})
    return table(COLUMNS, shown)


def draw(axes: Any, rows: Sequence[Row]) -> None:
    """Distinct programs of each search, with cache and bounds, by network and chip."""
    full = [row for row in rows if row.get("cache") and row.get("bounds") and "missing" not in row]
    places = list(dict.fromkeys((row["network"], row["chip"]) for row in full))
    for number, search in enumerate(SEARCHES):
        mine = [row for row in full if row["search"] == search]
        at = [places.index((row["network"], row["chip"])) + 0.2 * number for row in mine]
        axes.barh(at, [row["needed"] for row in mine], height=0.18, label=search)
    axes.set_yticks([i + 0.3 for i in range(len(places))], [f"{network} ({chip})" for network, chip in places])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("distinct programs (eager, and what was stopped: at least)")
    axes.legend()
