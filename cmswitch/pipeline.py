"""The compiler in one reading: network and chip -> workload -> plan -> program -> simulated timing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import hw
from cmswitch.allocation.cost_models import COST_MODELS
from cmswitch.allocation.pricing import Pricer
from cmswitch.allocation.segment import Limits, SegmentBuilder
from cmswitch.allocation.solving import Allocator, Fallback
from cmswitch.costs.roofline import roofline
from cmswitch.costs.workload import Workload, build_workload
from cmswitch.errors import InputError
from cmswitch.graph.network import Network
from cmswitch.lowering import lower
from cmswitch.naming import nearest
from cmswitch.program.program import Program
from cmswitch.segmentation.plan import Plan
from cmswitch.segmentation.schedule import Found, find_plan
from cmswitch.simulator import Timing, simulate

Schedule = Literal["dual-mode", "all-compute", "static"]
SCHEDULES: tuple[Schedule, ...] = ("dual-mode", "all-compute", "static")
WEIGHTS = ("cold", "resident")
SEARCH_SHARE = 0.999
"""Share of the gap at which the search stops, so that rounding does not carry the result over it."""

STATIC_SPLITS = 8
"""``static`` tries every split of the arrays into this many equal parts and keeps the fastest."""

Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Options:
    """Everything that decides a result besides the network and the chip.

    ``gap`` is relative; ``time_limit`` in seconds covers the search. See ``cmswitch solve --help`` for the values.
    """

    cost_model: str = "machine"
    schedule: str = "dual-mode"
    solver: str = "auto"
    weights: Literal["cold", "resident"] = "cold"
    gap: float = 1e-3
    time_limit: float | None = None
    threads: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Certificate:
    """Why the search stopped, what it holds, and how good that is (cycles); on how many programs a solver was replaced."""

    termination: str
    status: Literal["optimal", "feasible"]
    objective_cycles: int
    bound_cycles: int
    gap: float
    segments_considered: int
    programs_solved: int
    cache_hits: int
    fallbacks: dict[Fallback, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """A compiled network. ``schedule_used`` differs from the one asked for if its fallback was faster in simulation.

    ``seconds`` is CPU time by activity; ``seconds_elsewhere`` is what solvers in other processes took of it.
    """

    workload: Workload
    plan: Plan
    program: Program
    timing: Timing
    certificate: Certificate
    roofline_cycles: int
    schedule_used: str
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seconds_elsewhere: float = 0.0


class _Clock:
    """CPU seconds by activity."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def measure(self, name: str, start: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - start


def compile_network(
    network: Network,
    chip: hw.Chip,
    options: Options | None = None,
    progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Result:
    """Compile ``network`` for ``chip``: the best plan of the schedule's plan space, its program, and its simulated timing.

    ``progress`` is called with (activity, best cycles, proven bound); ``should_stop`` ends the search early.

    Raises:
        InfeasibleError: the chip cannot hold some operator.
        SolverError: a solver is missing or failed.
    """
    options = options or Options()
    clock = _Clock()
    deadline = math.inf if options.time_limit is None else time.monotonic() + options.time_limit

    def stop() -> bool:
        return time.monotonic() >= deadline or (should_stop is not None and should_stop())

    if options.cost_model not in COST_MODELS:
        raise InputError(f"unknown cost model '{options.cost_model}'{nearest(options.cost_model, tuple(COST_MODELS))}")
    if options.schedule not in SCHEDULES:
        raise InputError(f"unknown schedule '{options.schedule}'{nearest(options.schedule, SCHEDULES)}")
    if options.weights not in WEIGHTS:
        raise InputError(f"unknown weights '{options.weights}'{nearest(options.weights, WEIGHTS)}")
    allocator = Allocator(options.solver, options.gap / 2, options.threads, options.seed)

    cost_model = COST_MODELS[options.cost_model]
    builders: dict[int, SegmentBuilder] = {}

    def search(schedule: str, known: Found | None = None) -> tuple[Found, Workload]:
        spaces = []
        for limits in schedule_limits(schedule, chip):
            cut = cost_model.cutting_limit(limits, chip)
            if cut not in builders:
                builders[cut] = SegmentBuilder(build_workload(network, chip, cut))
            if builders[cut].workload.largest_cell <= limits.compute:
                spaces.append((limits, builders[cut]))
        return _search(spaces, cost_model, options, schedule, allocator, stop, progress, clock, known)

    used, warnings = options.schedule, []
    if options.schedule == "dual-mode" and chip.modes.switchable:
        compute_only, workload = search("all-compute")
        found, workload = search("dual-mode", compute_only)
        program, timing = _execute(found, workload, clock)
        found = replace(found, effort=found.effort + compute_only.effort)
        if found.path is not compute_only.path:
            other_program, other_timing = _execute(compute_only, workload, clock)
            if other_timing.total_cycles < timing.total_cycles:
                faster = (
                    f"the all-compute plan is faster in simulation ({other_timing.total_cycles} against "
                    f"{timing.total_cycles} cycles)"
                )
                if cost_model.simulation_decides:
                    warnings.append(f"{faster} and is returned instead")
                    found = replace(compute_only, bound=found.bound)
                    program, timing, used = other_program, other_timing, "all-compute"
                else:
                    warnings.append(f"{faster}; --schedule all-compute returns it")
    else:
        found, workload = search(options.schedule)
        program, timing = _execute(found, workload, clock)
    warnings += cost_model.warnings(workload)
    if options.weights == "resident" and not found.plan.resident_weights:
        warnings.append(
            "the weights do not stay: the plan has several segments, each of which writes its own for every inference"
        )
    warnings += [
        f"solver '{fallback.solver}' failed and {fallback.used} took over (programs: {count}): {fallback.reason}"
        for fallback, count in allocator.journal.fallbacks.items()
    ]
    optimal = found.gap <= options.gap
    certificate = Certificate(
        termination="optimal" if optimal else _stopped_by(stop, deadline),
        status="optimal" if optimal else "feasible",
        objective_cycles=found.plan.predicted_cycles,
        bound_cycles=found.plan.bound_cycles,
        gap=found.gap,
        segments_considered=found.edges_considered,
        programs_solved=found.effort.programs_solved,
        cache_hits=found.effort.cache_hits,
        fallbacks=dict(allocator.journal.fallbacks),
    )
    return Result(
        workload,
        found.plan,
        program,
        timing,
        certificate,
        roofline(workload, found.plan.resident_weights),
        used,
        clock.seconds,
        tuple(warnings),
        allocator.journal.seconds_elsewhere,
    )


def _stopped_by(stop: Callable[[], bool], deadline: float) -> str:
    """Why a search ended without reaching the gap."""
    if time.monotonic() >= deadline:
        return "time_limit"
    return "interrupted" if stop() else "gap"


def _execute(found: Found, workload: Workload, clock: _Clock) -> tuple[Program, Timing]:
    start = time.process_time()
    program = lower(found.plan, workload)
    clock.measure("lower", start)
    start = time.process_time()
    timing = simulate(program, workload.chip)
    clock.measure("simulate", start)
    return program, timing


def _search(
    spaces: list[tuple[Limits, SegmentBuilder]],
    cost_model: type[Pricer],
    options: Options,
    schedule: str,
    allocator: Allocator,
    stop: Callable[[], bool],
    progress: Progress | None,
    clock: _Clock,
    known: Found | None,
) -> tuple[Found, Workload]:
    """The best plan under any of the schedule's limits. Those that time leaves out count in the bound."""
    best: tuple[Found, Workload] | None = None
    bounds: list[float] = []
    for limits, builder in spaces:
        if best is not None and stop():
            machine = cost_model.cost_model == "machine"  # the roofline bounds what this model predicts
            bounds.append(roofline(best[1], options.weights == "resident") if machine else 0.0)
            break
        start = allocator.cpu_seconds()
        found = find_plan(
            builder,
            schedule,
            limits,
            allocator,
            options.gap * SEARCH_SHARE,
            stop,
            options.weights == "resident",
            None if progress is None else lambda cost, bound: progress(schedule, cost, bound),
            known,
            cost_model,
        )
        total = allocator.cpu_seconds() - start
        clock.seconds["build"] = clock.seconds.get("build", 0.0) + found.effort.build
        clock.seconds["solve"] = clock.seconds.get("solve", 0.0) + found.effort.solve
        clock.seconds["search"] = clock.seconds.get("search", 0.0) + total - found.effort.build - found.effort.solve
        bounds.append(found.bound)
        if best is None or found.cost < best[0].cost:
            best = found, builder.workload
    assert best is not None
    return best[0].with_bound(min(bounds)), best[1]


def schedule_limits(schedule: str, chip: hw.Chip) -> list[Limits]:
    """The arrays that a schedule may use in each mode; several for ``static``, which keeps the best."""
    arrays = chip.arrays
    if schedule == "dual-mode":
        return [Limits(arrays, arrays if chip.modes.switchable else 0)]
    if schedule == "all-compute":
        return [Limits(arrays, 0)]
    if not chip.modes.switchable:
        return [Limits(arrays, 0)]
    splits = sorted({arrays * part // STATIC_SPLITS for part in range(1, STATIC_SPLITS + 1)} - {0})
    return [Limits(compute, arrays - compute) for compute in reversed(splits)]
