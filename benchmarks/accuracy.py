"""``accuracy``: what the plans promise against what the simulator measures, and everything else a plan has to hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import hw
from benchmarks.networks import Case
from benchmarks.record import Column, Row, cycles, decimals, percent, signed_percent, table
from benchmarks.runner import Answer, Compiled, Job, SegmentCycles, compile_job
from benchmarks.settings import Outcome, Settings, average, measure_each
from cmswitch.report import LARGEST_ERROR

MEAN_BAR = 0.03
"""The errors of all networks may be this large on average (relative)."""
WORST_BAR = LARGEST_ERROR
"""No error may be larger (relative)."""
ERRORS = {"total_error": "total", "execute_error": "execute phases"}
SCHEDULES = ("dual-mode", "all-compute")

COLUMNS = (
    Column("network", "network"),
    Column("chip", "chip"),
    Column("input reuse", "input_reuse"),
    Column("termination", "termination"),
    Column("gap", "gap", percent),
    Column("predicted", "predicted_cycles", cycles),
    Column("simulated", "simulated_cycles", cycles),
    Column("error", "total_error", signed_percent),
    Column("execute", "execute_error", signed_percent),
    Column("worst segment", "worst_segment_error", signed_percent),
    Column("all-compute / dual", "speedup", decimals(3)),
    Column("fallback", "fallback"),
    Column("same bytes", "identical"),
    Column("fails", "fails", lambda names: ", ".join(names) or "none"),
)


@dataclass(frozen=True)
class Line:
    """One row to be: a network on a chip with a way to reuse the inputs of convolutions."""

    case: Case
    chip: str
    input_reuse: str

    @property
    def identity(self) -> Row:
        """What identifies the row."""
        return {"network": self.case.name, "chip": self.chip, "input_reuse": self.input_reuse}


def run(settings: Settings) -> Outcome:
    """Measure every line of ``settings``; fails if a line breaks a rule, has no result, or the errors exceed the bars."""
    found = measure_each("accuracy", lines(settings), lambda line: _measure(line, settings))
    summary = summarize(found)
    return Outcome(
        rows=found,
        summary=summary,
        text=table(COLUMNS, found) + "\n" + _summary_text(summary),
        plot_size=(9, 2 + 0.3 * len(found)),
        draw=lambda figure: _draw(figure, found),
        failed=bool(summary["failures"]),
        parameters={"mean_bar": MEAN_BAR, "worst_bar": WORST_BAR, "input_reuse": ["line_buffer", "expanded"]},
    )


def lines(settings: Settings) -> list[Line]:
    """Networks with convolutions run with both ways to reuse inputs, the others with their chip's."""
    both = ("line_buffer", "expanded")
    return [
        Line(case, chip, reuse)
        for chip in settings.chips
        for case in settings.cases
        for reuse in (both if case.convolutional else (hw.load_chip(chip).input_reuse,))
    ]


def _measure(line: Line, settings: Settings) -> dict[str, object]:
    """The line's row: both schedules in one process, then dual-mode again in another, which has to give the same bytes.

    What a run that the time limit ends has found by then depends on the machine, so such a run is not repeated.
    """
    if line.case.model is None:
        return {**line.identity, "missing": line.case.missing}
    job = Job(
        model=line.case.model,
        dims=line.case.dims,
        chip=line.chip,
        changes={"input_reuse": line.input_reuse},
        schedules=SCHEDULES,
        time_limit=settings.time_limit,
        seed=settings.seed,
        check=True,
    )
    first = compile_job(job)
    if first.failure is not None:
        return {**line.identity, "missing": first.failure, "fails": ["no result"]}
    ended = first.compiled["dual-mode"].termination == "time_limit"
    again = None if ended else compile_job(replace(job, schedules=SCHEDULES[:1], check=False))
    return {**line.identity, **judge(first.compiled, again)}


def judge(compiled: Mapping[str, Compiled], again: Answer | None) -> dict[str, object]:
    """Figures and broken rules of one line; ``again`` is the second run of dual-mode, if there was one.

    Where the time limit ended a search, the two schedules have had different times for the same plans, so that dual-mode may
    be slower: the line shows it, but breaks no rule.
    """
    ended = any(each.termination == "time_limit" for each in compiled.values())
    dual, compute = (compiled[schedule] for schedule in SCHEDULES)
    identical = None if again is None else _same(dual, again)
    total = relative(dual.predicted_cycles, dual.simulated_cycles)
    execute = relative(dual.predicted_execute, dual.simulated_execute)
    by_segment = [relative(s.predicted_execute, s.simulated_execute) for s in dual.segments]
    rules = {
        f"total error above {100 * WORST_BAR:g} %": abs(total) > WORST_BAR,
        f"execute error above {100 * WORST_BAR:g} %": abs(execute) > WORST_BAR,
        "faster than the roofline": dual.simulated_cycles < dual.roofline_cycles,
        "bound above the plan": dual.bound_cycles > dual.predicted_cycles,
        "slower than all-compute": not ended and dual.simulated_cycles > compute.simulated_cycles,
        "plan checker": bool(dual.violations or compute.violations),
        "two runs differ": identical == "no",
    }
    return {
        "termination": dual.termination,
        "gap": dual.gap,
        "predicted_cycles": dual.predicted_cycles,
        "simulated_cycles": dual.simulated_cycles,
        "roofline_cycles": dual.roofline_cycles,
        "bound_cycles": dual.bound_cycles,
        "total_error": total,
        "predicted_execute_cycles": dual.predicted_execute,
        "simulated_execute_cycles": dual.simulated_execute,
        "execute_error": execute,
        "worst_segment_error": max(by_segment, key=abs, default=0.0),
        "all_compute_simulated_cycles": compute.simulated_cycles,
        "speedup": compute.simulated_cycles / dual.simulated_cycles,
        "fallback": "yes" if dual.fallback else "no",
        "violations": [*(dual.violations or ()), *(compute.violations or ())],
        "identical": identical,
        "plan_sha256": dual.plan_sha256,
        "program_sha256": dual.program_sha256,
        "fails": [name for name, broken in rules.items() if broken],
        "segments": [_segment(s, e) for s, e in zip(dual.segments, by_segment, strict=True)],
    }


def relative(predicted: int, simulated: int) -> float:
    """The prediction's error relative to the simulation (of a phase that takes no time: to one cycle)."""
    return (predicted - simulated) / max(1, simulated)


def _same(first: Compiled, again: Answer) -> str | None:
    """Whether plan and program are the same bytes; None if the second run was ended by the time limit."""
    if again.failure is not None:
        return "no"
    second = again.compiled[first.schedule]
    if second.termination == "time_limit":
        return None
    same = (first.plan_sha256, first.program_sha256) == (second.plan_sha256, second.program_sha256)
    return "yes" if same else "no"


def _segment(segment: SegmentCycles, error: float) -> list[float]:
    """Execute cycles as predicted and simulated, and the relative error."""
    return [segment.predicted_execute, segment.simulated_execute, round(error, 6)]


def summarize(rows: Sequence[Row]) -> dict[str, object]:
    """Mean and worst size of the errors, and everything that fails, line by line."""
    summary: dict[str, object] = {"lines": len(rows), "missing": sum("missing" in row for row in rows)}
    failures = [f"{_name(row)}: {name}" for row in rows for name in row.get("fails", ())]
    for key, what in ERRORS.items():
        sizes = [abs(value) for row in rows if isinstance(value := row.get(key), float)]
        mean = average(sizes)
        summary[f"mean_{key}"], summary[f"worst_{key}"] = mean, max(sizes, default=None)
        if mean is not None and mean > MEAN_BAR:
            failures.append(f"all lines: mean error on {what} above {100 * MEAN_BAR:g} %")
    return {**summary, "failures": failures}


def _name(row: Row) -> str:
    return f"{row['network']} on {row['chip']} ({row['input_reuse']})"


def _summary_text(summary: Mapping[str, Any]) -> str:
    out = [f"{summary['lines']} lines, {summary['missing']} of them missing"]
    for key, what in ERRORS.items():
        mean, worst = summary[f"mean_{key}"], summary[f"worst_{key}"]
        if mean is not None:
            out.append(
                f"error on {what}: mean {percent(mean)} (bar {100 * MEAN_BAR:g} %), "
                f"worst {percent(worst)} (bar {100 * WORST_BAR:g} %)"
            )
    return "\n".join([*out, *(f"FAIL {failure}" for failure in summary["failures"])]) + "\n"


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    shown = [row for row in rows if "missing" not in row][::-1]
    axes = figure.subplots()
    for shift, (key, what) in zip((0.2, -0.2), ERRORS.items(), strict=True):
        places = [place + shift for place in range(len(shown))]
        axes.barh(places, [100 * row[key] for row in shown], height=0.38, label=f"error on {what}")
    for bar in (-WORST_BAR, WORST_BAR):
        axes.axvline(100 * bar, color="grey", linestyle="--", linewidth=1)
    axes.set_yticks(range(len(shown)), [_name(row) for row in shown])
    axes.set_xlabel("predicted against simulated cycles, % (dashed: the bar for the worst)")
    axes.legend()
