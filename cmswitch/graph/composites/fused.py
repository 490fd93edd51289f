"""Products that com.microsoft fuses with a sum or an activation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import helper

from cmswitch.graph.composites.channels_last import windowed
from cmswitch.graph.composites.parts import PARTS_VERSION, Expansion, Part, Parts
from cmswitch.graph.ir import Node, Unsupported

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


def convolution(node: Node) -> list[Part]:
    """FusedConv, NhwcConv, NhwcFusedConv: a convolution, a fourth input added to it, an activation. Nhwc: channels last."""
    parts = Parts(node)
    attributes = {name: value for name, value in node.attributes.items() if not name.startswith("activation")}
    last = node.operator.startswith("Nhwc")
    made = windowed(parts, "Conv", node.inputs[:3], [node.shape(0), node.shape(1)], last, attributes)
    if node.has(3):
        made = parts.add("Add", made, node.inputs[3])
    return _activated(parts, node, made, node.attributes.get("activation_params", ()))


def gemm(node: Node) -> list[Part]:
    """FusedGemm: a Gemm and an activation."""
    parts = Parts(node)
    attributes = {name: value for name, value in node.attributes.items() if not name.startswith("activation")}
    given = [
        node.attributes[f"activation_{name}"] for name in ("alpha", "beta") if f"activation_{name}" in node.attributes
    ]
    return _activated(parts, node, parts.add("Gemm", *node.inputs, **attributes), given)


EXPANSIONS: dict[tuple[str, str], Expansion] = {
    ("com.microsoft", operator): expansion
    for operator, expansion in {
        "FusedConv": convolution,
        "NhwcConv": convolution,
        "NhwcFusedConv": convolution,
        "FusedGemm": gemm,
    }.items()
}
