"""Which solver works on a segment's program, and how its answer is certified."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from cmswitch.errors import InputError, SolverError
from cmswitch.naming import nearest
from formulations import SegmentAllocation, SegmentProblem, evaluate, solve_segment
from formulations.eq10 import Eq10Allocation, Eq10Problem, solve_eq10_combinatorial
from formulations.evaluate import SegmentCost

if TYPE_CHECKING:
    from solvers import SolveResult

COMBINATORIAL_NODES = 600
"""Nodes, divided by the operators of the segment, after which ``auto`` hands it from the combinatorial solver to HiGHS."""

MOST_COMBINATORIAL = 30
"""Operators beyond which ``auto`` goes to HiGHS at once: the root of the combinatorial search alone takes longer."""

LINEAR_TOLERANCE = 1e-6
"""Relative; HiGHS keeps rows and reduced costs to 1e-7."""

SolverName = Literal["auto", "combinatorial", "highs"]
SOLVERS: tuple[SolverName, ...] = ("auto", "combinatorial", "highs")


@dataclass(frozen=True)
class Solution:
    """An allocation with its exact cost (None: infeasible) and a proven lower bound in cycles."""

    allocation: SegmentAllocation | None
    exact: SegmentCost | None
    bound: float


@dataclass(frozen=True)
class Allocator:
    """Solves segment programs to a relative ``gap`` with one backend, or (``auto``) the first that proves it."""

    solver: SolverName = "auto"
    gap: float = 0.0
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse an unknown solver."""
        if self.solver not in SOLVERS:
            raise InputError(f"unknown solver '{self.solver}'{nearest(self.solver, SOLVERS)}")

    def linear_bound(self, problem: SegmentProblem, should_stop: Callable[[], bool] | None = None) -> float:
        """The optimum of the program without integrality, less a margin for the tolerances of the linear solver."""
        from formulations import relax_segment_allocation

        result = self._run_highs(relax_segment_allocation(problem), should_stop=should_stop)
        if result.bound is None:
            return 0.0
        return result.bound * (1 - LINEAR_TOLERANCE)

    def _run_highs(self, model: Any, **settings: Any) -> SolveResult:
        """Solve a Pyomo model. Raises SolverError if HiGHS is missing or fails."""
        from solvers import SolverFailure, SolverUnavailable, solve

        try:
            return solve(model, solver="highs", threads=self.threads, seed=self.seed, **settings)
        except (SolverUnavailable, SolverFailure) as error:
            raise SolverError(f"solver 'highs': {error}; or choose --solver combinatorial") from error

    def solve(self, problem: SegmentProblem, should_stop: Callable[[], bool], upper: float = math.inf) -> Solution:
        """Solve one program, or prove that it costs at least ``upper`` cycles (its bound is then ``upper``, its allocation None).

        Once it is to stop, what the combinatorial solver begins with has to do, whichever the solver. HiGHS is not told of
        ``upper``: proving that nothing is slightly better takes it longer than solving.

        Raises:
            SolverError: the backend failed.
        """
        if self._at_once(problem) and not should_stop():
            return self._highs(problem, should_stop, None)
        found = solve_segment(
            problem,
            gap=self.gap,
            upper=None if math.isinf(upper) else math.ceil(upper),
            node_limit=COMBINATORIAL_NODES // len(problem.stages) if self.solver == "auto" else None,
            should_stop=should_stop,
        )
        solution = Solution(found.allocation, found.cost, float(found.bound))
        if found.termination == "node_limit" and not should_stop():
            return self._highs(problem, should_stop, solution)
        return solution

    def quick(self, problem: SegmentProblem, should_stop: Callable[[], bool]) -> Solution:
        """An allocation that is found quickly, with a bound that may be far from it.

        Of a long segment HiGHS finds one soonest if only the copies are left to it.
        """
        if self._at_once(problem):
            places = _quickest_places(problem)
            settled = tuple((placements[o],) for placements, o in zip(problem.tensors, places, strict=True))
            found = self._highs(replace(problem, tensors=settled), should_stop, None)
            if found.allocation is None:
                return Solution(None, None, 0.0)
            return Solution(replace(found.allocation, placements=places), found.exact, 0.0)
        limit = COMBINATORIAL_NODES // len(problem.stages)
        found_here = solve_segment(problem, gap=self.gap, node_limit=limit, should_stop=should_stop)
        return Solution(found_here.allocation, found_here.cost, float(found_here.bound))

    def _at_once(self, problem: SegmentProblem) -> bool:
        return self.solver == "highs" or (self.solver == "auto" and len(problem.stages) > MOST_COMBINATORIAL)

    def solve_eq10(self, problem: Eq10Problem) -> tuple[Eq10Allocation | None, float]:
        """Solve one program of the published equations to optimality: its allocation (None: infeasible) and a proven bound.

        Raises:
            SolverError: the backend failed.
        """
        if self.solver != "highs" or not problem.operators:
            exact = solve_eq10_combinatorial(problem)
            return (None, math.inf) if exact is None else (exact[0], float(exact[1].total))
        from formulations.throughput import solve_eq10
        from solvers import solve

        bounds = [0.0]

        def optimise(model: object) -> None:
            result = solve(model, solver="highs", gap=self.gap, threads=self.threads, seed=self.seed)
            bounds.append(result.bound or 0.0)

        try:
            found = solve_eq10(problem, optimise)
        except ValueError as error:
            raise SolverError(f"solver 'highs' failed on the published equations: {error}") from error
        return (None, math.inf) if found is None else (found[0], max(bounds) * (1 - LINEAR_TOLERANCE))

    def _highs(self, problem: SegmentProblem, should_stop: Callable[[], bool], start: Solution | None) -> Solution:
        """Solve with HiGHS, from the allocation and the bound of ``start``."""
        from formulations import allocation_start, build_segment_allocation, read_segment_allocation
        from solvers import Termination

        model = build_segment_allocation(problem)
        warm = (
            allocation_start(problem, start.allocation) if start is not None and start.allocation is not None else None
        )
        result = self._run_highs(model, gap=self.gap, warm_start=warm, should_stop=should_stop)
        best = start if start is not None and start.exact is not None else None
        if result.status != "none":
            allocation = read_segment_allocation(model, problem)
            exact = evaluate(problem, allocation)
            if best is None or best.exact is None or exact.total < best.exact.total:
                best = Solution(allocation, exact, 0.0)
        bound = max(result.bound if result.bound is not None else 0.0, start.bound if start else 0.0)
        if best is not None and best.exact is not None:
            return Solution(best.allocation, best.exact, min(bound, float(best.exact.total)))
        if result.termination is Termination.INFEASIBLE:
            return Solution(None, None, math.inf)
        if result.termination is Termination.INTERRUPTED or should_stop():
            return Solution(None, None, bound)
        raise SolverError(
            f"solver 'highs' stopped ({result.termination}) without a solution; try --solver combinatorial"
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
