"""A form of the segment problem together with a solver: what the pair finds on a segment, and what that takes."""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import pyomo.core as pyo

from benchmarks.ablation.segments import HarvestedSegment
from benchmarks.settings import deadline
from cmswitch.allocation.solving import Allocator
from formulations import (
    bound_times,
    build_segment_allocation,
    evaluate,
    lower_bound,
    read_segment_allocation,
    solve_segment,
)
from formulations.columns import build_segment_columns, read_segment_columns
from formulations.compact import build_compact, read_compact, solve_compact
from formulations.eq10 import Eq10Allocation, evaluate_eq10, solve_eq10_combinatorial
from formulations.literal import ROLES, build_literal, read_literal, solve_literal
from formulations.throughput import build_eq10, read_eq10, solve_eq10
from solvers import SolverFailure, Status, Termination, solve

CostModel = Literal["machine", "published"]
TOLERANCE = Fraction(1, 10**6)
"""Relative: a segment is solved if cost and bound are no farther apart, and solved costs may differ by as much."""
ROOT_SECONDS = 60.0
MOST_BINARIES = 40_000
"""A literal program of this size takes several CPU seconds to write down, and backends go far beyond their limits."""
BACKENDS = ("highs", "highs-pyomo", "cp-sat", "scip")
COMBINATORIAL = "combinatorial"


@dataclass(frozen=True)
class Run:
    """What came of one segment within a time limit.

    Seconds are CPU: ``build`` of this process, which makes the programs (None: not told apart), ``solve`` of the solver. ``cost``
    is exact and ``bound`` a proven lower bound, in cycles; ``programs`` the programs solved.
    """

    termination: str
    build: float | None
    solve: float
    cost: Fraction | None
    bound: float
    nodes: int | None = None
    programs: int = 1

    @property
    def seconds(self) -> float:
        """CPU seconds, build included."""
        return (self.build or 0.0) + self.solve

    @property
    def gap(self) -> float | None:
        """Relative distance of cost and bound; None without a solution."""
        if self.cost is None:
            return None
        return max(0.0, float(1 - Fraction(self.bound) / self.cost)) if self.cost else 0.0

    @property
    def solved(self) -> bool:
        """Whether the gap is closed, up to rounding."""
        return self.gap is not None and self.gap <= TOLERANCE


class Pair(ABC):
    """``form`` and ``solver``; only pairs of one ``cost_model`` solve the same problem."""

    def __init__(self, form: str, solver: str, cost_model: CostModel) -> None:
        self.form, self.solver, self.cost_model = form, solver, cost_model

    @property
    def name(self) -> str:
        """As ``--only`` takes it."""
        return f"{self.form}:{self.solver}"

    @abstractmethod
    def run(self, segment: HarvestedSegment, limit: float, seed: int) -> Run:
        """Solve ``segment`` in at most ``limit`` seconds of wall clock. SolverFailure or ValueError if there is no result."""

    @abstractmethod
    def root_bound(self, segment: HarvestedSegment) -> float | None:
        """The bound with which a search begins, in cycles; None if there is none."""


@dataclass(frozen=True)
class Form:
    """A form as mixed integer programs. ``build``: the first one; ``cost``: the exact cost of the values in a model; ``known``:
    what some allocation costs; ``solve``: solves all the programs that it takes (None: one)."""

    cost_model: CostModel
    build: Callable[[Any], pyo.ConcreteModel]
    cost: Callable[[pyo.ConcreteModel, Any], Fraction]
    known: Callable[[Any], Fraction]
    solve: Callable[[Any, Callable[[Any], object]], object] | None = None


def _known_machine(problem: Any) -> Fraction:
    """Cost of what the combinatorial search begins with."""
    begun = solve_segment(problem, node_limit=0).cost
    if begun is None:
        raise SolverFailure("no allocation is known that would bound the times")
    return begun.total


def _known_published(problem: Any) -> Fraction:
    """Cost of one copy of each operator, and no array for data."""
    count = len(problem.operators)
    single = Eq10Allocation(tuple(op.arrays for op in problem.operators), (0,) * count, (0,) * len(problem.tensors))
    return evaluate_eq10(problem, single).total


def _machine(build: Callable[[Any], Any], read: Callable[[Any, Any], Any], solve: Any = None) -> Form:
    return Form("machine", build, lambda model, p: evaluate(p, read(model, p)).total, _known_machine, solve)


def _published(build: Callable[[Any], Any], read: Callable[[Any, Any], Any], solve: Any) -> Form:
    return Form("published", build, lambda model, p: evaluate_eq10(p, read(model, p)).total, _known_published, solve)


def _solve_literal(problem: Any, optimise: Callable[[Any], object]) -> object:
    binaries = len(ROLES) * len(problem.operators) * problem.arrays
    if binaries > MOST_BINARIES:
        raise ValueError(f"{binaries:,} binaries of roles, more than {MOST_BINARIES:,}")
    return solve_literal(problem, optimise)


FORMS = {
    "option": _machine(build_segment_allocation, read_segment_allocation),
    "column": _machine(build_segment_columns, read_segment_columns),
    "compact": _machine(build_compact, read_compact, solve_compact),
    "throughput": _published(build_eq10, lambda model, _: read_eq10(model), solve_eq10),
    "literal": _published(build_literal, read_literal, _solve_literal),
}


class _Ended(Exception):
    """A program was not solved to the end."""


class _Optimiser:
    """Solves the programs of one run with a backend, and keeps count."""

    def __init__(self, form: Form, problem: Any, solver: str, limit: float, seed: int) -> None:
        self._form, self._problem, self._solver, self._left, self._seed = form, problem, solver, limit, seed
        self.termination, self.bound = "", 0.0
        self.cost: Fraction | None = None
        self.seconds, self.nodes, self.programs = 0.0, 0, 0

    def __call__(self, model: Any) -> None:
        if self._solver == "cp-sat":
            bound_times(model, float(self._form.known(self._problem)))
        result = solve(model, self._solver, time_limit=max(0.0, self._left), seed=self._seed, isolated=True)
        self._left -= result.wall_seconds
        self.seconds += result.cpu_seconds
        self.nodes += result.nodes
        self.programs += 1
        if result.termination is Termination.INTERRUPTED:
            raise KeyboardInterrupt
        self.termination = str(result.termination)
        self.bound = max(self.bound, result.bound or 0.0)
        if result.status is not Status.NONE:
            cost = self._form.cost(model, self._problem)
            self.cost = cost if self.cost is None else min(self.cost, cost)
        if result.termination not in (Termination.OPTIMAL, Termination.PRECISION):
            raise _Ended


class ProgramPair(Pair):
    """A form of :data:`FORMS` with a backend of the package ``solvers``."""

    def __init__(self, form: str, solver: str) -> None:
        super().__init__(form, solver, FORMS[form].cost_model)
        self._built: tuple[Any, pyo.ConcreteModel, float] | None = None

    def run(self, segment: HarvestedSegment, limit: float, seed: int) -> Run:
        """See :class:`Pair`."""
        form, problem = FORMS[self.form], getattr(segment, self.cost_model)
        done = _Optimiser(form, problem, self.solver, limit, seed)
        model, build = self._first(problem) if form.solve is None else (None, 0.0)
        start = time.process_time()
        with contextlib.suppress(_Ended):
            if form.solve is None:
                done(model)
            else:
                form.solve(problem, done)
        build += time.process_time() - start
        return Run(done.termination, build, done.seconds, done.cost, done.bound, done.nodes, done.programs)

    def root_bound(self, segment: HarvestedSegment) -> float | None:
        """Of the first program without integrality."""
        model, _ = self._first(getattr(segment, self.cost_model))
        self._built = None
        for var in model.component_data_objects(pyo.Var):
            if not var.is_continuous():
                low, high = var.bounds
                var.domain = pyo.Reals
                var.setlb(low)
                var.setub(high)
        result = solve(model, time_limit=ROOT_SECONDS, isolated=True)
        return result.bound if result.termination is Termination.OPTIMAL else None

    def _first(self, problem: Any) -> tuple[pyo.ConcreteModel, float]:
        """The first program and the CPU seconds of building it, kept until it is relaxed: larger limits begin anew."""
        if self._built is None or self._built[0] is not problem:
            start = time.process_time()
            model = FORMS[self.form].build(problem)
            self._built = problem, model, time.process_time() - start
        return self._built[1:]


class BoxesPair(Pair):
    """The combinatorial search over boxes of choices."""

    def __init__(self) -> None:
        super().__init__("boxes", COMBINATORIAL, "machine")

    def run(self, segment: HarvestedSegment, limit: float, seed: int) -> Run:
        """See :class:`Pair`."""
        start = time.process_time()
        found = solve_segment(segment.machine, should_stop=deadline(limit))
        seconds = time.process_time() - start
        termination = "time_limit" if found.termination == "interrupted" else found.termination
        cost = None if found.cost is None else found.cost.total
        return Run(termination, 0.0, seconds, cost, float(found.bound), found.nodes)

    def root_bound(self, segment: HarvestedSegment) -> float | None:
        """Of the box of all choices."""
        return float(lower_bound(segment.machine))


class BisectionPair(Pair):
    """The search for the least time of the published equations, which has neither nodes nor a limit."""

    def __init__(self) -> None:
        super().__init__("bisection", COMBINATORIAL, "published")

    def run(self, segment: HarvestedSegment, limit: float, seed: int) -> Run:
        """See :class:`Pair`."""
        start = time.process_time()
        found = solve_eq10_combinatorial(segment.published)
        seconds = time.process_time() - start
        cost = None if found is None else found[1].total
        return Run("optimal" if found else "infeasible", 0.0, seconds, cost, float(cost or 0))

    def root_bound(self, segment: HarvestedSegment) -> float | None:
        """There is none."""
        return None


class DefaultPair(Pair):
    """What ``cmswitch solve`` does with a segment unless told otherwise, to gap 0."""

    def __init__(self) -> None:
        super().__init__("default", Allocator().solver, "machine")

    def run(self, segment: HarvestedSegment, limit: float, seed: int) -> Run:
        """See :class:`Pair`."""
        allocator = Allocator(seed=seed)
        start = allocator.cpu_seconds()
        found = allocator.solve(segment.machine, deadline(limit))
        seconds = allocator.cpu_seconds() - start
        if allocator.journal.fallbacks:
            raise SolverFailure("; ".join(fallback.reason for fallback in allocator.journal.fallbacks))
        if found.exact is None and math.isinf(found.bound):
            return Run("infeasible", None, seconds, None, 0.0)
        run = Run("optimal", None, seconds, None if found.exact is None else found.exact.total, found.bound)
        return run if run.solved else Run("time_limit", None, seconds, run.cost, found.bound)

    def root_bound(self, segment: HarvestedSegment) -> float | None:
        """That of the search it begins with."""
        return float(lower_bound(segment.machine))


DEFAULT = DefaultPair()
PAIRS: dict[str, Pair] = {
    pair.name: pair
    for pair in (
        DEFAULT,
        BoxesPair(),
        *(ProgramPair(form, solver) for form in FORMS for solver in BACKENDS),
        BisectionPair(),
    )
}
