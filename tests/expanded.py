"""Runs the parts of a composite node and the node itself on the same numbers, or on those of ONNX's own test cases."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.backend.test.case import node as backend

from cmswitch.graph.expand import EXPANSIONS, Part
from cmswitch.graph.ir import Node, Shape, Value

Array = np.ndarray[Any, Any]


def parts_of(proto: onnx.NodeProto, values: Mapping[str, Value], version: int) -> list[Part]:
    """The parts that ``proto`` is replaced by; ``values`` are what is known of its inputs and outputs."""
    attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
    inputs, outputs = tuple(proto.input), tuple(proto.output)
    node = Node(proto.name, proto.op_type, proto.domain, version, attributes, inputs, outputs, values)
    parts = EXPANSIONS[proto.domain, proto.op_type](node)
    assert parts is not None
    return list(parts)


def float_parts(proto: onnx.NodeProto, shapes: Mapping[str, Shape], version: int = 21) -> list[Part]:
    """The parts of a node whose inputs and outputs are floats of ``shapes``."""
    return parts_of(
        proto, {name: Value(shape, dtype=onnx.TensorProto.FLOAT) for name, shape in shapes.items()}, version
    )


def run(
    nodes: Sequence[onnx.NodeProto], given: Mapping[str, Array], outputs: Sequence[str], version: int
) -> list[Array]:
    """Values of ``outputs``."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(nodes, "run", inputs, made)
    opsets = [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found: list[Array] = session.run(list(outputs), dict(given))
    return found


def check_numbers(
    proto: onnx.NodeProto, given: Mapping[str, Array], version: int = 23, wanted: Sequence[Array] | None = None
) -> list[Part]:
    """The parts make what the node makes, which is ``wanted`` or what onnxruntime makes; returns the parts."""
    outputs = [name for name in proto.output if name]
    if wanted is None:
        wanted = run([proto], given, outputs, version)
    arrays = {**given, **dict(zip(outputs, wanted, strict=True))}
    values = {n: Value(a.shape, dtype=helper.np_dtype_to_tensor_dtype(a.dtype)) for n, a in arrays.items()}
    parts = parts_of(proto, values, version)
    for ours, theirs in zip(run([part.proto for part in parts], given, outputs, version), wanted, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4)
    return parts


def numbered(*arrays: Array | None) -> tuple[list[str], dict[str, Array]]:
    """Input names of a node ("" for None) and what they stand for."""
    names = ["" if array is None else f"i{index}" for index, array in enumerate(arrays)]
    return names, {name: array for name, array in zip(names, arrays, strict=True) if array is not None}


@dataclass(frozen=True)
class BackendCase:
    """One of ONNX's own test cases of a single node, with its numbers."""

    name: str
    model: onnx.ModelProto
    given: Mapping[str, Array]
    wanted: Sequence[Array]

    @property
    def node(self) -> onnx.NodeProto:
        node: onnx.NodeProto = self.model.graph.node[0]
        return node

    def shape(self, place: int) -> Shape:
        """Shape of input number ``place`` of those that are given."""
        return tuple(list(self.given.values())[place].shape)

    def save(self, folder: Path) -> Path:
        path = folder / f"{self.name}.onnx"
        onnx.save(self.model, path)
        return path


def backend_cases(operator: str, module: str | None = None) -> list[BackendCase]:
    """ONNX's test cases of one node of ``operator``, which are in ``module``."""
    importlib.import_module(f"onnx.backend.test.case.node.{module or operator.lower()}")
    found = []
    for case in backend._NodeTestCases:
        if case.model is not None and [node.op_type for node in case.model.graph.node] == [operator]:
            inputs, outputs = case.data_sets[0]
            given = dict(zip((value.name for value in case.model.graph.input), inputs, strict=True))
            found.append(BackendCase(case.name, case.model, given, outputs))
    return found
