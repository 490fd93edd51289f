"""Trained networks on numbers: every product equals the integer reference, and the outputs resemble those on floats.

The networks are those of ``models.json`` in the folder that ``CMSWITCH_MODELS`` names, without those whose weights are
all the same number, which show nothing.
"""

from __future__ import annotations

import pytest

import hw
from cmswitch import pipeline
from cmswitch.options import ModelOptions
from cmswitch.verification.numeric import Numeric
from cmswitch.verification.verify import Settings, verify
from tests.integration.test_models import MODELS, SHIPPED_PREFIX, Model

TRAINED = [model for model in MODELS if not model.name.startswith(SHIPPED_PREFIX)]
LEAST_COSINE = 0.9
FINDS_NOTHING = {"rapidocr_onnxruntime__ch_PP-OCRv4_det_infer": 0.01}
"""A detector of text on noise: the largest error of probabilities that are all below 0.001, of which the angle says nothing.

What moves them is one scale for all channels of an activation of 8 bits. On a page of text the cosine is 0.87, and 0.98 with
activations of 12 bits; weights of 12 bits (0.87) and ranges by percentile (0.88) do not help."""
LARGEST_IMPORT_ERROR = 5e-3
"""Of nodes one by one against onnxruntime on the file, relative: onnxruntime's quantised LSTM quantises its state as well."""

CHIPS = {"dynaplasia": hw.load_chip("dynaplasia").with_changes(arrays_per_core=128), "prime": hw.load_chip("prime")}
"""DynaPlasia with arrays for a recurrent layer of 512 states."""


@pytest.mark.parametrize("schedule", ["dual-mode", "all-compute"])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("model", TRAINED, ids=lambda model: model.name)
def test_trained_network_is_exact(model: Model, chip: str, schedule: str) -> None:
    options = ModelOptions(str(model.path()), model.dims(), values=dict(model.values))
    numeric = Numeric(options, 0)
    chosen = pipeline.Options(schedule=schedule, gap=0.3, time_limit=1)
    result = pipeline.compile_network(numeric.network, CHIPS[chip], chosen)
    found = verify(numeric, result.program, result.workload.network, CHIPS[chip], Settings())
    assert found.error is None
    products = [o for o in found.operators if o.product]
    assert [(o.name, o.status) for o in found.operators if o.status != "exact"] == []
    assert len(products) == sum(o.product is not None for o in result.workload.network.operators)
    assert found.float_error is not None and found.float_error < LARGEST_IMPORT_ERROR
    if model.name in FINDS_NOTHING:
        assert max(o.largest for o in found.outputs) < FINDS_NOTHING[model.name]
    else:
        assert min(o.cosine for o in found.outputs) > LEAST_COSINE
