"""Which solver works on a segment's program, and how its answer is certified."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cmswitch.errors import InputError, SolverError
from cmswitch.naming import nearest
from formulations import (
    SegmentAllocation,
    SegmentProblem,
    build_segment_allocation,
    evaluate,
    read_segment_allocation,
    solve_segment,
)
from formulations.evaluate import SegmentCost

COMBINATORIAL_NODES = 300
"""Nodes after which ``auto`` hands a segment from the combinatorial solver to HiGHS."""

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

    def solve(self, problem: SegmentProblem, should_stop: Callable[[], bool]) -> Solution:
        """Solve one program.

        Raises:
            SolverError: the backend failed.
        """
        if self.solver == "highs":
            return self._highs(problem, None)
        limit = COMBINATORIAL_NODES if self.solver == "auto" else None
        found = solve_segment(problem, gap=self.gap, node_limit=limit, should_stop=should_stop)
        exact = evaluate(problem, found.allocation) if found.allocation is not None else None
        solution = Solution(found.allocation, exact, math.inf if found.bound is None else float(found.bound))
        if self.solver == "auto" and found.termination == "node_limit" and not should_stop():
            return self._highs(problem, solution)
        return solution

    def _highs(self, problem: SegmentProblem, start: Solution | None) -> Solution:
        from solvers import solve

        model = build_segment_allocation(problem)
        result = solve(model, solver="highs", gap=self.gap, threads=self.threads, seed=self.seed)
        if result.termination == "infeasible":
            return Solution(None, None, float("inf"))
        if result.status == "none" and start is None:
            raise SolverError(f"solver 'highs' stopped ({result.termination}) without a solution; try --solver combinatorial")
        bound = result.bound if result.bound is not None else 0.0
        best = start
        if result.status != "none":
            allocation = read_segment_allocation(model, problem)
            exact = evaluate(problem, allocation)
            if best is None or best.exact is None or exact.total < best.exact.total:
                best = Solution(allocation, exact, bound)
        assert best is not None
        lower = max(bound, start.bound if start else 0.0)
        return Solution(best.allocation, best.exact, min(lower, float(best.exact.total)) if best.exact else lower)
