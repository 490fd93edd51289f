"""What the rows of the comparison say: disagreements, profiles, the recommendation; as tables and as a plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from statistics import median
from typing import Any

from benchmarks.ablation.pairs import FORMS, TOLERANCE
from benchmarks.ablation.segments import SIZES
from benchmarks.record import Column, Row, cycles, decimals, percent, table
from benchmarks.settings import average

TARGETS = {"1-3": 0.1, "4-7": 0.5, "8-12": 3.0}
"""Median CPU seconds that the default pair is to take, build included."""
FINALISTS = 3
"""Pairs of each cost model and size that go on from the sample to all segments."""
FACTORS = tuple(2.0**k for k in range(13))
PAPER = "literal"
BESIDE = ("default", "throughput", PAPER)
"""Forms whose fastest pairs are shown side by side."""

Rows = Sequence[Row]


def summarize(rows: Rows, default: str, chosen: Sequence[str]) -> dict[str, Any]:
    """Everything that is computed from the rows; ``default`` is the name of the compiler's pair, ``chosen`` are the finalists."""
    found = [row for row in rows if "missing" not in row]
    return {
        "default": default,
        "targets": [_target(found, size, default) for size in SIZES],
        "finalists": list(chosen),
        "recommendation": recommend(rows, chosen),
        "profiles": {model: profiles(rows, model) for model in _models(rows)},
        "final_profiles": {model: profiles(rows, model, chosen) for model in _models(rows)},
        "disagreements": disagreements(found),
        "missing": len(rows) - len(found),
    }


def pair_of(row: Row) -> str:
    """The name of the row's pair."""
    return f"{row['form']}:{row['solver']}"


def _models(rows: Rows) -> list[str]:
    """Cost models of which there are results."""
    return list(dict.fromkeys(row["cost_model"] for row in rows if "missing" not in row))


def _target(rows: Rows, size: str, default: str) -> dict[str, Any]:
    own = [row for row in rows if row["size"] == size and pair_of(row) == default]
    middle = median(row["cpu_seconds"] for row in own) if own else None
    return {
        "size": size,
        "segments": len(own),
        "solved": sum(row["solved"] for row in own),
        "median_cpu_seconds": middle,
        "worst_cpu_seconds": max((row["cpu_seconds"] for row in own), default=None),
        "target": TARGETS[size],
        "met": middle is not None and middle <= TARGETS[size],
    }


# -- who is right ----------------------------------------------------------------------------------------------------------


def disagreements(rows: Rows) -> list[str]:
    """Solved segments whose exact costs differ by more than the tolerance, and bounds above what an allocation costs (a proof
    that there is none, too).

    Pairs are compared within one cost model: the published equations price other plans, and price them otherwise.
    """
    by_segment: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_segment.setdefault((row["cost_model"], row["segment"]), []).append(row)
    told = []
    for (_, segment), own in by_segment.items():
        costs = {pair_of(row): Fraction(row["exact"]) for row in own if row["exact"]}
        best = min(costs, key=costs.__getitem__, default="")
        for row in own if best else ():
            pair, most = pair_of(row), costs[best] * (1 + TOLERANCE)
            if row["termination"] == "infeasible":
                told.append(f"{segment}: {pair} finds no allocation, {best} one of {float(costs[best]):.9g}")
            elif row["solved"] and costs[pair] > most:
                told.append(f"{segment}: {pair} ends at {float(costs[pair]):.9g}, {best} at {float(costs[best]):.9g}")
            elif row["bound"] > most:
                told.append(f"{segment}: {pair} proves {row['bound']:.9g}, {best} costs {float(costs[best]):.9g}")
    return told


# -- who is fast -----------------------------------------------------------------------------------------------------------


def compared(rows: Rows, model: str, pairs: Sequence[str] | None = None) -> dict[str, dict[str, Row]]:
    """Rows of one cost model by segment and pair, of segments that all ``pairs`` (None: all that there are) were given."""
    own = [row for row in rows if row.get("cost_model") == model and (pairs is None or pair_of(row) in pairs)]
    by_segment: dict[str, dict[str, Row]] = {}
    for row in own:
        by_segment.setdefault(row["segment"], {})[pair_of(row)] = row
    count = len(set(map(pair_of, own)))
    return {segment: found for segment, found in by_segment.items() if len(found) == count}


def _of_size(groups: dict[str, dict[str, Row]], size: str) -> list[dict[str, Row]]:
    return [own for own in groups.values() if next(iter(own.values()))["size"] == size]


def profiles(rows: Rows, model: str, pairs: Sequence[str] | None = None) -> dict[str, list[float]]:
    """For each of ``pairs`` the fraction it solved, of the segments all were given, within each of :data:`FACTORS` times the CPU
    seconds of the fastest."""
    ratios: dict[str, list[float]] = {}
    groups = compared(rows, model, pairs)
    for own in groups.values():
        times = {pair: max(row["cpu_seconds"], 1e-4) for pair, row in own.items() if row.get("solved")}
        for pair in own:
            ratios.setdefault(pair, [])
            if pair in times:
                ratios[pair].append(times[pair] / min(times.values()))
    return {pair: [sum(r <= f for r in own) / len(groups) for f in FACTORS] for pair, own in ratios.items()}


def finalists(rows: Rows, default: str) -> list[str]:
    """The ``default`` pair and, of each cost model and size, the best :data:`FINALISTS` on the segments that all were given."""
    best = {default} | {
        pair for ranks in _ranks(rows).values() for pair in sorted(ranks, key=ranks.__getitem__)[:FINALISTS]
    }
    return [pair for pair in dict.fromkeys(map(pair_of, rows)) if pair in best]


def recommend(rows: Rows, pairs: Sequence[str]) -> dict[str, dict[str, str]]:
    """By cost model and size: of ``pairs`` that solve most segments the one that takes the least CPU time on all of them."""
    advice: dict[str, dict[str, str]] = {}
    for (model, size), ranks in _ranks(rows, pairs).items():
        advice.setdefault(model, {})[size] = min(ranks, key=ranks.__getitem__)
    return advice


def _ranks(rows: Rows, pairs: Sequence[str] | None = None) -> dict[tuple[str, str], dict[str, tuple[int, float]]]:
    """The ranks of pairs by cost model and size."""
    groups = {(model, size): _of_size(compared(rows, model, pairs), size) for model in _models(rows) for size in SIZES}
    return {key: {pair: _rank([own[pair] for own in of]) for pair in of[0]} for key, of in groups.items() if of}


def _rank(rows: Rows) -> tuple[int, float]:
    return -sum(bool(row.get("solved")) for row in rows), sum(row.get("cpu_seconds", 0.0) for row in rows)


# -- tables ----------------------------------------------------------------------------------------------------------------

COLUMNS = (
    Column("operators", "size"),
    Column("form", "form"),
    Column("solver", "solver"),
    Column("segments", "segments", cycles),
    Column("solved", "solved", cycles),
    Column("build", "build", decimals(3)),
    Column("solve", "solve", decimals(3)),
    Column("median CPU s", "median", decimals(3)),
    Column("total CPU s", "total", decimals(1)),
    Column("nodes", "nodes", decimals(0)),
    Column("root gap", "root_gap", percent),
)
PAPER_COLUMNS = (
    Column("chip", "chip"),
    Column("operators", "size"),
    *(Column(form, form) for form in BESIDE),
    Column(f"{PAPER} build", "build", decimals(3)),
)
TARGET_COLUMNS = (
    Column("operators", "size"),
    Column("segments", "segments", cycles),
    Column("solved", "solved", cycles),
    Column("median CPU s", "median_cpu_seconds", decimals(3)),
    Column("target", "target", decimals(1)),
    Column("met", "met", lambda met: "yes" if met else "no"),
    Column("worst", "worst_cpu_seconds", decimals(2)),
)


def tables(rows: Rows, summary: dict[str, Any]) -> str:
    """All of it for people."""
    limits = list(next((row["gaps"] for row in rows if "gaps" in row), {}))
    columns = [*COLUMNS, *(Column(f"gap at {limit} s", f"gap_{limit}", percent) for limit in limits)]
    texts = [
        f"cost model {model}, {which}:\n{table(columns, _aggregates(compared(rows, model, pairs), limits))}"
        for model in _models(rows)
        for which, pairs in (
            ("segments that all pairs were given", None),
            ("segments of the finalists", summary["finalists"]),
        )
    ]
    texts.append(
        f"CPU seconds (median; segments solved) of the published form beside the default:\n{table(PAPER_COLUMNS, _beside(rows))}"
    )
    texts.append(f"{summary['default']} on all segments:\n{table(TARGET_COLUMNS, summary['targets'])}")
    for model, advice in summary["recommendation"].items():
        texts.append("".join(f"recommended for {model}, {size} operators: {pair}\n" for size, pair in advice.items()))
    return "\n".join([*texts, *(f"FAIL {line}" for line in summary["disagreements"])]) + "\n"


def _aggregates(groups: dict[str, dict[str, Row]], limits: Iterable[str]) -> Rows:
    """A line for each size and pair; a segment without a solution has a gap of 1."""
    best = {segment: _least(own.values()) for segment, own in groups.items()}
    lines = []
    for size in SIZES:
        of_size = _of_size(groups, size)
        for pair in of_size[0] if of_size else ():
            all_of = [own[pair] for own in of_size]
            own = [row for row in all_of if "missing" not in row]
            roots = [
                1 - row["root_bound"] / least
                for row in own
                if (least := best[row["segment"]]) and row["root_bound"] is not None
            ]
            line = {
                "size": size,
                "form": all_of[0]["form"],
                "solver": all_of[0]["solver"],
                "segments": len(all_of),
                "solved": sum(row["solved"] for row in own),
                "build": _median(row["build_seconds"] for row in own),
                "solve": _median(row["solve_seconds"] for row in own),
                "median": _median(row["cpu_seconds"] for row in own),
                "total": sum(row["cpu_seconds"] for row in own),
                "nodes": _median(row["nodes"] for row in own),
                "root_gap": average(roots),
            }
            gaps = {f"gap_{limit}": average(_gap(row, limit) for row in all_of) for limit in limits}
            lines.append({**line, **gaps})
    return lines


def _gap(row: Row, limit: str) -> float:
    gap = row.get("gaps", {}).get(limit)
    return 1.0 if gap is None else gap


def _least(rows: Iterable[Row]) -> float | None:
    return min((row["objective"] for row in rows if row.get("objective") is not None), default=None)


def _median(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return median(found) if found else None


def _beside(rows: Rows) -> list[dict[str, Any]]:
    """The fastest pair of some forms by chip and size, on the segments that all pairs of both cost models were given."""
    given_to_all = [compared(rows, model).keys() for model in _models(rows)]
    rows = [row for row in rows if all(row["segment"] in segments for segments in given_to_all)]
    lines = []
    for chip in dict.fromkeys(row["chip"] for row in rows if "chip" in row):
        for size in SIZES:
            line: dict[str, Any] = {"chip": chip, "size": size}
            for form in BESIDE:
                own = [r for r in rows if r["form"] == form and r.get("chip") == chip and r.get("size") == size]
                pairs = {pair: [row for row in own if pair_of(row) == pair] for pair in map(pair_of, own)}
                if not pairs:
                    continue
                pair = min(pairs, key=lambda name: _rank(pairs[name]))
                solved = sum(bool(row.get("solved")) for row in pairs[pair])
                middle = _median(row.get("cpu_seconds") for row in pairs[pair])
                shown = "none" if middle is None else f"{middle:.3f}"
                line[form] = f"{shown} ({solved} of {len(pairs[pair])}, {pair.split(':')[1]})"
                if form == PAPER:
                    line["build"] = _median(row.get("build_seconds") for row in pairs[pair])
            lines.append(line)
    return lines


# -- plot ------------------------------------------------------------------------------------------------------------------

STYLES = {"highs": "-", "highs-pyomo": "--", "cp-sat": ":", "scip": "-.", "combinatorial": "-", "auto": "-"}


def draw(figure: Any, rows: Rows, summary: dict[str, Any]) -> None:
    """Performance profiles of both cost models, on the sample and of the finalists; CPU seconds by the number of operators."""
    axes = figure.subplot_mosaic([["machine", "published", "time"], ["final machine", "final published", "time"]])
    for prefix, key, which in (
        ("", "profiles", "all pairs, the sample"),
        ("final ", "final_profiles", "the finalists"),
    ):
        for model, found in summary[key].items():
            _draw_profiles(axes[prefix + model], found)
            axes[prefix + model].set_title(f"cost model {model}, {which}")
    times = axes["time"]
    for form, mark in (("default", "o"), (PAPER, "x")):
        solved = [row for row in rows if row["form"] == form and row.get("solved")]
        fastest = {row["segment"]: row for row in sorted(solved, key=lambda row: -row["cpu_seconds"])}
        points = [(row["operators"], row["cpu_seconds"]) for row in fastest.values()]
        times.plot([x for x, _ in points], [y for _, y in points], mark, markersize=4, label=form)
    for size, counts in SIZES.items():
        times.hlines(TARGETS[size], min(counts) - 0.4, max(counts) + 0.4, color="grey", linestyle="--")
    times.set_yscale("log")
    times.set_xlabel("operators")
    times.set_ylabel("CPU seconds to the optimum (dashed: target for the median)")
    if times.get_lines():
        times.legend()


def _draw_profiles(axes: Any, found: dict[str, list[float]]) -> None:
    forms = list(dict.fromkeys(pair.split(":")[0] for pair in found))
    for pair, fractions in found.items():
        form, solver = pair.split(":")
        width = 1.3 if form in FORMS else 2.5
        axes.plot(FACTORS, fractions, STYLES[solver], color=f"C{forms.index(form)}", linewidth=width, label=pair)
    axes.set_xscale("log", base=2)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("CPU seconds, times those of the fastest")
    axes.set_ylabel("fraction of segments solved")
    if found:
        axes.legend(fontsize=7)
