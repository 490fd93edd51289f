"""Small networks with numbers, compiled and verified in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import hw
from cmswitch import pipeline
from cmswitch.options import ModelOptions
from cmswitch.program.program import Program
from cmswitch.verification.numeric import Numeric
from cmswitch.verification.results import Verification
from cmswitch.verification.verify import Settings, verify

Array = np.ndarray[Any, Any]


class Drawing:
    """An ONNX graph under construction, with random weights."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.graph = onnx.GraphProto(name="drawn")

    def input(self, name: str, *shape: int) -> str:
        """A float input."""
        self.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def weight(self, *shape: int) -> str:
        """A random constant."""
        return self.constant(self.random.standard_normal(shape).astype(np.float32))

    def constant(self, array: Array) -> str:
        """A constant."""
        name = f"c{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node; its output is called like it."""
        return self.nodes(operator, 1, *inputs, **attributes)[0]

    def nodes(self, operator: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """A node of several outputs; the first is called like it."""
        name = f"{operator}{len(self.graph.node)}"
        made = [name, *(f"{name}.{number}" for number in range(1, outputs))]
        self.graph.node.append(helper.make_node(operator, list(inputs), made, name, **attributes))
        return made

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The finished model."""
        for name in outputs:
            self.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        return helper.make_model(
            self.graph,
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
            ir_version=8,
        )


@dataclass(frozen=True)
class Case:
    """A compiled network that can be verified again with another program."""

    numeric: Numeric
    chip: hw.Chip
    result: pipeline.Result

    def verify(self, program: Program | None = None, **settings: Any) -> Verification:
        """Verify ``program``, by default the compiled one."""
        network = self.result.workload.network
        return verify(self.numeric, program or self.result.program, network, self.chip, Settings(**settings))


def compiled_case(model: onnx.ModelProto, chip: hw.Chip, schedule: str = "dual-mode") -> Case:
    """Write, read and compile a model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.onnx"
        onnx.save(model, str(path))
        numeric = Numeric(ModelOptions(str(path)), 0)
    options = pipeline.Options(schedule=schedule, gap=0.3)
    return Case(numeric, chip, pipeline.compile_network(numeric.network, chip, options))


def layers(draw: Callable[[Sequence[Any]], Any], drawing: Drawing) -> list[str]:
    """A network of two or three products: convolutions, or matrix products with two activations among them."""
    return _images(draw, drawing) if draw([True, False]) else _matrices(draw, drawing)


def _images(draw: Callable[[Sequence[Any]], Any], drawing: Drawing) -> list[str]:
    channels, size = draw([2, 4]), draw([4, 5])
    data = drawing.input("image", draw([1, 2]), channels, size, size)
    if draw([True, False]):
        data = drawing.node("Relu", data)
    for _ in range(draw([1, 2])):
        groups = draw([1, 1, channels, *([2] if channels % 2 == 0 else [])])
        kernel = draw([1, 2, 3])
        outputs = groups * draw([1, 2, 3])
        given = [data, drawing.weight(outputs, channels // groups, kernel, kernel)]
        if draw([True, False]):
            given.append(drawing.weight(outputs))
        attributes = {"group": groups, "strides": [draw([1, 2])] * 2, "pads": [1, draw([0, 1]), 1, 1]}
        data, channels = drawing.node("Conv", *given, **attributes), outputs
        data = drawing.node(draw(["Relu", "Identity", "Sigmoid"]), data)
    match draw(["none", "add", "transposed", "dense"]):
        case "add":
            data = drawing.node("Add", data, drawing.node("Conv", data, drawing.weight(channels, channels, 1, 1)))
        case "transposed":
            weight = drawing.weight(channels, 2, 2, 2)
            data = drawing.node("ConvTranspose", data, weight, strides=[draw([1, 2])] * 2)
        case "dense":
            pooled = drawing.node("Flatten", drawing.node("GlobalAveragePool", data))
            data = drawing.node("Gemm", pooled, drawing.weight(3, channels), drawing.weight(3), transB=1, alpha=0.5)
    return [data]


def _matrices(draw: Callable[[Sequence[Any]], Any], drawing: Drawing) -> list[str]:
    rows, width, batch = draw([1, 3, 5]), draw([3, 6]), draw([1, 2])
    data = drawing.input("tokens", batch, rows, width)
    query = drawing.node("MatMul", data, drawing.weight(width, draw([width, width])))
    if draw([True, False]):
        query = drawing.node("Tanh", query)
    if draw([True, False]):
        key = drawing.node("Transpose", drawing.node("MatMul", data, drawing.weight(width, width)), perm=[0, 2, 1])
        scores = drawing.node("Softmax", drawing.node("MatMul", query, key), axis=-1)
        query = drawing.node("MatMul", scores, query)
    if draw([True, False]):
        query = drawing.node("MatMul", drawing.weight(2, rows), query)
    return [query]
