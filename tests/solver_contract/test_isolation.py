"""A backend in a process of its own: the same answers, and a failure that stays there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyomo.environ as pyo
import pytest

from solvers import SolverFailure, Status, Termination, UnknownOption, Unsuitable, isolation, registry, solve
from tests.solver_contract.test_contract import BACKENDS, contradiction, interrupted_after, knapsack, market_split, slow

ROOT = Path(__file__).parents[2]
FAULTS = {
    "aborts": ("Aborts", "its process was killed by SIGABRT: assertion failed: basis"),
    "segfaults": ("Segfaults", "its process was killed by SIGSEGV"),
    "raises": ("Raises", "KeyError: 'row 17'"),
    "lies": ("Lies", "an incumbent that is not feasible"),
    "gives-up": ("GivesUp", "gave up without a solution"),
}


@pytest.fixture(autouse=True)
def faulty_backends(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, (factory, _) in {**FAULTS, "hangs": ("Hangs", "")}.items():
        monkeypatch.setitem(registry.BACKENDS, name, registry.Backend("tests.solver_contract.faulty", factory, ()))
    monkeypatch.setattr(isolation, "OVERRUN_SECONDS", 1.0)
    yield
    isolation.close_idle()


@pytest.mark.parametrize("backend", BACKENDS)
def test_same_answer_as_in_this_process(backend: str) -> None:
    here, there = (solve(market_split(2, 10), backend, seed=1, isolated=isolated) for isolated in (False, True))
    assert (here.values, here.bound, here.nodes) == (there.values, there.bound, there.nodes)
    assert (here.termination, here.unsupported) == (there.termination, there.unsupported)
    assert there.cpu_seconds > 0 and there.attempts == ()


@pytest.mark.parametrize("backend", BACKENDS)
def test_stops_with_its_incumbent(backend: str) -> None:
    result = solve(slow(backend), backend, time_limit=60, isolated=True, should_stop=interrupted_after(5.0))
    assert (result.termination, result.status) == (Termination.INTERRUPTED, Status.FEASIBLE)
    assert result.wall_seconds < 30


def test_incumbents_conflicts_and_errors_cross_the_border() -> None:
    seen: list[float] = []
    result = solve(market_split(2, 10), "highs", isolated=True, on_incumbent=seen.append)
    assert seen and seen[-1] == result.objective
    explained = solve(contradiction(), "highs", isolated=True, explain=True)
    assert explained.conflict is not None and explained.conflict.rows == ("most", "least")
    with pytest.raises(UnknownOption, match="did you mean 'mip_rel_gap'"):
        solve(knapsack(), "highs", isolated=True, options={"mip_rel_gp": 0.1})
    with pytest.raises(Unsuitable, match="more than 20,000 combinations"):
        solve(market_split(), "brute-force", isolated=True)


def test_the_process_is_kept_for_the_next_solve() -> None:
    solve(knapsack(), "highs", isolated=True)
    (first,) = isolation._idle
    solve(knapsack(), "cp-sat", isolated=True)
    assert isolation._idle == [first]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_next_backend_takes_over(fault: str) -> None:
    result = solve(knapsack(), [fault, "highs"], isolated=True)
    assert (result.status, result.solver) == (Status.OPTIMAL, "highs")
    (attempt,) = result.attempts
    assert attempt.solver == fault and FAULTS[fault][1] in attempt.reason


def test_an_overrun_is_ended_and_the_next_backend_takes_over() -> None:
    began = time.monotonic()
    result = solve(knapsack(), ["hangs", "highs"], time_limit=0.5, isolated=True)
    assert (result.status, result.solver) == (Status.OPTIMAL, "highs") and time.monotonic() - began < 30
    assert result.attempts[0].reason == "still running 1 s after its time limit; its process was ended"


def test_a_backend_that_does_not_stop_is_ended() -> None:
    began = time.monotonic()
    result = solve(knapsack(), ["hangs", "highs"], isolated=True, should_stop=lambda: time.monotonic() > began + 0.2)
    assert (result.termination, result.status, result.solver) == (Termination.INTERRUPTED, Status.NONE, "hangs")
    assert time.monotonic() - began < 10


def test_a_crash_without_a_successor_is_a_failure_that_names_all() -> None:
    with pytest.raises(SolverFailure, match="killed by SIGABRT"):
        solve(knapsack(), "aborts", isolated=True)
    with pytest.raises(SolverFailure, match=r"aborts: its process was killed by SIGABRT.*; segfaults: its process"):
        solve(knapsack(), ["aborts", "segfaults"], isolated=True)


def test_a_missing_backend_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.BACKENDS, "absent", registry.Backend("solvers.absent", "Absent", ("no_such_package",)))
    result = solve(knapsack(), ["absent", "brute-force"])
    assert result.solver == "brute-force" and "pip install no_such_package" in result.attempts[0].reason


def test_nothing_is_left_running() -> None:
    """The process that serves ends with the one that asked, however that ends."""
    script = (
        "import os; from tests.solver_contract.test_contract import knapsack; from solvers import isolation, solve\n"
        "solve(knapsack(), 'highs', isolated=True); print(isolation._idle[0]._process.pid, flush=True); os._exit(1)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"process {pid} is still there")


def test_a_model_that_cannot_be_sent_is_a_failure() -> None:
    """Backends that read the model itself get it pickled, which a function inside it prevents."""
    model = knapsack()
    model.half = pyo.Var(range(2), bounds=lambda _, i: (0, i))
    with pytest.raises(SolverFailure, match="cannot be sent to another process"):
        solve(model, "highs-pyomo", isolated=True)
    assert solve(model, ["highs-pyomo", "highs"], isolated=True).status is Status.OPTIMAL
