"""ONNX files with subgraphs, and whether what they are replaced by computes the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import GraphProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from cmswitch.errors import InputError
from cmswitch.graph.infer import infer
from cmswitch.graph.ir import Graph
from cmswitch.graph.network import Network
from cmswitch.graph.table import INTERNAL
from tests.sketch import Sketch

OPSET = 21
FLOATS = np.random.default_rng(0).standard_normal


def sketch(folder: Path) -> Sketch:
    return Sketch(folder, opset=OPSET)


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def body(
    nodes: Sequence[NodeProto], outputs: str, inputs: str = "", constants: dict[str, np.ndarray[Any, Any]] | None = None
) -> GraphProto:
    values = [[helper.make_tensor_value_info(n, 1, None) for n in names.split()] for names in (inputs, outputs)]
    stored = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    return helper.make_graph(list(nodes), "body", values[0], values[1], stored)


def constant(s: Sketch, name: str, value: Any, kind: Any) -> str:
    s.graph.initializer.append(numpy_helper.from_array(np.array(value, kind), name))
    return name


def typed_input(s: Sketch, name: str, kind: int, *shape: int) -> str:
    s.graph.input.append(helper.make_tensor_value_info(name, kind, list(shape)))
    return name


def macs(network: Network) -> list[int]:
    return [o.product.macs for o in network.operators if o.product]


def agree(
    s: Sketch, *outputs: str, expected: Callable[..., Any] | None = None, operators: Sequence[type[OpRun]] = ()
) -> Graph:
    """The graph that ``s`` becomes, after checking that it computes what ONNX's reference, or ``expected``, computes.

    ``operators`` are the internal ones that the graph has.
    """
    s.load(*outputs)
    model = onnx.load(s.path)
    graph = infer(onnx.load(s.path), "sketch")
    data = {name: value.data for name, value in graph.values.items() if value.data is not None}
    written = helper.make_graph(
        [helper.make_node(n.operator, n.inputs, n.outputs, n.id, domain=n.domain, **n.attributes) for n in graph.nodes],
        "written",
        list(model.graph.input),
        list(model.graph.output),
        [numpy_helper.from_array(array, name) for name, array in data.items()],
    )
    feeds = {
        v.name: FLOATS([d.dim_value for d in v.type.tensor_type.shape.dim]).astype(np.float32)
        for v in model.graph.input
    }
    copy = helper.make_model(
        written, opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(INTERNAL, 1)], ir_version=10
    )
    wanted = expected(**feeds) if expected else ReferenceEvaluator(model).run(None, feeds)
    for found, right in zip(ReferenceEvaluator(copy, new_ops=list(operators)).run(None, feeds), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    return graph


def refusal(s: Sketch, *outputs: str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        s.load(*outputs, **options)
    return str(caught.value).splitlines()[-1].strip()
