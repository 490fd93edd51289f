"""The compiler in one reading: network and chip -> workload -> plan -> program -> simulated timing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import hw
from cmswitch.allocation.cost_models import COST_MODELS
from cmswitch.allocation.segment import Limits, SegmentBuilder
from cmswitch.allocation.solving import Allocator, Fallback
from cmswitch.costs.roofline import roofline
from cmswitch.costs.workload import Workload, build_workload
from cmswitch.errors import InfeasibleError, InputError
from cmswitch.graph.network import Network
from cmswitch.lowering import lower
from cmswitch.naming import nearest
from cmswitch.options import SCHEDULES, WEIGHTS, Weights
from cmswitch.program.program import Program
from cmswitch.segmentation.plan import Plan
from cmswitch.segmentation.schedule import Found, Space, find_plan
from cmswitch.simulator import Timing, simulate

SEARCH_SHARE = 0.999
"""Share of the gap at which the search stops, so that rounding does not carry the result over it."""

STATIC_SPLITS = 8
"""``static`` tries every split of the arrays into this many equal parts and keeps the fastest."""

Progress = Callable[[str, float, float], None]
Stop = Literal["time_limit", "interrupted"]


@dataclass(frozen=True)
class Options:
    """Everything that decides a result besides the network and the chip.

    ``gap`` is relative; ``time_limit`` in seconds covers the search; ``weights`` None: ``cold`` on chips whose arrays can switch,
    else ``resident``. See ``cmswitch solve --help`` for the values.

    Raises:
        InputError: a cost model, schedule or kind of weights does not exist.
    """

    cost_model: str = "machine"
    schedule: str = "dual-mode"
    solver: str = "auto"
    weights: Weights | None = None
    gap: float = 1e-3
    time_limit: float | None = None
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        for what, value, known in (
            ("cost model", self.cost_model, tuple(COST_MODELS)),
            ("schedule", self.schedule, SCHEDULES),
            ("weights", self.weights, WEIGHTS),
        ):
            if value is not None and value not in known:
                raise InputError(f"unknown {what} '{value}'{nearest(value, known)}")


@dataclass(frozen=True)
class Certificate:
    """Why the search stopped, what it holds, and how good that is (cycles); on how many programs a solver was replaced."""

    termination: Literal["optimal", "gap"] | Stop
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
    """A compiled network. ``schedule_used`` differs from the one asked for if its fallback was faster in simulation, and where
    arrays cannot switch: there every schedule is ``all-compute``. ``weights``: the ones asked for, or what suits the chip.

    ``seconds`` is CPU time by activity; ``seconds_elsewhere`` is what solvers in other processes took of it.
    """

    workload: Workload
    plan: Plan
    program: Program
    timing: Timing
    certificate: Certificate
    roofline_cycles: int
    schedule_used: str
    weights: Weights
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seconds_elsewhere: float = 0.0


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
    if progress:
        progress(options.schedule, math.inf, 0.0)
    return _Compilation(network, chip, options, progress, should_stop).result()


@dataclass(frozen=True)
class _Executed:
    """A plan, the program that carries it out, and what the simulator measured."""

    found: Found
    program: Program
    timing: Timing


class _Compilation:
    """One call of :func:`compile_network`."""

    def __init__(
        self,
        network: Network,
        chip: hw.Chip,
        options: Options,
        progress: Progress | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self.network, self.chip, self.options = network, chip, options
        self.cost_model = COST_MODELS[options.cost_model]
        self.weights: Weights = options.weights or ("cold" if chip.modes.switchable else "resident")
        self.allocator = Allocator(options.solver, options.gap / 2, options.threads, options.seed)
        self.seconds = {"build": 0.0, "solve": 0.0, "search": 0.0}
        self.warnings: list[str] = []
        self._progress, self._should_stop = progress, should_stop
        self._stopped_by: Stop | None = None
        self._deadline = math.inf if options.time_limit is None else time.monotonic() + options.time_limit
        self._builders: dict[int, SegmentBuilder] = {}

    def result(self) -> Result:
        """Search, execute, certify."""
        used = self.options.schedule
        if not self.chip.modes.switchable:
            done, used = self._execute(self._search(used)), "all-compute"
        elif used == "static":
            done = self._execute(self._search(used))
        else:
            done, used = self._switching(used)
        workload, journal = done.found.workload, self.allocator.journal
        self.warnings += self.cost_model.warnings(workload)
        resident = done.found.plan.resident_weights
        if self.weights == "resident" and not resident:
            self.warnings.append(
                "the weights do not stay: the plan has several segments, each of which writes its own for every inference"
            )
        self.warnings += [
            f"solver '{fallback.solver}' failed and {fallback.used} took over (programs: {count}): {fallback.reason}"
            for fallback, count in journal.fallbacks.items()
        ]
        self._spend("build", journal.build)
        self._spend("solve", journal.solve)
        self._spend("search", -journal.build - journal.solve)  # what they took of it
        return Result(
            workload,
            done.found.plan,
            done.program,
            done.timing,
            self._certificate(done.found),
            roofline(workload, resident),
            used,
            self.weights,
            self.seconds,
            tuple(self.warnings),
            journal.seconds_elsewhere,
        )

    def _switching(self, schedule: str) -> tuple[_Executed, str]:
        """The all-compute plan, or the best that starts from it and the schedule that simulation lets stand."""
        (dual,) = self._spaces("dual-mode")
        (compute,) = self._spaces("all-compute")
        compute_only = self._find(compute, "all-compute", wider=dual)
        if schedule == "all-compute":
            return self._execute(compute_only), schedule
        found = self._find(dual, "dual-mode", known=compute_only)
        done = self._execute(found)
        if found.path is compute_only.path:
            return done, "dual-mode"
        other = self._execute(compute_only)
        if other.timing.total_cycles >= done.timing.total_cycles:
            return done, "dual-mode"
        faster = (
            f"the all-compute plan is faster in simulation ({other.timing.total_cycles:,} against "
            f"{done.timing.total_cycles:,} cycles)"
        )
        if not self.cost_model.simulation_decides:
            self.warnings.append(f"{faster}; --schedule all-compute returns it")
            return done, "dual-mode"
        self.warnings.append(f"{faster} and is returned instead")
        return replace(other, found=compute_only.with_bound(found.bound)), "all-compute"

    def _search(self, schedule: str) -> Found:
        """The best plan under any of the schedule's limits. Limits that time leaves out count in the bound."""
        best: Found | None = None
        bounds: list[float] = []
        for space in self._spaces(schedule):
            if best is not None and self._stopped():
                resident = self.weights == "resident"
                bounds.append(roofline(best.workload, resident) if self.cost_model.bounded_by_roofline else 0.0)
                break
            found = self._find(space, schedule)
            bounds.append(found.bound)
            if best is None or found.cost < best.cost:
                best = found
        assert best is not None
        return best.with_bound(min(bounds))

    def _find(self, space: Space, schedule: str, known: Found | None = None, wider: Space | None = None) -> Found:
        """See :func:`find_plan`."""
        start = self.allocator.cpu_seconds()
        progress = partial(self._progress, schedule) if self._progress else None
        gap = self.options.gap * SEARCH_SHARE
        found = find_plan(space, schedule, gap, self._stopped, progress, known, wider)
        self._spend("search", self.allocator.cpu_seconds() - start)
        return found

    def _spaces(self, schedule: str) -> list[Space]:
        """The plan spaces of the schedule's limits that hold the largest cell, each of the workload as it is cut for them."""
        spaces: list[Space] = []
        failure: InfeasibleError | None = None
        for limits in schedule_limits(schedule, self.chip):
            try:
                builder = self._builder(self.cost_model.cutting_limit(limits, self.chip))
            except InfeasibleError as error:  # an operator that cannot be cut so far; other limits are wider
                failure = failure or error
                continue
            if builder.workload.largest_cell <= limits.compute:
                pricer = self.cost_model(builder, limits, self.allocator, self.weights == "resident")
                spaces.append(Space(pricer))
        if failure is not None and not spaces:
            raise failure
        return spaces

    def _builder(self, compute_arrays: int) -> SegmentBuilder:
        """Describes segments of the network as it is cut for so many arrays."""
        if compute_arrays not in self._builders:
            start = time.process_time()
            self._builders[compute_arrays] = SegmentBuilder(build_workload(self.network, self.chip, compute_arrays))
            self._spend("build", time.process_time() - start)
        return self._builders[compute_arrays]

    def _execute(self, found: Found) -> _Executed:
        start = time.process_time()
        program = lower(found.plan, found.workload)
        lowered = time.process_time()
        timing = simulate(program, self.chip)
        self._spend("lower", lowered - start)
        self._spend("simulate", time.process_time() - lowered)
        return _Executed(found, program, timing)

    def _certificate(self, found: Found) -> Certificate:
        optimal, journal = found.gap <= self.options.gap, self.allocator.journal
        return Certificate(
            termination="optimal" if optimal else self._stopped_by or "gap",
            status="optimal" if optimal else "feasible",
            objective_cycles=found.plan.predicted_cycles,
            bound_cycles=found.plan.bound_cycles,
            gap=found.gap,
            segments_considered=journal.segments_considered,
            programs_solved=journal.programs_solved,
            cache_hits=journal.cache_hits,
            fallbacks=dict(journal.fallbacks),
        )

    def _stopped(self) -> bool:
        """Whether the search has to end. Only the search asks, so that what happens after it is no reason why it ended."""
        if self._stopped_by is None:
            if time.monotonic() >= self._deadline:
                self._stopped_by = "time_limit"
            elif self._should_stop is not None and self._should_stop():
                self._stopped_by = "interrupted"
        return self._stopped_by is not None

    def _spend(self, activity: str, seconds: float) -> None:
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds


def schedule_limits(schedule: str, chip: hw.Chip) -> list[Limits]:
    """The arrays that a schedule may use in each mode; several for ``static``, which keeps the best."""
    arrays = chip.arrays
    if schedule == "all-compute" or not chip.modes.switchable:
        return [Limits(arrays, 0)]
    if schedule == "dual-mode":
        return [Limits(arrays, arrays)]
    splits = sorted({arrays * part // STATIC_SPLITS for part in range(1, STATIC_SPLITS + 1)} - {0})
    return [Limits(compute, arrays - compute) for compute in reversed(splits)]
