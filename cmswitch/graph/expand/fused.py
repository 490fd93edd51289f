"""Operators of com.microsoft that fuse a product, or a softmax, with a sum, a transposition or an activation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import helper

from cmswitch.graph.expand.channels_last import windowed
from cmswitch.graph.expand.parts import EXPANSIONS, PARTS_VERSION, Part, Parts
from cmswitch.graph.ir import Node, Unsupported
from cmswitch.graph.table import MICROSOFT

ACTIVATIONS = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}
"""Activations by name, and the names of their parameters in order."""

CLIP_VERSION = 6
"""Version of the standard operator set in which the limits of Clip are attributes."""


def _activated(parts: Parts, node: Node, value: str, parameters: Sequence[float]) -> list[Part]:
    """All parts; the last applies the node's activation to ``value``, if it has one."""
    name = node.attributes.get("activation", b"").decode() or "Identity"
    if name not in ACTIVATIONS and name != "Identity":
        raise Unsupported(f"no rule for its activation {name}", "save the model before its nodes are fused")
    given: dict[str, Any] = dict(zip(ACTIVATIONS.get(name, ()), parameters, strict=False))
    version = CLIP_VERSION if name == "Clip" else PARTS_VERSION
    proto = helper.make_node(name, [value], [node.outputs[0]], name="activation", **given)
    return [*parts.list, Part(proto, version)]


@EXPANSIONS.of("FusedConv", "NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def convolution(node: Node) -> list[Part]:
    """FusedConv, NhwcConv, NhwcFusedConv: a convolution, a fourth input added to it, an activation. Nhwc: channels last."""
    parts = Parts(node)
    attributes = {name: value for name, value in node.attributes.items() if not name.startswith("activation")}
    last = node.operator.startswith("Nhwc")
    made = windowed(parts, "Conv", node.inputs[:3], [node.shape(0), node.shape(1)], last, attributes)
    if node.has(3):
        made = parts.add("Add", made, node.inputs[3])
    return _activated(parts, node, made, node.attributes.get("activation_params", ()))


@EXPANSIONS.of("FusedGemm", domain=MICROSOFT)
def gemm(node: Node) -> list[Part]:
    """FusedGemm: a Gemm and an activation."""
    parts = Parts(node)
    attributes = {name: value for name, value in node.attributes.items() if not name.startswith("activation")}
    given = [
        node.attributes[f"activation_{name}"] for name in ("alpha", "beta") if f"activation_{name}" in node.attributes
    ]
    return _activated(parts, node, parts.add("Gemm", *node.inputs, **attributes), given)


@EXPANSIONS.of("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def matmul(node: Node) -> list[Part]:
    """FusedMatMul, TransposeMatMul: a product of transposed matrices. Constants are stored that way, and scaled."""
    if node.integer("transBatchA", 0) or node.integer("transBatchB", 0):
        raise Unsupported("it transposes batch axes", "save the model before its nodes are fused")
    parts, inputs = Parts(node), list(node.inputs[:2])
    alpha = float(node.attributes.get("alpha", 1))
    if alpha != 1 and not node.value(0).constant and not node.value(1).constant:
        inputs[0] = parts.add("Mul", inputs[0], parts.number(alpha, inputs[0]))
    for index, name in enumerate(("transA", "transB")):
        rank = len(node.shape(index))
        if node.integer(name, 0) and rank > 1:
            inputs[index] = parts.add("Transpose", inputs[index], perm=(*range(rank - 2), rank - 1, rank - 2))
    parts.add("MatMul", *inputs, output=node.outputs[0])
    return parts.list


@EXPANSIONS.of("BiasAdd", domain=MICROSOFT)
def sum_of_inputs(node: Node) -> list[Part]:
    """BiasAdd: a tensor, a bias along its last axis and a second tensor, added."""
    parts = Parts(node)
    parts.add("Add", parts.add("Add", *node.inputs[:2]), node.inputs[2], output=node.outputs[0])
    return parts.list


@EXPANSIONS.of("BiasSoftmax", domain=MICROSOFT)
def biased_softmax(node: Node) -> list[Part]:
    """BiasSoftmax: a bias, repeated as far as that is needed, is added before everything from ``axis`` on is normalised."""
    parts, shape, bias = Parts(node), node.shape(0), node.shape(1)
    axis = node.integer("axis", 1) % len(shape)
    missing = len(shape) - len(bias)
    added = node.inputs[1]
    if missing > 0 and node.integer("is_inner_broadcast", 1):
        leading = bias[: len(bias) - (len(shape) - axis)]
        added = parts.reshape(added, (*leading, *(1,) * missing, *shape[axis:]))
    total = parts.add("Add", node.inputs[0], added)
    parts.add("Softmax", total, output=node.outputs[0], axis=axis, version=11)
    return parts.list
