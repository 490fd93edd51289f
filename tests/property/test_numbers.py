"""Programs of random small networks on random chips compute exactly what the integer reference computes."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, seed, settings
from hypothesis import strategies as st

import hw
from cmswitch.errors import InfeasibleError
from tests.numeric import Drawing, compiled_case, layers

EXAMPLES = int(os.environ.get("CMSWITCH_NUMBER_EXAMPLES", "1000"))
"""Cases of a run of the tests; infeasible ones do not count."""
SHARDS = 8
"""Parts of them that run apart from each other, each with a seed of its own."""

PRESET = hw.load_chip("dynaplasia")
WIDE = 24
"""Bits of a converter that loses nothing on the largest array below."""


@st.composite
def chips(draw: st.DrawFn) -> hw.Chip:
    """Small chips of every binding, width of cells, inputs and weights, and limit of active rows."""
    rows = draw(st.sampled_from([3, 4, 8, 20]))
    return PRESET.with_changes(
        **{
            "arrays_per_core": draw(st.sampled_from([8, 12, 40])),
            "precision.weight_bits": draw(st.integers(2, 8)),
            "precision.input_bits": draw(st.sampled_from([1, 2, 3, 4, 7, 8, 8, 8])),
            "array.rows": rows,
            "array.columns": draw(st.sampled_from([8, 9, 16, 24])),
            "array.bits_per_cell": draw(st.sampled_from([1, 2, 3, 4])),
            "array.binding": draw(st.sampled_from(["columns", "arrays"])),
            "array.max_active_rows": draw(st.integers(1, rows)),
            "array.dac_bits": draw(st.integers(1, 3)),
            "array.adc_bits": WIDE,
            "buffer.capacity_bytes": draw(st.sampled_from([0, 64, 4096])),
            "main_memory.bandwidth": draw(st.sampled_from(["0.5", "8"])),
        }
    )


@pytest.mark.parametrize("shard", range(SHARDS))
def test_exact(shard: int) -> None:
    @seed(shard)
    @settings(
        max_examples=-(-EXAMPLES // SHARDS), deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(data=st.data(), chip=chips(), inputs=st.integers(0, 99))
    def check(data: st.DataObject, chip: hw.Chip, inputs: int) -> None:
        assert_exact(data, chip, inputs)

    check()


def assert_exact(data: st.DataObject, chip: hw.Chip, inputs: int) -> None:
    """Draw a network, compile it for ``chip`` and verify every operator on inputs of the seed ``inputs``."""
    drawing = Drawing(inputs)

    def choose(options: Any) -> Any:
        return data.draw(st.sampled_from(list(options)))

    model = drawing.model(*layers(choose, drawing))
    schedule = choose(["dual-mode", "dual-mode", "all-compute"])
    try:
        case = compiled_case(model, chip, schedule)
    except InfeasibleError:
        reject()
    sample = choose([None, None, None, 1, 3])
    found = case.verify(seed=inputs, adc=choose(["off", "clip"]), sample=sample)
    assert found.error is None
    assert found.operators
    assert [(o.name, o.status, o.integers, o.reason) for o in found.operators if o.status != "exact"] == []
    assert bool(found.outputs) == (sample is None)
