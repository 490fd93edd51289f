"""What a compilation says about itself, whatever happens around the search."""

from __future__ import annotations

import time
from typing import Any

import pytest

from cmswitch.errors import InputError
from cmswitch.graph.network import Network, Operator, VectorWork
from cmswitch.pipeline import Options, compile_network
from cmswitch.segmentation.schedule import Found, find_plan
from cmswitch.simulator import Timing, simulate
from tests.unit.test_checker import CHAIN, CHIP


@pytest.fixture
def gap_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches end with a bound that is half of what they proved."""

    def half_proven(*given: Any) -> Found:
        found = find_plan(*given)
        return found.with_bound(found.bound / 2)

    monkeypatch.setattr("cmswitch.pipeline.find_plan", half_proven)


@pytest.mark.usefixtures("gap_stays")
@pytest.mark.parametrize("schedule", ["dual-mode", "all-compute"])
def test_what_comes_after_the_search_did_not_end_it(monkeypatch: pytest.MonkeyPatch, schedule: str) -> None:
    simulating: list[str] = []
    clock = time.monotonic

    def late(*given: Any) -> Timing:
        simulating.append("now")
        return simulate(*given)

    monkeypatch.setattr("cmswitch.pipeline.simulate", late)
    monkeypatch.setattr(time, "monotonic", lambda: clock() + (7200 if simulating else 0))
    options = Options(schedule=schedule, time_limit=3600)
    found = compile_network(CHAIN, CHIP, options, should_stop=lambda: bool(simulating))
    assert simulating
    assert (found.certificate.termination, found.certificate.status) == ("gap", "feasible")


@pytest.mark.usefixtures("gap_stays")
def test_what_ends_the_search_is_the_reason() -> None:
    stopped = compile_network(CHAIN, CHIP, Options(gap=0.0), should_stop=lambda: True)
    assert stopped.certificate.termination == "interrupted"
    late = compile_network(CHAIN, CHIP, Options(gap=0.0, time_limit=0.0), should_stop=lambda: True)
    assert late.certificate.termination == "time_limit"


def test_a_network_that_costs_nothing_by_the_equations() -> None:
    """They count no vector work, so that the plan of a network without products has no relative gap."""
    pool = Operator("pool", ("pool",), None, 4, (), (VectorWork("pool", "pool", 8),), ())
    found = compile_network(Network("pool", (pool,), (), 1), CHIP, Options(cost_model="eq10"))
    assert (found.certificate.objective_cycles, found.certificate.gap) == (0, 0.0)
    assert found.timing.total_cycles > 0


def test_unknown_weights_are_refused() -> None:
    with pytest.raises(InputError, match=r"unknown weights 'warm' \(choose from cold, resident\)"):
        Options(weights="warm")  # type: ignore[arg-type]
