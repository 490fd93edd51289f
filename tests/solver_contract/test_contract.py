"""What every backend must do, on small programs with known answers."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable

import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import (
    Feature,
    SolverFailure,
    Status,
    Termination,
    UnknownOption,
    Unsuitable,
    get_solver,
    is_installed,
    solve,
    solver_names,
)
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


def slow(backend: str) -> pyo.ConcreteModel:
    """More than ``backend`` can prove in a second; brute force refuses what it cannot finish in minutes."""
    return market_split(columns=12) if backend == "brute-force" else market_split()


def interrupted_after(seconds: float) -> Callable[[], bool]:
    """A ``should_stop`` in which Ctrl-C arrives once: a backend asks it while it waits, in the thread that gets the signal."""
    moment = [time.monotonic() + seconds]

    def ask() -> bool:
        if moment and time.monotonic() > moment[0]:
            moment.clear()
            raise KeyboardInterrupt
        return False

    return ask


def contradiction() -> pyo.ConcreteModel:
    """Rows ``most`` and ``least`` exclude each other for whole numbers only; ``apart`` and ``weight`` have no part in it."""
    model = knapsack()
    model.most = pyo.Constraint(expr=2 * (model.x[0] + model.x[1]) <= 3)
    model.apart = pyo.Constraint(expr=model.x[2] + model.x[3] <= 1)
    model.least = pyo.Constraint(expr=3 * (model.x[0] + model.x[1]) >= 4)
    return model


def test_optimum_and_values(backend: str) -> None:
    model = knapsack()
    result = solve(model, backend)
    assert (result.termination, result.status, result.solver) == (Termination.OPTIMAL, Status.OPTIMAL, backend)
    assert (
        result.objective == pytest.approx(14) and result.bound == pytest.approx(14) and result.gap == pytest.approx(0)
    )
    assert {name for name, x in result.values.items() if x == 1} == {"x[0]", "x[2]"}
    assert [model.x[i].value for i in range(4)] == [1, 0, 1, 0]
    assert result.wall_seconds > 0 and result.build_seconds > 0
    assert (result.attempts, result.unsupported, result.conflict) == ((), (), None)


def test_linear_program_has_a_bound(backend: str) -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(bounds=(1, 100))
    model.cost = pyo.Objective(expr=2 * model.x + 3)
    result = solve(model, backend)
    assert result.status is Status.OPTIMAL and result.objective == pytest.approx(5) == result.bound


def test_whole_and_continuous_variables(backend: str) -> None:
    """Thirds, tenths and a fixed charge, with a constant in a row: the optimum takes some of everything."""
    model = pyo.ConcreteModel()
    model.n = pyo.Var(bounds=(0, 7), domain=pyo.Integers)
    model.on = pyo.Var(domain=pyo.Binary)
    model.x = pyo.Var(bounds=(0, 10))
    model.enough = pyo.Constraint(expr=model.n / 3 + model.x + 0.1 >= 2.5)
    model.charge = pyo.Constraint(expr=model.x <= 10 * model.on)
    model.cost = pyo.Objective(expr=0.6 * model.n + 2.0 * model.x + 0.3 * model.on)
    result = solve(model, backend, gap=1e-7)
    assert result.objective == pytest.approx(0.6 * 7 + 2.0 * (2.4 - 7 / 3) + 0.3)
    assert result.bound == pytest.approx(result.objective) and result.status is Status.OPTIMAL


def test_infeasible_has_no_values(backend: str) -> None:
    model = knapsack()
    model.no = pyo.Constraint(expr=sum(model.x.values()) >= 4)
    result = solve(model, backend)
    assert (result.termination, result.status, result.objective) == (Termination.INFEASIBLE, Status.NONE, None)
    assert result.values == {} and model.x[0].value is None and result.conflict is None


def test_infeasible_is_explained(backend: str) -> None:
    result = solve(contradiction(), backend, explain=True)
    assert result.termination is Termination.INFEASIBLE and result.conflict is not None
    assert result.conflict.rows == ("most", "least") and result.conflict.minimal


def test_a_row_without_variables_counts(backend: str) -> None:
    model = knapsack()
    model.nothing = pyo.Constraint(expr=0 * model.x[0] >= 1)
    result = solve(model, backend, explain=True)
    assert result.termination is Termination.INFEASIBLE
    assert result.conflict is not None and result.conflict.rows == ("nothing",)


def test_contradicting_bounds(backend: str) -> None:
    model = knapsack()
    model.x[0].setlb(1)
    model.x[0].setub(0)
    result = solve(model, backend, explain=True)
    assert result.termination is Termination.INFEASIBLE
    assert result.conflict is not None and result.conflict.rows == ()


@pytest.mark.parametrize("domain", [pyo.Reals, pyo.Integers])
def test_unbounded(backend: str, domain: object) -> None:
    """Found unbounded, or refused by a backend that needs bounds for such variables."""
    model = pyo.ConcreteModel()
    model.x = pyo.Var(domain=domain)
    model.y = pyo.Var(domain=pyo.Binary)
    model.row = pyo.Constraint(expr=model.x + model.y <= 10)
    model.cost = pyo.Objective(expr=model.x)
    if backend == "cp-sat" or (backend == "brute-force" and domain is pyo.Integers):
        with pytest.raises(Unsuitable, match="x has no finite bounds"):
            solve(model, backend)
        return
    result = solve(model, backend)
    assert (result.termination, result.status, result.values) == (Termination.UNBOUNDED, Status.NONE, {})


@pytest.mark.parametrize("whole", [True, False])
def test_infeasible_is_not_unbounded(backend: str, whole: bool) -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(bounds=(None, 1e6) if backend != "cp-sat" else (-1e6, 1e6))
    model.n = pyo.Var(bounds=(0, 9), domain=pyo.Integers)
    model.half = pyo.Constraint(expr=2 * model.n == 3) if whole else pyo.Constraint(expr=model.n >= 11)
    model.cost = pyo.Objective(expr=model.x + model.n)
    assert solve(model, backend).termination is Termination.INFEASIBLE


def test_time_limit_keeps_the_incumbent(backend: str) -> None:
    result = solve(slow(backend), backend, time_limit=0.5)
    assert (result.termination, result.status) == (Termination.TIME_LIMIT, Status.FEASIBLE)
    assert result.objective is not None and result.values and result.wall_seconds < 5
    if Feature.EARLY_BOUND in get_solver(backend).lacks:
        assert result.bound is None and result.gap is None and result.unsupported == (Feature.EARLY_BOUND,)
    else:
        assert result.bound is not None and result.bound < result.objective
        assert result.gap is not None and result.gap > 0 and result.unsupported == ()


def test_no_time_no_values(backend: str) -> None:
    model = slow(backend)
    result = solve(model, backend, time_limit=0.0)
    assert result.termination is Termination.TIME_LIMIT
    assert (result.status is Status.NONE) == (result.values == {}) == (result.objective is None)
    assert (model.x[0].value is None) == (result.status is Status.NONE)


def test_keyboard_interrupt_keeps_the_incumbent(backend: str) -> None:
    began = time.monotonic()
    result = solve(slow(backend), backend, time_limit=30, should_stop=interrupted_after(1.0))
    assert (result.termination, result.status) == (Termination.INTERRUPTED, Status.FEASIBLE)
    assert result.values and time.monotonic() - began < 10


def test_should_stop_ends_the_solve(backend: str) -> None:
    began = time.monotonic()
    result = solve(slow(backend), backend, time_limit=30, should_stop=lambda: time.monotonic() > began + 0.7)
    assert (result.termination, result.status) == (Termination.INTERRUPTED, Status.FEASIBLE)


def test_the_requested_gap_is_enough(backend: str) -> None:
    result = solve(knapsack(), backend, gap=0.5)
    assert result.status is Status.OPTIMAL and result.gap is not None and result.gap <= 0.5


def test_a_gap_ends_the_search_early(backend: str) -> None:
    """A bound is near at once (0.9 of the optimum), the proof far away."""
    model = market_split()
    model.miss.deactivate()
    model.floor = pyo.Objective(expr=1000 + sum(model.over.values()) + sum(model.under.values()))
    if backend == "brute-force":
        with pytest.raises(Unsuitable, match="more than 20,000 combinations of 40 integers"):
            solve(model, backend, gap=0.1)
        return
    result = solve(model, backend, gap=0.1, time_limit=30)
    assert (result.termination, result.status) == (Termination.OPTIMAL, Status.OPTIMAL)
    assert result.gap is not None and 0 < result.gap <= 0.1


def test_warm_start_is_used_or_said_not_to_be(backend: str) -> None:
    model = market_split(6, 60) if backend != "brute-force" else slow(backend)
    first = solve(model, backend, time_limit=0.5)
    start = {name: x for name, x in first.values.items() if name.startswith("x")}
    again = solve(model, backend, time_limit=0.2, warm_start=start)
    if Feature.WARM_START in get_solver(backend).lacks:
        assert Feature.WARM_START in again.unsupported
    else:
        assert first.objective is not None and again.objective is not None
        assert again.objective <= first.objective + 1e-6 and Feature.WARM_START not in again.unsupported
    with pytest.raises(ValueError, match="warm start names 'nobody'"):
        solve(model, backend, warm_start={"nobody": 1.0})


def test_incumbents_are_reported_or_said_not_to_be(backend: str) -> None:
    seen: list[tuple[float, str]] = []
    result = solve(
        market_split(2, 10), backend, on_incumbent=lambda x: seen.append((x, threading.current_thread().name))
    )
    assert result.objective is not None
    if Feature.INCUMBENTS in get_solver(backend).lacks:
        assert seen == [] and result.unsupported == (Feature.INCUMBENTS,)
    else:
        assert seen[-1][0] == pytest.approx(result.objective, abs=1e-3)
        assert [x for x, _ in seen] == sorted((x for x, _ in seen), reverse=True)
        assert {thread for _, thread in seen} == {threading.current_thread().name}


def test_an_error_of_the_callback_is_raised(backend: str) -> None:
    if Feature.INCUMBENTS in get_solver(backend).lacks:
        pytest.skip("has no incumbent callback")

    def fail(objective: float) -> None:
        raise RuntimeError(f"cannot store {objective:.0f}")

    with pytest.raises(RuntimeError, match="cannot store"):
        solve(slow(backend), backend, time_limit=5, on_incumbent=fail)


def test_two_solves_are_equal_and_silent(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = solve(market_split(2, 12), backend, seed=7), solve(market_split(2, 12), backend, seed=7)
    assert first.values == second.values and first.nodes == second.nodes
    assert (Feature.SEED in first.unsupported) == (Feature.SEED in get_solver(backend).lacks)
    assert capfd.readouterr() == ("", "")


def test_a_log_or_a_word_that_there_is_none(backend: str) -> None:
    assert bool(solve(market_split(2, 8), backend).log) == (Feature.LOG not in get_solver(backend).lacks)


def test_threads_may_change_between_solves(backend: str) -> None:
    results = [solve(knapsack(), backend, threads=n) for n in (1, 2, 1)]
    assert [result.status for result in results] == [Status.OPTIMAL] * 3
    lacking = (Feature.THREADS,) if Feature.THREADS in get_solver(backend).lacks else ()
    assert [result.unsupported for result in results] == [(), lacking, ()]


def test_misspelt_option(backend: str) -> None:
    with pytest.raises(UnknownOption, match="time_limt"):
        solve(knapsack(), backend, options={"time_limt": 1.0})


def test_an_option_of_its_own(backend: str) -> None:
    """Each backend takes an option by the name that it has there, and refuses a value of the wrong kind."""
    options: dict[str, dict[str, int | float]] = {
        "highs": {"mip_max_nodes": 10_000},
        "highs-pyomo": {"mip_max_nodes": 10_000},
        "cp-sat": {"linearization_level": 2},
        "scip": {"limits/gap": 0.01},
        "brute-force": {"most_combinations": 16},
    }
    assert solve(knapsack(), backend, options=options[backend]).status is Status.OPTIMAL
    (name,) = options[backend]
    with pytest.raises(UnknownOption, match=name):
        solve(knapsack(), backend, options={name: "many"})


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


def test_a_variable_in_no_row_and_no_cost(backend: str) -> None:
    model = knapsack()
    model.idle = pyo.Var(bounds=(2, 5))
    assert 2 <= solve(model, backend).values["idle"] <= 5


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_agrees_with_enumeration(backend: str, seed: int) -> None:
    """Random programs of bounded integers with whole coefficients, some infeasible."""
    draw = random.Random(seed)
    count = draw.randrange(1, 5)
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(count), bounds=(-2, 3), domain=pyo.Integers)
    rows = [([draw.randrange(-4, 5) for _ in range(count)], draw.randrange(-6, 7)) for _ in range(draw.randrange(1, 4))]
    model.rows = pyo.ConstraintList()
    for row, most in rows:
        model.rows.add(pyo.quicksum([a * model.x[i] for i, a in enumerate(row)], linear=False) <= most + 0 * model.x[0])
    cost = [draw.randrange(-5, 6) for _ in range(count)]
    model.cost = pyo.Objective(expr=sum(c * model.x[i] for i, c in enumerate(cost)) + 0 * model.x[0])
    points = [
        sum(c * v for c, v in zip(cost, x, strict=True))
        for x in itertools.product(range(-2, 4), repeat=count)
        if all(sum(a * v for a, v in zip(row, x, strict=True)) <= most for row, most in rows)
    ]
    result = solve(model, backend)
    if not points:
        assert result.termination is Termination.INFEASIBLE
    else:
        assert result.status is Status.OPTIMAL and result.objective == pytest.approx(min(points))
