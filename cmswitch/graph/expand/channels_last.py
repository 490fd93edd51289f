"""Convolution and pooling in parts, with the channels last where an operator of com.microsoft has them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper, shape_inference

from cmswitch.graph.expand.parts import PARTS_VERSION, Parts
from cmswitch.graph.ir import Shape, Unsupported
from cmswitch.graph.table import INTERNAL


def windowed(
    parts: Parts,
    operator: str,
    given: Sequence[str],
    shapes: Sequence[Shape],
    last: bool,
    attributes: Mapping[str, Any],
) -> str:
    """What ``operator`` makes of ``given``, the first of which have ``shapes``; ``last``: the channels are the last axis."""
    if not last:
        return parts.add(operator, *given, **attributes)
    data = shapes[0]
    named = {f"i{n}": shape for n, shape in enumerate([(data[0], data[-1], *data[1:-1]), *shapes[1:]])}
    out = _shape(operator, named, attributes)
    made = f"ChannelsLast{operator}"
    return parts.add(made, *given, domain=INTERNAL, shape=(out[0], *out[2:], out[1]), **attributes)


def _shape(operator: str, inputs: Mapping[str, Shape], attributes: Mapping[str, Any]) -> Shape:
    """Shape of the output with channels first."""
    proto = helper.make_node(operator, list(inputs), ["out"], **attributes)
    types = {name: helper.make_tensor_type_proto(TensorProto.FLOAT, shape) for name, shape in inputs.items()}
    try:
        found = shape_inference.infer_node_outputs(onnx.defs.get_schema(operator, PARTS_VERSION), proto, types)
    except (shape_inference.InferenceError, RuntimeError) as error:
        raise Unsupported(f"its shapes contradict each other ({error})", "export the model again") from error
    return tuple(dim.dim_value for dim in found["out"].tensor_type.shape.dim)
