"""Every solver that segments can go to, the combinatorial one of ``formulations`` included, finds the same optimum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings

from cmswitch.allocation import solving
from cmswitch.allocation.solving import Allocator
from cmswitch.errors import InputError, SolverError
from cmswitch.options import SOLVERS
from formulations import SegmentProblem, bound_times, build_segment_allocation, evaluate
from solvers import Status, is_installed, registry, solve, solver_names
from tests.solver_contract.test_isolation import FAULTS
from tests.strategies import allocations, segment_problems
from tests.unit.test_formulations import PAIR, TWICE_IN_ARRAYS

ALL = [name for name in SOLVERS if name in ("auto", "combinatorial") or is_installed(name)]
NEVER: Callable[[], bool] = bool  # bool() is False


def enumerated(problem: SegmentProblem) -> float:
    """Least cycles over all allocations; infinite if none is feasible."""
    costs = []
    for allocation in allocations(problem):
        try:
            costs.append(float(evaluate(problem, allocation).total))
        except ValueError:
            continue
    return min(costs, default=math.inf)


def test_the_command_line_offers_every_backend() -> None:
    assert ("auto", "combinatorial", *solver_names()) == SOLVERS
    with pytest.raises(InputError, match="unknown solver 'skip'"):
        Allocator("skip")


@pytest.mark.parametrize("solver", ALL)
def test_known_optimum(solver: str) -> None:
    solution = Allocator(solver).solve(PAIR, NEVER)
    assert solution.exact is not None and solution.exact.total == evaluate(PAIR, TWICE_IN_ARRAYS).total
    assert solution.bound == pytest.approx(float(solution.exact.total), rel=1e-6)


@pytest.mark.parametrize("solver", ALL)
def test_infeasible(solver: str) -> None:
    allocator = Allocator(solver)
    solution = allocator.solve(replace(PAIR, compute_arrays=2), NEVER)
    assert (solution.allocation, solution.exact, solution.bound) == (None, None, math.inf)
    assert not allocator.journal.fallbacks


@pytest.mark.parametrize("solver", ALL)
def test_nothing_below_a_cost(solver: str) -> None:
    """An answer is the optimum, or the proof that it is not below the given cost."""
    best = float(evaluate(PAIR, TWICE_IN_ARRAYS).total)
    solution = Allocator(solver).solve(PAIR, NEVER, upper=best - 1)
    assert solution.exact is None or solution.exact.total == best
    assert solution.bound >= best - 1 - 1e-3


@pytest.mark.parametrize("solver", [name for name in ALL if name != "auto"])
@settings(max_examples=8)
@given(problem=segment_problems(largest=2))
def test_agrees_with_enumeration(solver: str, problem: SegmentProblem) -> None:
    best, allocator = enumerated(problem), Allocator(solver)
    solution = allocator.solve(problem, NEVER)
    assert (math.inf if solution.exact is None else float(solution.exact.total)) == best
    assert solution.bound <= best and (solution.bound == best or best - solution.bound <= 1e-5 * best + 1e-3)
    assert not allocator.journal.fallbacks


@settings(max_examples=40)
@given(segment_problems(largest=3))
def test_bounded_times_keep_the_optimum(problem: SegmentProblem) -> None:
    """With no room to spare: the bound is the optimum itself."""
    best = enumerated(problem)
    if math.isinf(best):
        return
    model = build_segment_allocation(problem)
    bound_times(model, best)
    result = solve(model)
    assert result.status is Status.OPTIMAL and result.objective == pytest.approx(best, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("solver", ALL)
def test_interrupted_at_once(solver: str) -> None:
    """What is returned holds: an allocation with its cost or none, and a bound that no allocation undercuts."""
    solution = Allocator(solver).solve(PAIR, lambda: True)
    assert (solution.exact is None) == (solution.allocation is None)
    assert solution.bound <= evaluate(PAIR, TWICE_IN_ARRAYS).total


def break_backend(monkeypatch: pytest.MonkeyPatch, name: str, fault: str) -> None:
    factory, _ = FAULTS[fault]
    monkeypatch.setitem(registry.BACKENDS, name, registry.Backend("tests.solver_contract.faulty", factory, ()))


@pytest.mark.parametrize("fault", FAULTS)
def test_highs_takes_over(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    break_backend(monkeypatch, "scip", fault)
    allocator = Allocator("scip")
    solutions = [allocator.solve(PAIR, NEVER) for _ in range(2)]
    assert [s.exact.total for s in solutions if s.exact] == [evaluate(PAIR, TWICE_IN_ARRAYS).total] * 2
    ((fallback, count),) = allocator.journal.fallbacks.items()
    assert (fallback.solver, fallback.used, count) == ("scip", "highs", 2) and FAULTS[fault][1] in fallback.reason


@pytest.mark.parametrize("solver", ["auto", "highs", "scip"])
def test_the_combinatorial_solver_takes_over_from_highs(monkeypatch: pytest.MonkeyPatch, solver: str) -> None:
    break_backend(monkeypatch, "highs", "segfaults")
    break_backend(monkeypatch, "scip", "aborts")
    monkeypatch.setattr(solving, "COMBINATORIAL_NODES", 0)
    allocator = Allocator(solver)
    solution = allocator.solve(PAIR, NEVER)
    assert solution.exact is not None and solution.exact.total == evaluate(PAIR, TWICE_IN_ARRAYS).total
    assert [(f.used, "SIGSEGV" in f.reason) for f in allocator.journal.fallbacks] == [("combinatorial", True)]
    assert allocator.linear_bound(PAIR, NEVER) == 0.0


def test_a_solver_that_is_not_installed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BACKENDS, "scip", registry.Backend("solvers.scip", "Scip", ("no_such_package",)))
    with pytest.raises(SolverError, match="pip install no_such_package; or choose --solver combinatorial"):
        Allocator("scip")
