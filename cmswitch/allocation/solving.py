"""Which solver works on a segment's program, and how its answer is certified."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cmswitch.errors import InputError, SolverError
from cmswitch.naming import nearest
from cmswitch.options import SOLVERS
from formulations import SegmentAllocation, SegmentProblem, evaluate, solve_segment
from formulations.eq10 import Eq10Allocation, Eq10Problem, solve_eq10_combinatorial
from formulations.evaluate import SegmentCost

if TYPE_CHECKING:
    from solvers import SolveResult

COMBINATORIAL_NODES = 600
"""Nodes, divided by the operators of the segment, after which ``auto`` hands it from the combinatorial solver to HiGHS."""

MOST_COMBINATORIAL = 30
"""Operators beyond which ``auto`` goes to HiGHS at once: ``COMBINATORIAL_NODES`` leaves fewer than 20 nodes to the search, whose
root alone takes longer than HiGHS."""

LINEAR_TOLERANCE = 1e-6
"""Relative; HiGHS keeps rows and reduced costs to 1e-7."""

MILP = "highs"
"""The backend of ``auto``, and the one that takes over from any other that fails."""

log = logging.getLogger("cmswitch")


@dataclass(frozen=True)
class Solution:
    """An allocation with its exact cost (None: infeasible) and a proven lower bound in cycles."""

    allocation: SegmentAllocation | None
    exact: SegmentCost | None
    bound: float


@dataclass(frozen=True)
class Started:
    """What the combinatorial solver leaves to another: an allocation, if it has one, and a bound."""

    solution: Solution


@dataclass(frozen=True)
class Fallback:
    """A program that ``solver`` failed on, with the reason, and who took over."""

    solver: str
    used: str
    reason: str


@dataclass
class Journal:
    """What was done: CPU seconds by activity (and ``seconds_elsewhere``: those in other processes), counts, fallbacks and how
    often."""

    build: float = 0.0
    solve: float = 0.0
    seconds_elsewhere: float = 0.0
    segments_considered: int = 0
    programs_solved: int = 0
    cache_hits: int = 0
    fallbacks: Counter[Fallback] = field(default_factory=Counter)


@dataclass(frozen=True)
class Allocator:
    """Solves segment programs to a relative ``gap`` with one backend, or (``auto``) the first that proves it.

    A backend of the package ``solvers`` runs in a process of its own. When it fails, HiGHS takes over, and from HiGHS the
    combinatorial solver, which needs no package; ``journal`` says so. ``solutions`` are those that its user wants to remember.

    Raises:
        InputError: there is no solver of that name.
        SolverError: its package is not installed.
    """

    solver: str = "auto"
    gap: float = 0.0
    threads: int = 1
    seed: int = 0
    journal: Journal = field(default_factory=Journal, compare=False)
    solutions: dict[SegmentProblem, Solution] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Refuse a solver that does not exist or is not installed."""
        import solvers

        if self.solver not in SOLVERS:
            raise InputError(f"unknown solver '{self.solver}'{nearest(self.solver, SOLVERS)}")
        if self.solver in ("auto", "combinatorial"):
            return
        try:
            solvers.find_installed(self.solver)
        except solvers.SolverUnavailable as error:
            raise SolverError(f"{error}; or choose --solver combinatorial") from error

    def cpu_seconds(self) -> float:
        """CPU seconds of this process and of the backends in others, from an arbitrary start."""
        return time.process_time() + self.journal.seconds_elsewhere

    def linear_bound(self, problem: SegmentProblem, should_stop: Callable[[], bool]) -> float:
        """The optimum of the program without integrality, less a margin for the tolerances of the linear solver."""
        from formulations import relax_segment_allocation
        from solvers import SolverFailure

        try:
            result = self._run(MILP, relax_segment_allocation(problem), should_stop=should_stop)
        except SolverFailure as error:
            self._note(MILP, "the bound without linear programming", str(error))
            return 0.0
        if result.bound is None:
            return 0.0
        return result.bound * (1 - LINEAR_TOLERANCE)

    def _run(self, solver: str, model: Any, **settings: Any) -> SolveResult:
        """Solve with a backend, and with HiGHS if that fails. Raises solvers.SolverFailure if both do."""
        from solvers import SolverFailure, SolverUnavailable, solve

        names = dict.fromkeys((solver, MILP))
        try:
            result = solve(model, tuple(names), threads=self.threads, seed=self.seed, isolated=True, **settings)
        except SolverUnavailable as error:
            raise SolverFailure(str(error)) from error
        self.journal.seconds_elsewhere += result.cpu_seconds
        for attempt in result.attempts:
            self._note(attempt.solver, result.solver, attempt.reason)
        return result

    def _note(self, solver: str, used: str, reason: str) -> None:
        fallback = Fallback(solver, used, reason)
        if fallback not in self.journal.fallbacks:
            log.info("solver '%s' failed (%s); %s takes over", solver, reason, used)
        self.journal.fallbacks[fallback] += 1

    def solve(self, problem: SegmentProblem, should_stop: Callable[[], bool], upper: float = math.inf) -> Solution:
        """Solve one program, or prove that it costs at least ``upper`` cycles (its bound is then ``upper``, its allocation None).

        Once it is to stop, what the combinatorial solver begins with has to do, whichever the solver. A backend is not told of
        ``upper``: proving that nothing is slightly better takes HiGHS longer than solving.

        Raises:
            SolverError: the backend stopped without a reason.
        """
        if self._at_once(problem) and not should_stop():
            return self._hand_over(problem, should_stop, None, upper)
        nodes = {"auto": COMBINATORIAL_NODES // len(problem.stages), "combinatorial": None}.get(self.solver, 0)
        found = self._search(problem, should_stop, upper, nodes)
        return self._hand_over(problem, should_stop, found, upper) if isinstance(found, Started) else found

    def quick(self, problem: SegmentProblem, should_stop: Callable[[], bool]) -> Solution:
        """An allocation that is found quickly, with a bound that may be far from it.

        Of a long segment HiGHS finds one soonest if only the copies are left to it.
        """
        if self._at_once(problem):
            places = _quickest_places(problem)
            settled = tuple((placements[o],) for placements, o in zip(problem.tensors, places, strict=True))
            found = self._hand_over(replace(problem, tensors=settled), should_stop, None, math.inf)
            if found.allocation is None:
                return Solution(None, None, 0.0)
            return Solution(replace(found.allocation, placements=places), found.exact, 0.0)
        limit = COMBINATORIAL_NODES // len(problem.stages)
        found_here = solve_segment(problem, gap=self.gap, node_limit=limit, should_stop=should_stop)
        return Solution(found_here.allocation, found_here.cost, float(found_here.bound))

    def _at_once(self, problem: SegmentProblem) -> bool:
        return self.solver == MILP or (self.solver == "auto" and len(problem.stages) > MOST_COMBINATORIAL)

    def _hand_over(
        self, problem: SegmentProblem, should_stop: Callable[[], bool], started: Started | None, upper: float
    ) -> Solution:
        """Solve with a backend, or with the combinatorial solver if all that could take over fail."""
        from solvers import SolverFailure

        try:
            return self._program(problem, should_stop, started, upper)
        except SolverFailure as error:
            self._note(self._backend, "combinatorial", str(error))
            found = self._search(problem, should_stop, upper, None)
            return found.solution if isinstance(found, Started) else found

    @property
    def _backend(self) -> str:
        return MILP if self.solver == "auto" else self.solver

    def _search(
        self, problem: SegmentProblem, should_stop: Callable[[], bool], upper: float, nodes: int | None
    ) -> Solution | Started:
        """The combinatorial solver: its solution, or how far it came in ``nodes``."""
        found = solve_segment(
            problem,
            gap=self.gap,
            upper=None if math.isinf(upper) else math.ceil(upper),
            node_limit=nodes,
            should_stop=should_stop,
        )
        solution = Solution(found.allocation, found.cost, float(found.bound))
        unfinished = found.termination == "node_limit" and not should_stop()
        return Started(solution) if unfinished else solution

    def solve_eq10(self, problem: Eq10Problem) -> tuple[Eq10Allocation | None, float]:
        """Solve one program of the published equations to optimality: its allocation (None: infeasible) and a proven bound.

        Raises:
            SolverError: the backend failed.
        """
        if self.solver in ("auto", "combinatorial") or not problem.operators:
            exact = solve_eq10_combinatorial(problem)
            return (None, math.inf) if exact is None else (exact[0], float(exact[1].total))
        from formulations.throughput import solve_eq10
        from solvers import SolverFailure

        bounds = [0.0]

        def optimise(model: object) -> None:
            bounds.append(self._run(self.solver, model, gap=self.gap).bound or 0.0)

        try:
            found = solve_eq10(problem, optimise)
        except (ValueError, SolverFailure) as error:
            raise SolverError(
                f"solver '{self.solver}' failed on the published equations: {error}; choose --solver combinatorial"
            ) from error
        return (None, math.inf) if found is None else (found[0], max(bounds) * (1 - LINEAR_TOLERANCE))

    def _program(
        self, problem: SegmentProblem, should_stop: Callable[[], bool], started: Started | None, upper: float
    ) -> Solution:
        """Solve with a backend, from the allocation and the bound of ``started``. Raises solvers.SolverFailure.

        Backends other than HiGHS are given finite times, which some need: up to the cost of ``started``, or else ``upper``.
        """
        from formulations import allocation_start, bound_times, build_segment_allocation, read_segment_allocation
        from solvers import Termination

        model, warm = build_segment_allocation(problem), None
        best, bound, most = None, 0.0, math.inf
        if started is not None:
            bound = started.solution.bound
            if started.solution.allocation is not None and started.solution.exact is not None:
                best = started.solution.allocation, started.solution.exact
                warm = allocation_start(problem, best[0])
            if self._backend != MILP:
                most = upper if best is None else float(best[1].total)
        if math.isfinite(most):
            bound_times(model, most)
        result = self._run(self._backend, model, gap=self.gap, warm_start=warm, should_stop=should_stop)
        if result.status != "none":
            allocation = read_segment_allocation(model, problem)
            exact = evaluate(problem, allocation)
            if best is None or exact.total < best[1].total:
                best = allocation, exact
        bound = max(result.bound if result.bound is not None else 0.0, bound)
        if best is not None:
            return Solution(*best, min(bound, float(best[1].total)))
        if result.termination is Termination.INFEASIBLE:
            return Solution(None, None, most)
        if result.termination is Termination.INTERRUPTED or should_stop():
            return Solution(None, None, bound)
        raise SolverError(
            f"solver '{result.solver}' stopped ({result.termination}) without a solution; try --solver combinatorial"
        )


def _quickest_places(problem: SegmentProblem) -> tuple[int, ...]:
    """For each tensor the placement with the least traffic, of those that take no arrays and fit the buffer that is left."""
    places, space = [], problem.buffer_bytes - sum(min(p.buffer_bytes for p in all_of) for all_of in problem.tensors)
    for placements in problem.tensors:
        least = min(p.buffer_bytes for p in placements)
        arrays = min(p.arrays for p in placements)
        fitting = [o for o, p in enumerate(placements) if p.arrays == arrays and p.buffer_bytes <= least + space]
        traffic = {o: sum(use.cycles for use in placements[o].uses) for o in fitting}
        place = min(traffic, key=traffic.__getitem__, default=0)
        space -= placements[place].buffer_bytes - least
        places.append(place)
    return tuple(places)
