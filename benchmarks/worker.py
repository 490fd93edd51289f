"""The process that compiles one job: reads it as JSON from stdin, writes the result as JSON to stdout."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from fractions import Fraction
from math import ceil

import hw
from benchmarks.runner import Compiled, Job, SegmentCycles
from cmswitch import CmswitchError, Options, compile_network, load_network
from cmswitch.checker import check_plan
from cmswitch.graph.network import Network
from cmswitch.pipeline import Result
from cmswitch.program.text import format_program
from cmswitch.report import build_report


def compile_schedules(job: Job) -> list[Compiled]:
    """Compile the job's network under each of its schedules.

    Raises:
        CmswitchError, hw.ChipError: as the compiler does.
    """
    chip = hw.load_chip(job.chip).with_changes(**job.changes)
    network = load_network(job.model, dims=job.dims, values=job.values)
    return [_compile(job, network, chip, schedule) for schedule in job.schedules]


def _compile(job: Job, network: Network, chip: hw.Chip, schedule: str) -> Compiled:
    options = Options(schedule=schedule, time_limit=job.time_limit, seed=job.seed)
    result = compile_network(network, chip, options)
    report = build_report(network, chip, {}, result, 0.0, 0.0)
    return Compiled(
        schedule=schedule,
        schedule_used=result.schedule_used,
        fallback=chip.modes.switchable and result.schedule_used != schedule,
        termination=report.solve.termination,
        gap=result.certificate.gap,
        predicted_cycles=result.certificate.objective_cycles,
        bound_cycles=result.certificate.bound_cycles,
        simulated_cycles=report.latency.simulated_cycles,
        roofline_cycles=report.latency.roofline_cycles,
        memory_fraction=report.modes.memory_fraction,
        segments=_segments(result),
        plan_sha256=_hash(result.plan.to_json()),
        program_sha256=_hash(format_program(result.program)),
        violations=tuple(map(str, check_plan(result.plan, network, chip).violations)) if job.check else None,
    )


def _segments(result: Result) -> tuple[SegmentCycles, ...]:
    return tuple(
        SegmentCycles(
            predicted_execute=ceil(Fraction(planned.execute)),
            simulated_execute=run.execute_cycles,
            predicted_total=ceil(Fraction(planned.execute) + Fraction(planned.reload) + planned.switch),
            simulated_total=run.total_cycles,
        )
        for planned, run in zip(result.plan.segments, result.timing.segments, strict=True)
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    """Answer the job on stdin; a failure that a user can act on is an answer too."""
    answer: dict[str, object]
    try:
        compiled = compile_schedules(Job(**json.load(sys.stdin)))
        answer = {"compiled": [dataclasses.asdict(each) for each in compiled]}
    except (CmswitchError, hw.ChipError) as error:
        answer = {"failure": f"{type(error).__name__}: {error}"}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
