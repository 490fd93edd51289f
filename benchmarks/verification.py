"""``verification``: programs executed on numbers, every product against the integer reference, outputs against floats."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import hw
from benchmarks.networks import Case
from benchmarks.record import Column, Row, decimals, percent, table
from benchmarks.runner import run_python
from benchmarks.settings import Outcome, Settings, measure_each

Change = dict[str, int | str]

SCARCE: Change = {"main_memory.bandwidth": 4, "buffer.capacity_bytes": 0}
"""Bytes per cycle and bytes with which tensors are worth a place in memory-mode arrays; with the presets' few are."""
RUNS: tuple[tuple[str, Change], ...] = (("dual-mode", {}), ("all-compute", {}), ("static", {}), ("dual-mode", SCARCE))
"""Schedules, with what is changed of the chip."""
LEAST_ARRAYS = {"crnn": 144, "crnn-int8": 144}
"""Of a recurrent layer all weights must be in the arrays at once, and a static schedule may keep a quarter as memory."""
GAP = 0.05
LARGEST_IMPORT_ERROR = 5e-3
"""Of nodes one by one against onnxruntime on the file, relative: onnxruntime's quantised LSTM quantises its state as well."""
PATIENCE = 1800
"""Seconds after which a network on a chip is given up."""


@dataclass(frozen=True)
class VerificationJob:
    """Verify ``model`` on ``chip`` in all of ``runs`` (schedule, changes of the chip).

    ``gap`` and ``time_limit`` (seconds) are those of each compilation, ``seed`` that of weights and inputs that are generated.
    """

    model: str
    dims: dict[str, int]
    values: dict[str, float]
    chip: str
    runs: tuple[tuple[str, Change], ...]
    gap: float
    time_limit: float
    seed: int


@dataclass(frozen=True)
class Group:
    """Rows that one process makes: a network on a chip."""

    case: Case
    chip: str

    @property
    def identity(self) -> Row:
        """What identifies the group."""
        return {"network": self.case.name, "chip": self.chip}


COLUMNS = (
    Column("network", "network"),
    Column("chip", "chip"),
    Column("schedule", "schedule"),
    Column("changes", "changes"),
    Column("segments", "segments"),
    Column("in buffer", "in_buffer"),
    Column("in arrays", "in_arrays"),
    Column("operators", "operators"),
    Column("exact", "exact_operators"),
    Column("products", "products"),
    Column("exact", "exact_products"),
    Column("program as", "program_as"),
    Column("not executed", "not_executed", lambda names: str(len(names))),
    Column("cosine", "cosine", decimals(5)),
    Column("top-1", "top1", percent),
    Column("SQNR dB", "median_sqnr_db", decimals(1)),
    Column("CPU s", "cpu_seconds", decimals(1)),
    Column("peak MB", "peak_mb", decimals(0)),
)


def run(settings: Settings) -> Outcome:
    """Verify every network on every chip in all ways; fails if one has no result or does not hold what it has to."""
    groups = [Group(case, chip) for case in settings.cases for chip in settings.chips]
    found = measure_each("verification", groups, lambda group: {"rows": measure(group, settings)})
    rows: list[Row] = [row for made in found for row in made.get("rows", [made])]
    failures = [f"{_name(row)}: {why}" for row in rows for why in broken_rules(row)]
    present = [row for row in rows if "missing" not in row]
    summary: dict[str, object] = {"lines": len(rows), "missing": len(rows) - len(present)}
    for key in ("products", "exact_products", "operators", "exact_operators"):
        summary[key] = sum(row[key] for row in present)
    return Outcome(
        rows=rows,
        summary={**summary, "failures": failures},
        text=table(COLUMNS, rows) + "".join(f"FAIL {failure}\n" for failure in failures),
        plot_size=(9, 2 + 0.25 * len({row["network"] for row in rows})),
        draw=lambda figure: _draw(figure, present),
        failed=bool(failures),
        parameters={
            "onnxruntime": metadata.version("onnxruntime"),
            "gap": GAP,
            "least_arrays": LEAST_ARRAYS,
        },
    )


def _enough_arrays(case: Case, name: str) -> Change:
    """What gives a chip the arrays that a network needs."""
    chip, least = hw.load_chip(name), LEAST_ARRAYS.get(case.name, 0)
    return {} if chip.arrays >= least else {"arrays_per_core": -(-least * chip.arrays_per_core // chip.arrays)}


def measure(group: Group, settings: Settings) -> list[Row]:
    """The rows of a network on a chip, by a process of their own."""
    case = group.case
    if case.model is None:
        return [{**group.identity, "missing": case.missing, "failed": False}]
    enough = _enough_arrays(case, group.chip)
    job = VerificationJob(
        model=case.model,
        dims=case.dims,
        values=case.values,
        chip=group.chip,
        runs=tuple((schedule, {**enough, **changes}) for schedule, changes in RUNS),
        gap=GAP,
        time_limit=settings.time_limit,
        seed=settings.seed,
    )
    done = run_python(["-m", "benchmarks.verification_worker"], json.dumps(dataclasses.asdict(job)), PATIENCE)
    if done.failure is not None:
        return [{**group.identity, "missing": done.failure, "failed": True}]
    return [{**group.identity, **row, "peak_mb": round(done.peak_mb, 1)} for row in json.loads(done.stdout)]


def broken_rules(row: Row) -> list[str]:
    """The rules that a row breaks."""
    if "missing" in row:
        return [f"no result: {row['missing']}"] if row.get("failed") else []
    importer = row["importer_error"]
    rules = {
        f"stopped: {row['error']}": row["error"] is not None,
        f"first to deviate: {row['first_deviation']}": row["exact_operators"] != row["operators"],
        "no product was executed": row["products"] == 0,
        f"importer differs by {importer}": isinstance(importer, float) and importer > LARGEST_IMPORT_ERROR,
    }
    return [why for why, broken in rules.items() if broken]


def _name(row: Row) -> str:
    return " ".join(str(row[key]) for key in ("network", "chip", "schedule", "changes") if row.get(key))


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    if not rows:
        return
    networks = list(dict.fromkeys(str(row["network"]) for row in rows))
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, key, title in ((left, "median_sqnr_db", "median SQNR of products, dB"), (right, "cpu_seconds", "CPU s")):
        for chip in dict.fromkeys(str(row["chip"]) for row in rows):
            here = [row for row in rows if row["chip"] == chip and row[key] is not None]
            places = [networks.index(str(row["network"])) for row in here]
            axes.plot([row[key] for row in here], places, "o", label=chip, alpha=0.6)
        axes.set_xlabel(title)
    left.set_yticks(range(len(networks)), networks)
    left.invert_yaxis()
    right.legend()
