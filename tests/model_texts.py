"""Models written as text (``onnx.parser``), with constants of ones, and what is asked of their networks."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, parser

from cmswitch.graph import MatrixProduct, Network, load_network

HEADER = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'


class Files:
    """Writes models and imports them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "model.onnx"

    def load(self, text: str, **constants: str) -> Network:
        """The network of the graph ``text``, whose ``constants`` (``int8[4,3]``) hold ones."""
        model = parser.parse_model(f"{HEADER} {text}")
        for name, kind in constants.items():
            element, dims = re.fullmatch(r"(\w+)(?:\[([\d,]+)\])?", kind).groups()  # type: ignore[union-attr]
            shape = [int(size) for size in dims.split(",")] if dims else []
            code = TensorProto.DataType.Value(element.upper())
            model.graph.initializer.append(helper.make_tensor(name, code, shape, [1] * prod(shape)))
        onnx.save(model, self.path)
        return load_network(self.path)

    def shapes(self) -> list[tuple[int, ...]]:
        """Output shapes that ONNX Runtime computes from ones."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.path, options)
        given = {}
        for value in onnx.load(self.path).graph.input:
            dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            given[value.name] = np.ones(dims, helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        return [found.shape for found in session.run(None, given)]


def products(network: Network) -> list[MatrixProduct]:
    return [operator.product for operator in network.operators if operator.product]


def work(network: Network) -> dict[str, int]:
    """Elements of vector work by kind, views left out."""
    found: dict[str, int] = {}
    for item in (item for operator in network.operators for item in operator.vector if item.kind != "view"):
        found[item.kind] = found.get(item.kind, 0) + item.elements
    return found
