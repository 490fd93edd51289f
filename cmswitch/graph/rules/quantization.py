"""Quantisation of activations, and the internal operators that composites of quantised networks leave."""

from __future__ import annotations

from math import prod

from cmswitch.graph.ir import Node
from cmswitch.graph.rules.rule import RULES, Vector, broadcast
from cmswitch.graph.table import INTERNAL


@RULES.of("QuantizeLinear", "DequantizeLinear")
def quantization(node: Node) -> Vector:
    """QuantizeLinear, DequantizeLinear: one pass; scale and zero point, where they are computed, are needed whole."""
    return Vector("elementwise", node.output_elements(), ((broadcast(node.shape(0), node.output_shape()), {}, {}),))


@RULES.of("QuantizationRange", domain=INTERNAL)
def quantization_range(node: Node) -> Vector:
    """Scale and zero point from the smallest and the largest element: each is sought over all elements."""
    return Vector("reduce", 2 * prod(node.shape(0)), (({},),) * 2, columnwise=False)
