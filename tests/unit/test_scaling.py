"""Programs in whole numbers: exact where they can be, with a valid bound where not, and refused where they do not fit."""

from __future__ import annotations

import random

import pyomo.environ as pyo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers import Status, Termination, Unsuitable, solve
from solvers.program import read_model
from solvers.scaling import whole_program


def mixed(seed: int) -> pyo.ConcreteModel:
    """Random rows over binaries and continuous variables with coefficients that are not binary fractions."""
    draw = random.Random(seed)
    model = pyo.ConcreteModel()
    model.y = pyo.Var(range(3), domain=pyo.Binary)
    model.x = pyo.Var(range(3), bounds=(0, draw.choice([1, 7.3, 1e4])))
    every = [*model.y.values(), *model.x.values()]
    model.rows = pyo.ConstraintList()
    for _ in range(3):
        weights = [draw.choice([0.1, 1 / 3, 2, draw.random(), -draw.random()]) for _ in every]
        model.rows.add(sum(w * v for w, v in zip(weights, every, strict=True)) >= draw.uniform(-2, 2))
    model.cost = pyo.Objective(expr=sum(draw.uniform(0.1, 3) * v for v in every) + draw.choice([0, 5.5]))
    return model


def largest_objective(model: pyo.ConcreteModel) -> float:
    """What rounding is relative to: the objective with every variable at its upper bound."""
    program, _ = read_model(model)
    return program.objective(program.upper)


@settings(max_examples=20)
@given(st.integers(0, 100_000))
def test_the_bound_is_below_the_optimum_and_close_when_proven(seed: int) -> None:
    highs, cp_sat = solve(mixed(seed), "highs"), solve(mixed(seed), "cp-sat", gap=1e-9, time_limit=0.5)
    if highs.objective is None:
        assert cp_sat.status is Status.NONE
        return
    assert cp_sat.termination is not Termination.INFEASIBLE
    assert cp_sat.bound is None or cp_sat.bound <= highs.objective + 1e-6
    if cp_sat.termination is not Termination.TIME_LIMIT:
        near = 1e-5 * largest_objective(mixed(seed))
        assert cp_sat.bound is not None and highs.objective - cp_sat.bound <= near
        assert cp_sat.objective == pytest.approx(highs.objective, abs=near)


def test_a_gap_finer_than_the_rounding_is_not_called_optimal() -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(bounds=(0, 1e6))
    model.row = pyo.Constraint(expr=3 * model.x >= 1)
    model.cost = pyo.Objective(expr=model.x)
    result = solve(model, "cp-sat")
    assert (result.termination, result.status) == (Termination.PRECISION, Status.FEASIBLE)
    assert result.objective == pytest.approx(1 / 3) and result.bound is not None and result.bound < 1 / 3
    assert solve(model, "cp-sat", gap=0.1).status is Status.OPTIMAL


def test_integers_with_decimal_coefficients_are_exact() -> None:
    model = pyo.ConcreteModel()
    model.n = pyo.Var(range(3), bounds=(0, 9), domain=pyo.Integers)
    model.row = pyo.Constraint(expr=0.1 * model.n[0] + 0.2 * model.n[1] - model.n[2] / 7 == 0.3)
    model.cost = pyo.Objective(expr=0.25 * model.n[0] + model.n[1])
    whole = whole_program(read_model(model)[0])
    assert whole.exact and whole.rows[0].coefficients == (7, 14, -10)
    assert (whole.rows[0].low, whole.rows[0].high) == (21, 21)
    assert solve(model, "cp-sat").objective == 0.75


def test_what_does_not_fit_is_refused_by_name() -> None:
    model = pyo.ConcreteModel()
    model.far = pyo.Var(bounds=(0, 1e18), domain=pyo.Integers)
    model.cost = pyo.Objective(expr=model.far)
    with pytest.raises(Unsuitable, match=r"far ranges to 1e\+18, too far"):
        solve(model, "cp-sat")
    model.far.setub(None)
    with pytest.raises(Unsuitable, match="far has no finite bounds"):
        solve(model, "cp-sat")


def test_large_coefficients_are_rounded_and_not_overflowed() -> None:
    model = pyo.ConcreteModel()
    model.n = pyo.Var(range(2), bounds=(0, 1_000_000), domain=pyo.Integers)
    model.row = pyo.Constraint(expr=123456789012.25 * model.n[0] + 1e-3 * model.n[1] >= 5e11)
    model.cost = pyo.Objective(expr=model.n[0] + model.n[1])
    result = solve(model, "cp-sat")
    assert result.objective == pytest.approx(5) and result.values["n[0]"] == 5
