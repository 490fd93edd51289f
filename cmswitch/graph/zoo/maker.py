"""A small writer of ONNX graphs whose weights have a shape and no data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

OPSET = 20
"""The operator set of every zoo network: the first with Gelu."""


class Maker:
    """Collects nodes, weights and inputs; every method that adds a node returns the name of its first output."""

    def __init__(self, name: str) -> None:
        self._graph = onnx.GraphProto(name=name)

    def input(self, name: str, shape: Sequence[int | str], integer: bool = False) -> str:
        """A network input; a text in ``shape`` is a symbolic dimension."""
        kind = TensorProto.INT64 if integer else TensorProto.FLOAT
        self._graph.input.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def weight(self, name: str, *shape: int) -> str:
        """A weight of ``shape`` without data."""
        self._graph.initializer.append(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape))
        return name

    def integers(self, name: str, *values: int) -> str:
        """A constant list of integers, for a shape."""
        self._graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def scalar(self, name: str, value: int) -> str:
        """A constant integer without axes, for an index."""
        self._graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [], [value]))
        return name

    def node(self, operator: str, name: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output, named like the node."""
        self._graph.node.append(helper.make_node(operator, list(inputs), [name], name, **attributes))
        return name

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The finished model."""
        for name in outputs:
            self._graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        return helper.make_model(self._graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
