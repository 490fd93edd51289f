"""``compile_time``: CPU seconds and memory of ``cmswitch solve``, and how they grow with the depth of a network."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.networks import Case
from benchmarks.record import Column, Row, cycles, decimals, percent, table
from benchmarks.runner import run_python
from benchmarks.settings import Outcome, Settings, measure_each

TARGET_NETWORKS = ("zoo:resnet18", "light_resnet50", "zoo:bert-large")
"""Networks that are to compile within the targets."""
TARGET_CPU_SECONDS = 6.0
TARGET_PEAK_MB = 500.0
LAYERS = (1, 2, 4, 8, 16, 24, 48, 96)
"""Encoder layers of the scaling plot, each of BERT-large's shape."""
QUICK_LAYERS = (1, 2)
SEQUENCE = 64
_WRITE_ENCODER = """
import sys
import onnx
from cmswitch.graph.zoo.transformers import bert
name, layers, path = sys.argv[1:]
onnx.save(bert(name, int(layers)), path)
"""
ACTIVITIES = ("import", "build", "solve", "search", "lower", "simulate", "total")
"""Keys of ``solve.seconds`` in a report, in CPU seconds."""

COLUMNS = (
    Column("network", "network"),
    Column("chip", "chip"),
    *(Column(name, f"{name}_seconds", decimals(2)) for name in ACTIVITIES),
    Column("process CPU s", "cpu_seconds", decimals(2)),
    Column("peak MB", "peak_mb", decimals(0)),
    Column("programs", "programs_solved", cycles),
    Column("edges", "edges_considered", cycles),
    Column("termination", "termination"),
    Column("gap", "gap", percent),
    Column("target", "target"),
)


@dataclass(frozen=True)
class Line:
    """One row to be; ``layers`` for those of the scaling plot."""

    case: Case
    chip: str
    layers: int | None = None

    @property
    def identity(self) -> Row:
        """What identifies the row."""
        return {"network": self.case.name, "chip": self.chip}


def run(settings: Settings) -> Outcome:
    """Measure each network on each chip, then encoders of growing depth; fails if a compilation gives no result."""
    depths = QUICK_LAYERS if settings.quick else LAYERS
    with tempfile.TemporaryDirectory() as folder:
        lines = [Line(case, chip) for chip in settings.chips for case in settings.cases]
        lines += [Line(encoder(layers, Path(folder)), chip, layers) for chip in settings.chips for layers in depths]
        rows = measure_each("compile_time", lines, lambda line: measure(line, settings))
    failures = [f"{row['network']} on {row['chip']}: {row['missing']}" for row in rows if row.get("failed")]
    return Outcome(
        rows=rows,
        summary={
            "missed_targets": [row["network"] for row in rows if row.get("target") == "missed"],
            "failures": failures,
        },
        text=table(COLUMNS, rows) + "".join(f"FAIL {failure}\n" for failure in failures),
        plot_size=(11, 4.5),
        draw=lambda figure: _draw(figure, rows),
        failed=bool(failures),
        parameters={
            "layers": list(depths),
            "sequence": SEQUENCE,
            "target_networks": list(TARGET_NETWORKS),
            "target_cpu_seconds": TARGET_CPU_SECONDS,
            "target_peak_mb": TARGET_PEAK_MB,
        },
    )


def encoder(layers: int, folder: Path) -> Case:
    """An encoder of ``layers`` layers, written into ``folder`` by another process, so that this one stays small."""
    path = folder / f"bert-{layers}.onnx"
    done = run_python(["-c", _WRITE_ENCODER, path.stem, str(layers), str(path)])
    name = f"bert x {layers} layers"
    if done.failure is not None:
        return Case(name, None, missing=done.failure)
    return Case(name, str(path), {"batch": 1, "seq": SEQUENCE})


def measure(line: Line, settings: Settings) -> dict[str, object]:
    """The row of one compilation, by the command that a user would give."""
    case = line.case
    row = {**line.identity, "layers": line.layers}
    if case.model is None:
        return {**row, "missing": case.missing, "failed": False}
    options = ["--json", "--quiet", "--time-limit", f"{settings.time_limit:g}", "--seed", str(settings.seed)]
    sizes = [text for name, size in case.dims.items() for text in ("--dim", f"{name}={size}")]
    values = [text for name, value in case.values.items() for text in ("--value", f"{name}={value:g}")]
    command = ["-m", "cmswitch", "solve", case.model, "--hw", line.chip, *options, *sizes, *values]
    done = run_python(command, timeout=3 * settings.time_limit + 120)
    if done.failure is not None:
        return {**row, "missing": done.failure, "failed": True}
    solve = json.loads(done.stdout)["solve"]
    return {
        **row,
        **{f"{name}_seconds": solve["seconds"].get(name) for name in ACTIVITIES},
        "cpu_seconds": round(done.cpu_seconds, 3),
        "peak_mb": round(done.peak_mb, 1),
        "programs_solved": solve["programs_solved"],
        "edges_considered": solve["segments_considered"],
        "termination": solve["termination"],
        "gap": solve["gap"],
        "target": target(case.name, done.cpu_seconds, done.peak_mb),
    }


def target(name: str, cpu_seconds: float, peak_mb: float) -> str | None:
    """Whether the targets are met; None for a network that has none."""
    if name not in TARGET_NETWORKS:
        return None
    return "met" if cpu_seconds <= TARGET_CPU_SECONDS and peak_mb <= TARGET_PEAK_MB else "missed"


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    present = [row for row in rows if "missing" not in row]
    networks = [row for row in present if row["layers"] is None]
    left, right = figure.subplots(1, 2)
    starts = [0.0] * len(networks)
    for name in ACTIVITIES[:-1]:
        spent = [row[f"{name}_seconds"] or 0.0 for row in networks]
        left.barh(range(len(networks)), spent, left=starts, label=name)
        starts = [start + more for start, more in zip(starts, spent, strict=True)]
    left.set_yticks(range(len(networks)), [f"{row['network']} ({row['chip']})" for row in networks])
    left.invert_yaxis()
    left.axvline(TARGET_CPU_SECONDS, color="grey", linestyle="--", linewidth=1)
    left.set_xlabel("CPU seconds (dashed: target)")
    left.legend()
    for chip in dict.fromkeys(row["chip"] for row in present):
        deep = [row for row in present if row["layers"] is not None and row["chip"] == chip]
        for key, what in (("solve_seconds", "solve"), ("total_seconds", "total")):
            right.plot([row["layers"] for row in deep], [row[key] for row in deep], marker="o", label=f"{what}, {chip}")
    right.set_xlabel("encoder layers of BERT-large's shape")
    right.set_ylabel("CPU seconds")
    right.legend()
