"""Schedules against one another on random networks and chips, in simulation."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cmswitch.errors import InfeasibleError
from cmswitch.pipeline import Options, compile_network
from tests.differential.network_strategies import Case, cases


@settings(max_examples=60)
@given(case=cases(), gap=st.sampled_from([0.0, 0.05, 0.5]))
def test_dual_mode_is_never_slower_than_all_compute(case: Case, gap: float) -> None:
    def cycles(schedule: str) -> int:
        options = Options(schedule=schedule, solver="combinatorial", gap=gap)
        try:
            return compile_network(case.network, case.chip, options).timing.total_cycles
        except InfeasibleError:
            assume(False)
            raise

    assert cycles("dual-mode") <= cycles("all-compute")
