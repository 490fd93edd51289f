"""Normalisations and activations that com.microsoft fuses with additions before them."""

from __future__ import annotations

from collections.abc import Sequence

from cmswitch.graph.expand.parts import EXPANSIONS, Part, Parts
from cmswitch.graph.ir import Node, Shape, Unsupported
from cmswitch.graph.table import MICROSOFT


def _normalized(parts: Parts, node: Node, value: str, shape: Shape, scale: int, shift: int | None) -> None:
    """The last step: inputs ``scale`` and ``shift`` (None: RMS normalisation) are the numbers of the parameters."""
    given = [node.inputs[i] for i in (scale, shift) if i is not None and node.has(i)]
    operator = "RMSNormalization" if shift is None else "LayerNormalization"
    axis = node.integer("axis", -1)
    parts.add(operator, value, *given, version=23, shape=shape, output=node.outputs[0], axis=axis)


@EXPANSIONS.of("LayerNormalization")
@EXPANSIONS.of("LayerNormalization", domain=MICROSOFT)
def layer_normalization(node: Node) -> Sequence[Part] | None:
    """LayerNormalization of com.microsoft, and the one that came before the standard had it."""
    return None if not node.domain and node.version >= 17 else _plain(node, 2)


@EXPANSIONS.of("SimplifiedLayerNormalization")
@EXPANSIONS.of("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(node: Node) -> Sequence[Part]:
    """SimplifiedLayerNormalization: RMS normalisation."""
    return _plain(node, None)


def _plain(node: Node, shift: int | None) -> Sequence[Part]:
    if any(node.outputs[1:]):
        raise Unsupported("its statistics are outputs, which only training uses", "export the model for inference")
    parts = Parts(node)
    _normalized(parts, node, node.inputs[0], node.shape(0), 1, shift)
    return parts.list


@EXPANSIONS.of("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: Node) -> Sequence[Part]:
    """SkipLayerNormalization: input + skip (+ bias), normalised; the sum is an optional output."""
    return _skip(node, 3, 4)


@EXPANSIONS.of("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(node: Node) -> Sequence[Part]:
    """SkipSimplifiedLayerNormalization: the same with RMS normalisation."""
    return _skip(node, None, 3)


def _skip(node: Node, shift: int | None, bias: int) -> Sequence[Part]:
    if any(node.outputs[1:3]):
        raise Unsupported("its statistics are outputs, which only training uses", "export the model for inference")
    parts = Parts(node)
    biased = node.has(bias)
    total = parts.add("Add", node.inputs[0], node.inputs[1], output=None if biased else parts.output(3))
    if biased:
        total = parts.add("Add", total, node.inputs[bias], output=parts.output(3))
    _normalized(parts, node, total, node.shape(0), 2, shift)
    return parts.list


@EXPANSIONS.of("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(node: Node) -> Sequence[Part]:
    """EmbedLayerNormalization: the embeddings of word, position and segment, added and normalised."""
    parts = Parts(node)
    batch, length = node.shape(0)
    places = node.inputs[8] if node.has(8) else parts.count(length, (1, -1))
    total = parts.add("Gather", node.inputs[2], node.inputs[0])
    total = parts.add("Add", total, parts.add("Gather", node.inputs[3], places))
    if node.has(1) and node.has(4):
        total = parts.add("Add", total, parts.add("Gather", node.inputs[4], node.inputs[1]))
    if parts.output(2):
        total = parts.add("Identity", total, output=parts.output(2))
    _normalized(parts, node, total, (batch, length, node.shape(2)[1]), 5, 6)
    if parts.output(1):
        if node.has(7):
            parts.add("ReduceSum", node.inputs[7], parts.constant((1,)), keepdims=0, output=parts.output(1))
        else:
            parts.add("Constant", value_ints=[0] * batch, output=parts.output(1))
    return parts.list


@EXPANSIONS.of("Gelu", "FastGelu", "BiasGelu", domain=MICROSOFT)
def gelu(node: Node) -> Sequence[Part]:
    """Gelu, FastGelu and BiasGelu: an optional bias before one activation."""
    parts = Parts(node)
    value = node.inputs[0]
    if node.has(1):
        value = parts.add("Add", value, node.inputs[1])
    parts.add("Gelu", value, output=node.outputs[0], approximate="tanh" if node.operator == "FastGelu" else "none")
    return parts.list


@EXPANSIONS.of("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node) -> Sequence[Part]:
    """QuickGelu: x sigmoid(alpha x)."""
    parts = Parts(node)
    alpha = float(node.attributes.get("alpha", 1.702))
    slope = parts.add("Sigmoid", parts.add("Mul", node.inputs[0], parts.number(alpha, node.inputs[0])))
    parts.add("Mul", node.inputs[0], slope, output=node.outputs[0])
    return parts.list


@EXPANSIONS.of("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(node: Node) -> Sequence[Part]:
    """BiasSplitGelu: the first half of the last axis times the activation of the second, both after a bias."""
    parts = Parts(node)
    shape = node.shape(0)
    half = shape[-1] // 2
    left, right = parts.split(parts.add("Add", node.inputs[0], node.inputs[1]), len(shape) - 1, (half, half))
    parts.add("Mul", left, parts.add("Gelu", right), output=node.outputs[0])
    return parts.list
