"""The part of the solver package that no backend has a share in."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pyomo.environ as pyo
import pytest

from solvers import (
    Feature,
    SolverFailure,
    SolverUnavailable,
    Status,
    Termination,
    UnknownOption,
    UnknownSolver,
    registry,
    solve,
    solve_linear,
)
from solvers.program import LinearProgram, Outcome, Settings


class Scripted:
    """A backend that answers whatever the test wants."""

    lacks: frozenset[Feature] = frozenset()
    reads_model = False

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        return self.outcome


def one_binary() -> pyo.ConcreteModel:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(domain=pyo.Binary)
    model.row = pyo.Constraint(expr=10 * model.x >= 1)
    model.cost = pyo.Objective(expr=5 * model.x)
    return model


def scripted(monkeypatch: pytest.MonkeyPatch, outcome: Outcome) -> None:
    monkeypatch.setattr("solvers.api.get_solver", lambda name: Scripted(outcome))


def test_unknown_solver_names_the_nearest() -> None:
    with pytest.raises(UnknownSolver, match=r"unknown solver 'high' \(did you mean 'highs'\?\); solvers: .*highs"):
        solve(one_binary(), "high")


def test_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UnknownOption, match=r"no option 'mip_rel_gp' \(did you mean 'mip_rel_gap'\?\)"):
        solve(one_binary(), "highs", options={"mip_rel_gp": 0.1})
    with pytest.raises(UnknownOption, match="refuses 'quiet' for option 'output_flag'"):
        solve(one_binary(), "highs", options={"output_flag": "quiet"})
    with pytest.raises(UnknownOption, match=r"refuses -1.0 for option 'mip_rel_gap'"):
        solve(one_binary(), "highs", options={"mip_rel_gap": -1})


def test_missing_package_is_a_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = registry.Backend("solvers.absent", "Absent", ("no_such_package",))
    monkeypatch.setitem(registry.BACKENDS, "absent", backend)
    with pytest.raises(SolverUnavailable, match=r"'absent' needs the package no_such_package: pip install no_such"):
        solve(one_binary(), "absent")


@pytest.mark.parametrize("setting", [{"time_limit": -1.0}, {"gap": -0.1}, {"threads": 0}])
def test_unusable_settings(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="not a usable setting"):
        solve(one_binary(), "highs", **setting)  # type: ignore[arg-type]


def test_a_limit_is_never_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, Outcome(Termination.TIME_LIMIT, [1.0], 5.0))
    result = solve(one_binary())
    assert (result.termination, result.status, result.gap) == (Termination.TIME_LIMIT, Status.FEASIBLE, 0.0)


@pytest.mark.parametrize("bound", [4.0, None])
def test_optimal_without_proof_is_an_error(monkeypatch: pytest.MonkeyPatch, bound: float | None) -> None:
    scripted(monkeypatch, Outcome(Termination.OPTIMAL, [1.0], bound))
    result = solve(one_binary())
    assert (result.termination, result.status) == (Termination.ERROR, Status.FEASIBLE)


@pytest.mark.parametrize(
    ("x", "message"),
    [(0.0, "row: 0.0 is outside"), (0.5, "x = 0.5 is not a whole number"), (2.0, "x = 2.0 is outside")],
)
def test_an_infeasible_incumbent_is_refused(monkeypatch: pytest.MonkeyPatch, x: float, message: str) -> None:
    scripted(monkeypatch, Outcome(Termination.OPTIMAL, [x], 5.0))
    with pytest.raises(SolverFailure, match=message):
        solve(one_binary())


def test_import_is_light() -> None:
    code = "import solvers, sys; print([m for m in ('pyomo', 'highspy', 'numpy') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_a_linear_program_given_as_arrays_has_prices() -> None:
    """minimise 2 x + 3 y with x + y >= 4 (price 3), x <= 1 (price -1) and y <= 9 (price 0)."""
    infinity = float("inf")
    program = LinearProgram(
        maximise=False,
        offset=0.0,
        cost=[2.0, 3.0],
        lower=[0.0, 0.0],
        upper=[infinity, infinity],
        integer=[False, False],
        names=["x", "y"],
        row_lower=[4.0, -infinity, -infinity],
        row_upper=[infinity, 1.0, 9.0],
        row_names=["demand", "x", "y"],
        starts=[0, 2, 3, 4],
        columns=[0, 1, 0, 1],
        coefficients=[1.0, 1.0, 1.0, 1.0],
    )
    outcome = solve_linear(program)
    assert outcome.prices == pytest.approx([3.0, -1.0, 0.0])
    assert outcome.values == pytest.approx([1.0, 3.0])
    with pytest.raises(ValueError, match="without integer variables"):
        solve_linear(replace(program, integer=[True, False]))
