"""The process that verifies one network on numbers: reads a job as JSON from stdin, writes figures as JSON to stdout."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterable, Mapping

import hw
from benchmarks.verification import VerificationJob
from cmswitch import CmswitchError, Options, compile_network
from cmswitch.options import ModelOptions
from cmswitch.program.program import Buffer, Program
from cmswitch.program.text import format_program
from cmswitch.verification.numeric import Numeric
from cmswitch.verification.results import Verification
from cmswitch.verification.verify import Settings, verify


def rows_of(job: VerificationJob) -> list[dict[str, object]]:
    """A row for each run. A program that an earlier run has verified on the same chip is not executed again.

    Raises:
        CmswitchError, hw.ChipError: for a network or a chip that cannot be read.
    """
    numeric = Numeric(ModelOptions(job.model, job.dims, values=job.values), job.seed)
    verified: dict[tuple[str, str], dict[str, object]] = {}
    rows: list[dict[str, object]] = []
    for schedule, changes in job.runs:
        chip = hw.load_chip(job.chip).with_changes(**changes)
        row: dict[str, object] = {"schedule": schedule, "changes": _text(changes)}
        options = Options(schedule=schedule, gap=job.gap, time_limit=job.time_limit, seed=job.seed)
        started = _cpu_seconds()
        try:
            result = compile_network(numeric.network, chip, options)
        except CmswitchError as error:
            rows.append({**row, "missing": f"{type(error).__name__}: {error}", "failed": True})
            continue
        compiled = _cpu_seconds()
        row = {**row, "schedule_used": result.schedule_used, "compile_cpu_seconds": round(compiled - started, 3)}
        key = (chip.sha256, format_program(result.program))
        if key in verified:
            rows.append({**row, **verified[key], "cpu_seconds": None})
            continue
        settings = Settings(seed=job.seed)
        found = verify(numeric, result.program, result.workload.network, chip, settings)
        figures = {**_places(result.program), **_verdict(found)}
        verified[key] = {**figures, "program_as": schedule}
        rows.append({**row, **figures, "program_as": None, "cpu_seconds": round(_cpu_seconds() - compiled, 3)})
    return rows


def _text(changes: Mapping[str, int | str]) -> str | None:
    return ", ".join(f"{key} {value}" for key, value in changes.items()) or None


def _cpu_seconds() -> float:
    """User and system seconds so far, of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _places(program: Program) -> dict[str, object]:
    """How many segments there are, and how many tensors have a place on chip: in the buffer, in memory-mode arrays."""
    places = [allocation.location for segment in program.segments for allocation in segment.allocations]
    in_buffer = sum(isinstance(place, Buffer) for place in places)
    return {"segments": len(program.segments), "in_buffer": in_buffer, "in_arrays": len(places) - in_buffer}


def _verdict(found: Verification) -> dict[str, object]:
    executed = [o for o in found.operators if o.status != "not executed"]
    ratios = [o.floats.sqnr_db for o in executed if o.product and o.floats is not None and o.floats.sqnr_db is not None]
    return {
        "operators": len(executed),
        "exact_operators": sum(o.status == "exact" for o in executed),
        "products": sum(o.product for o in executed),
        "exact_products": sum(o.product and o.status == "exact" for o in executed),
        "not_executed": [o.name for o in found.operators if o.status == "not executed"],
        "first_deviation": found.first_deviation,
        "error": found.error,
        "cosine": _least(o.cosine for o in found.outputs),
        "top1": _least(o.top1 for o in found.outputs if o.top1 is not None),
        "median_sqnr_db": round(statistics.median(ratios), 2) if ratios else None,
        "least_sqnr_db": round(min(ratios), 2) if ratios else None,
        "importer_error": found.float_error,
    }


def _least(values: Iterable[float]) -> float | None:
    return min(values, default=None)


def main() -> None:
    """Answer the job on stdin; a failure that a user can act on is an answer too."""
    try:
        rows = rows_of(VerificationJob(**json.load(sys.stdin)))
    except (CmswitchError, hw.ChipError) as error:
        rows = [{"missing": f"{type(error).__name__}: {error}", "failed": True}]
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
