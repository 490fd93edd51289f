"""Gemm where more than the product is left to do at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cmswitch.graph.expand.parts import EXPANSIONS, Part, Parts
from cmswitch.graph.ir import Node


@EXPANSIONS.of("Gemm")
def gemm(node: Node) -> Sequence[Part] | None:
    """Gemm: scaling activations, and transposing one that the arrays hold, is vector work; constants are stored that way."""
    attributes: dict[str, Any] = {name: node.integer(name, 0) for name in ("transA", "transB")}
    factors: dict[str, Any] = {name: float(node.attributes.get(name, 1)) for name in ("alpha", "beta")}
    parts = Parts(node)
    inputs = list(node.inputs)

    def scaled(index: int, name: str) -> None:
        if factors[name] != 1:
            inputs[index] = parts.add("Mul", inputs[index], parts.number(factors[name], inputs[index]))
            factors[name] = 1.0

    if not node.value(0).constant and not node.value(1).constant:
        scaled(0, "alpha")
        if attributes["transB"]:
            inputs[1] = parts.add("Transpose", inputs[1], perm=[1, 0])
            attributes["transB"] = 0
    if node.has(2) and not node.value(2).constant:
        scaled(2, "beta")
    if not parts.list:
        return None
    parts.add("Gemm", *inputs, output=node.outputs[0], **attributes, **factors)
    return parts.list
