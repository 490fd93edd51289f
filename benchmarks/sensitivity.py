"""``sensitivity``: how the gain of dual mode depends on figures that no paper gives, one at a time around a preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import hw
from benchmarks.networks import Case, UsageError
from benchmarks.record import Column, Row, cycles, decimals, percent, table
from benchmarks.runner import Answer, Compiled, Job, compile_job
from benchmarks.settings import Outcome, Settings, measure_each

NETWORKS = ("zoo:resnet18", "zoo:vgg16", "zoo:bert-large")
"""What is measured unless ``--networks`` says otherwise."""
SCHEDULES = ("dual-mode", "all-compute")
Change = dict[str, int | str]

SWEEPS: dict[str, dict[str, tuple[Change, ...]]] = {
    "dynaplasia": {
        "cycles per pass": tuple({"array.cycles_per_pass": value} for value in ("0.125", 1, "12.5")),
        "main memory, B/cycle": tuple({"main_memory.bandwidth": value} for value in (4, "25.6", "51.2", "102.4")),
        "write cycles per row x arrays at once": tuple(
            {"array.write_cycles_per_row": cycles_per_row, "array.arrays_written_at_once": at_once}
            for cycles_per_row, at_once in ((10, 1), (10, 8), (1, 1), (1, 8), (1, 96))
        ),
        "vector lanes": tuple({"vector.lanes": value} for value in (16, 32, 64, 128)),
        "input reuse": tuple({"input_reuse": value} for value in ("line_buffer", "expanded")),
    },
    "prime": {
        "cycles per pass": tuple({"array.cycles_per_pass": value} for value in (50, 100, 200)),
        "main memory, B/cycle": tuple({"main_memory.bandwidth": value} for value in ("8.5", "25.6", 544)),
        "write cycles per row x arrays at once": tuple(
            {"array.write_cycles_per_row": cycles_per_row, "array.arrays_written_at_once": at_once}
            for cycles_per_row, at_once in ((8500, 64), (1000, 64), (1000, 4096), (41, 64))
        ),
        "vector lanes": tuple({"vector.lanes": value} for value in (128, 512, 2048)),
        "input reuse": tuple({"input_reuse": value} for value in ("line_buffer", "expanded")),
    },
}
"""For each chip the assumptions that decide results and the values that published figures leave open."""
QUICK_SWEEPS = ("main memory, B/cycle",)

COLUMNS = (
    Column("network", "network"),
    Column("chip", "chip"),
    Column("assumption", "assumption"),
    Column("value", "value"),
    Column("dual-mode", "dual_cycles", cycles),
    Column("all-compute", "compute_cycles", cycles),
    Column("gain", "gain", decimals(3)),
    Column("on execute", "execute_gain", decimals(3)),
    Column("memory", "memory_fraction", percent),
    Column("used", "schedule_used"),
    Column("gap", "gap", percent),
    Column("all-compute gap", "compute_gap", percent),
)


@dataclass(frozen=True)
class Point:
    """One row to be: an assumption at a value."""

    case: Case
    chip: str
    assumption: str
    change: Change

    @property
    def identity(self) -> Row:
        """What identifies the row."""
        value = " x ".join(map(str, self.change.values()))
        return {"network": self.case.name, "chip": self.chip, "assumption": self.assumption, "value": value}


def run(settings: Settings) -> Outcome:
    """Measure all points. A value that the preset already has is compiled once for all assumptions; fails without a result."""
    known: dict[tuple[str, str], Answer] = {}
    rows = measure_each("sensitivity", points(settings), lambda point: _measure(point, settings, known))
    failures = [
        f"{' '.join(str(row[k]) for k in ('network', 'chip', 'assumption', 'value'))}: {row['missing']}"
        for row in rows
        if row.get("failed")
    ]
    return Outcome(
        rows=rows,
        summary={"failures": failures},
        text=table(COLUMNS, rows) + "".join(f"FAIL {failure}\n" for failure in failures),
        plot_size=(15, 4 * max(1, len(settings.chips))),
        draw=lambda figure: _draw(figure, rows),
        failed=bool(failures),
        parameters={"sweeps": {chip: SWEEPS.get(chip, {}) for chip in settings.chips}},
    )


def points(settings: Settings) -> list[Point]:
    """Every network on every chip at every value of every assumption. Raises UsageError for a chip without sweeps."""
    unknown = [chip for chip in settings.chips if chip not in SWEEPS]
    if unknown:
        raise UsageError(f"no assumptions of chip '{unknown[0]}' are swept; there are sweeps of {', '.join(SWEEPS)}")
    return [
        Point(case, chip, assumption, change)
        for chip in settings.chips
        for case in settings.cases
        for assumption, changes in SWEEPS[chip].items()
        if not settings.quick or assumption in QUICK_SWEEPS
        for change in changes
    ]


def _measure(point: Point, settings: Settings, known: dict[tuple[str, str], Answer]) -> dict[str, object]:
    case = point.case
    if case.model is None:
        return {**point.identity, "missing": case.missing, "failed": False}
    chip = hw.load_chip(point.chip)
    as_is = chip.with_changes(**point.change).sha256 == chip.sha256
    key = (case.name, point.chip)
    if as_is and key in known:
        answer = known[key]
    else:
        job = Job(
            case.model, case.dims, point.chip, point.change, SCHEDULES, settings.time_limit, settings.seed, case.values
        )
        answer = compile_job(job)
    if as_is:
        known[key] = answer
    if answer.failure is not None:
        return {**point.identity, "preset": as_is, "missing": answer.failure, "failed": True}
    return {**point.identity, "preset": as_is, **figures(answer.compiled)}


def figures(compiled: Mapping[str, Compiled]) -> dict[str, object]:
    """Simulated cycles of both schedules; the gains are all-compute over dual-mode."""
    dual, compute = (compiled[schedule] for schedule in SCHEDULES)
    return {
        "dual_cycles": dual.simulated_cycles,
        "compute_cycles": compute.simulated_cycles,
        "gain": compute.simulated_cycles / dual.simulated_cycles,
        "dual_execute_cycles": dual.simulated_execute,
        "compute_execute_cycles": compute.simulated_execute,
        "execute_gain": compute.simulated_execute / dual.simulated_execute if dual.simulated_execute else None,
        "memory_fraction": dual.memory_fraction,
        "schedule_used": dual.schedule_used,
        "termination": dual.termination,
        "gap": dual.gap,
        "compute_termination": compute.termination,
        "compute_gap": compute.gap,
    }


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    present = [row for row in rows if "missing" not in row]
    chips = list(dict.fromkeys(str(row["chip"]) for row in present))
    sweeps = list(dict.fromkeys(str(row["assumption"]) for row in present))
    if not present:
        return
    grid = figure.subplots(len(chips), len(sweeps), squeeze=False, sharey="row")
    for chip, line in zip(chips, grid, strict=True):
        for sweep, axes in zip(sweeps, line, strict=True):
            here = [row for row in present if row["chip"] == chip and row["assumption"] == sweep]
            for network in dict.fromkeys(str(row["network"]) for row in here):
                own = [row for row in here if row["network"] == network]
                axes.plot([row["value"] for row in own], [row["gain"] for row in own], marker="o", label=network)
            axes.set_xlabel(sweep)
        line[0].set_ylabel(f"{chip}: all-compute / dual-mode cycles")
        line[0].legend()
