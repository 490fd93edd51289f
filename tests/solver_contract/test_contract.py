"""What every backend must do, on small programs with known answers."""

from __future__ import annotations

import _thread
import random
import threading
import time

import pyomo.environ as pyo
import pytest

from solvers import SolverFailure, Status, Termination, UnknownOption, is_installed, solve, solver_names
from solvers.program import read_model

BACKENDS = [pytest.param(name, id=name) for name in solver_names() if is_installed(name)]
pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def knapsack() -> pyo.ConcreteModel:
    """Optimum 14 (items 0 and 2) with an offset of 1; the relaxation reaches more."""
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(4), domain=pyo.Binary)
    values, weights = (8, 4, 5, 3), (5, 4, 3, 2)
    model.weight = pyo.Constraint(expr=sum(w * model.x[i] for i, w in enumerate(weights)) <= 8)
    model.value = pyo.Objective(expr=1 + sum(v * model.x[i] for i, v in enumerate(values)), sense=pyo.maximize)
    return model


def market_split(rows: int = 4, columns: int = 40) -> pyo.ConcreteModel:
    """Feasible at once, hopeless to prove."""
    draw = random.Random(1)
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(columns), domain=pyo.Binary)
    model.over = pyo.Var(range(rows), bounds=(0, 1e5))
    model.under = pyo.Var(range(rows), bounds=(0, 1e5))
    model.rows = pyo.ConstraintList()
    for r in range(rows):
        weights = [draw.randrange(100) for _ in range(columns)]
        body = sum(w * model.x[c] for c, w in enumerate(weights))
        model.rows.add(body + model.over[r] - model.under[r] == sum(weights) // 2)
    model.miss = pyo.Objective(expr=sum(model.over.values()) + sum(model.under.values()))
    return model


def test_optimum_and_values(backend: str) -> None:
    model = knapsack()
    result = solve(model, backend)
    assert (result.termination, result.status) == (Termination.OPTIMAL, Status.OPTIMAL)
    assert (
        result.objective == pytest.approx(14) and result.bound == pytest.approx(14) and result.gap == pytest.approx(0)
    )
    assert {name for name, x in result.values.items() if x == 1} == {"x[0]", "x[2]"}
    assert [model.x[i].value for i in range(4)] == [1, 0, 1, 0]
    assert result.wall_seconds > 0 and result.build_seconds > 0


def test_linear_program_has_a_bound(backend: str) -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(bounds=(1, None))
    model.cost = pyo.Objective(expr=2 * model.x + 3)
    result = solve(model, backend)
    assert result.status is Status.OPTIMAL and result.objective == result.bound == pytest.approx(5)


def test_infeasible_has_no_values(backend: str) -> None:
    model = knapsack()
    model.no = pyo.Constraint(expr=sum(model.x.values()) >= 4)
    result = solve(model, backend)
    assert (result.termination, result.status, result.objective) == (Termination.INFEASIBLE, Status.NONE, None)
    assert result.values == {} and model.x[0].value is None


def test_a_row_without_variables_counts(backend: str) -> None:
    model = knapsack()
    model.nothing = pyo.Constraint(expr=0 * model.x[0] >= 1)
    assert solve(model, backend).termination is Termination.INFEASIBLE


@pytest.mark.parametrize("domain", [pyo.Reals, pyo.Integers])
def test_unbounded(backend: str, domain: object) -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(domain=domain)
    model.y = pyo.Var(domain=pyo.Binary)
    model.row = pyo.Constraint(expr=model.x + model.y <= 10)
    model.cost = pyo.Objective(expr=model.x)
    result = solve(model, backend)
    assert (result.termination, result.status, result.values) == (Termination.UNBOUNDED, Status.NONE, {})


def test_time_limit_keeps_the_incumbent(backend: str) -> None:
    result = solve(market_split(), backend, time_limit=0.5)
    assert (result.termination, result.status) == (Termination.TIME_LIMIT, Status.FEASIBLE)
    assert result.objective is not None and result.bound is not None and result.bound < result.objective
    assert result.gap is not None and result.gap > 0 and result.values and result.wall_seconds < 5


def test_no_time_no_values(backend: str) -> None:
    model = market_split()
    result = solve(model, backend, time_limit=0.0)
    assert result.termination is Termination.TIME_LIMIT
    assert (result.status is Status.NONE) == (result.values == {}) == (result.objective is None)
    assert (model.x[0].value is None) == (result.status is Status.NONE)


def test_keyboard_interrupt_keeps_the_incumbent(backend: str) -> None:
    threading.Timer(0.7, _thread.interrupt_main).start()
    began = time.monotonic()
    result = solve(market_split(), backend, time_limit=30)
    assert (result.termination, result.status) == (Termination.INTERRUPTED, Status.FEASIBLE)
    assert result.values and time.monotonic() - began < 10


def test_should_stop_ends_the_solve(backend: str) -> None:
    began = time.monotonic()
    result = solve(market_split(), backend, time_limit=30, should_stop=lambda: time.monotonic() > began + 0.7)
    assert (result.termination, result.status) == (Termination.INTERRUPTED, Status.FEASIBLE)


def test_the_requested_gap_is_enough(backend: str) -> None:
    result = solve(knapsack(), backend, gap=0.5)
    assert result.status is Status.OPTIMAL and result.gap is not None and result.gap <= 0.5


def test_warm_start_is_not_lost(backend: str) -> None:
    model = market_split(6, 60)
    first = solve(model, backend, time_limit=0.5)
    start = {name: x for name, x in first.values.items() if name.startswith("x")}
    again = solve(model, backend, time_limit=0.2, warm_start=start)
    assert first.objective is not None and again.objective is not None
    assert again.objective <= first.objective + 1e-6
    with pytest.raises(ValueError, match="warm start names 'nobody'"):
        solve(model, backend, warm_start={"nobody": 1.0})


def test_two_solves_are_equal_and_silent(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = solve(market_split(2, 14), backend, seed=7), solve(market_split(2, 14), backend, seed=7)
    assert first.values == second.values and first.nodes == second.nodes
    assert capfd.readouterr() == ("", "")


def test_threads_may_change_between_solves(backend: str) -> None:
    assert [solve(knapsack(), backend, threads=n).status for n in (1, 2, 1)] == [Status.OPTIMAL] * 3


def test_misspelt_option(backend: str) -> None:
    with pytest.raises(UnknownOption, match="time_limt"):
        solve(knapsack(), backend, options={"time_limt": 1.0})


def test_not_linear(backend: str) -> None:
    model = knapsack()
    model.square = pyo.Constraint(expr=model.x[0] * model.x[1] <= 1)
    with pytest.raises(SolverFailure, match="square is not linear"):
        solve(model, backend)


def test_fixed_variables_and_inactive_rows(backend: str) -> None:
    model = knapsack()
    model.x[0].fix(0)
    model.never = pyo.Constraint(expr=model.x[1] >= 2)
    model.never.deactivate()
    program, variables = read_model(model)
    assert program.names == ["x[1]", "x[2]", "x[3]"] and [v.name for v in variables] == program.names
    assert solve(model, backend).objective == pytest.approx(10)
