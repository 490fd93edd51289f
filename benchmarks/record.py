"""What a benchmark leaves: a table on stdout, a JSON file, and a plot where matplotlib is installed."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from cmswitch.version import __version__

SCHEMA = 1
PACKAGES = ("pyomo", "highspy", "ortools", "numpy", "onnx", "networkx", "pydantic", "simpy")
"""Packages that a result depends on."""

Row = Mapping[str, Any]
"""One line of a result. A row with the key ``missing`` has no figures: its text says why."""


@dataclass(frozen=True)
class Column:
    """A column of the table: its heading, the key of the row, and how a value that is not None is shown."""

    head: str
    key: str
    show: Callable[[Any], str] = str


def cycles(value: int) -> str:
    """Whole cycles with thousands separated."""
    return f"{value:,}"


def percent(value: float) -> str:
    """A fraction in percent, two decimals."""
    return f"{100 * value:.2f} %"


def signed_percent(value: float) -> str:
    """A fraction in percent with its sign."""
    return f"{100 * value:+.2f} %"


def decimals(places: int) -> Callable[[float], str]:
    """A number with ``places`` decimals."""
    return lambda value: f"{value:.{places}f}"


def table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """The rows as text, first column left, others right; None is ``-`` and a missing result a row that says why."""

    def cells(row: Row) -> list[str]:
        return ["-" if row.get(c.key) is None else c.show(row[c.key]) for c in columns]

    shown = [(cells(row), row.get("missing")) for row in rows]
    complete = [[c.head for c in columns], *(texts for texts, missing in shown if missing is None)]
    widths = [max(len(texts[i]) for texts in complete) for i in range(len(columns))]
    widths[0] = max([widths[0], *(len(texts[0]) for texts, _ in shown)])

    def line(texts: Sequence[str]) -> str:
        first, *rest = [
            text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(texts, widths, strict=True))
        ]
        return "  ".join([first, *rest]).rstrip()

    lines = [line(complete[0])]
    for texts, missing in shown:
        if missing is None:
            lines.append(line(texts))
        else:
            known = [text for text in texts[1:] if text != "-"]
            lines.append("  ".join([texts[0].ljust(widths[0]), *known, f"missing: {missing}"]))
    return "\n".join(lines) + "\n"


def machine() -> dict[str, object]:
    """The machine: system, processor and cores."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": cores(),
    }


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"


def record(name: str, seed: int, parameters: Row, rows: Sequence[Row], summary: Row) -> str:
    """The text of ``NAME.json``, one row per line."""
    head = {
        "schema": SCHEMA,
        "name": name,
        "cmswitch": __version__,
        "python": platform.python_version(),
        "packages": {package: metadata.version(package) for package in PACKAGES},
        "machine": machine(),
        "seed": seed,
        "parameters": parameters,
        "summary": summary,
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in head.items()]
    body = ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in rows)
    return "{\n" + ",\n".join([*lines, f' "rows": [\n{body}\n ]']) + "\n}\n"


def write_plot(path: Path, size: tuple[float, float], draw: Callable[[Any], None]) -> bool:
    """Let ``draw`` fill a figure of ``size`` inches and write it to ``path``. Without matplotlib say so and return False."""
    try:
        figures = import_module("matplotlib.figure")
    except ImportError:
        print(f"no {path.name}: matplotlib is not installed (pip install 'cmswitch[plot]')", file=sys.stderr)
        return False
    figure = figures.Figure(figsize=size, layout="constrained")
    draw(figure)
    figure.savefig(path, dpi=110)
    return True
