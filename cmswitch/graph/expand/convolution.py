"""Convolutions that an array performs as another product: transposed (overlap-add) and deformable (sampled)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cmswitch.graph.expand.parts import EXPANSIONS, Part, Parts
from cmswitch.graph.ir import Node, Unsupported
from cmswitch.graph.table import INTERNAL


@EXPANSIONS.of("ConvTranspose")
def conv_transpose(node: Node) -> Sequence[Part]:
    """ConvTranspose: every input position is multiplied by the whole kernel, and the vector unit adds the overlapping windows.

    The arrays are used once per input position, so that no product has the zeros that a convolution over a dilated input
    would have.
    """
    data, weight, out = node.shape(0), node.shape(1), node.output_shape()
    rank = len(data) - 2
    if not 1 <= rank <= 3:
        raise Unsupported(f"{rank}-D transposed convolution", "use 1-D to 3-D convolutions")
    kernel, groups = weight[2:], node.integer("group", 1)
    strides, dilations = node.integers("strides") or (1,) * rank, node.integers("dilations") or (1,) * rank
    parts = Parts(node)
    columns = groups * prod(weight[1:])
    product = parts.add(
        "TransposedProduct",
        node.inputs[0],
        node.inputs[1],
        domain=INTERNAL,
        shape=(data[0], columns, *data[2:]),
        group=groups,
    )
    biased = node.has(2) and not node.value(2).constant
    added = parts.add(
        "OverlapAdd",
        product,
        output=None if biased else node.outputs[0],
        domain=INTERNAL,
        shape=out,
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        pads=_pads(node, strides, dilations),
    )
    if biased:
        bias = parts.reshape(node.inputs[2], (weight[1] * groups, *(1,) * rank))
        parts.add("Add", added, bias, output=node.outputs[0])
    return parts.list


def _pads(node: Node, strides: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """What is cut off before and after each spatial axis of the full result; of an odd total, the larger part before, unless
    ``auto_pad`` is SAME_UPPER."""
    data, kernel, out = node.shape(0)[2:], node.shape(1)[2:], node.output_shape()[2:]
    rank = len(data)
    mode = node.attributes.get("auto_pad", b"NOTSET").decode()
    if mode == "VALID" or (mode == "NOTSET" and not node.integers("output_shape")):
        return node.integers("pads") or (0,) * (2 * rank)
    extra = node.integers("output_padding") or (0,) * rank
    begin, end = [], []
    for i in range(rank):
        total = max(0, strides[i] * (data[i] - 1) + extra[i] + dilations[i] * (kernel[i] - 1) + 1 - out[i])
        begin.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
        end.append(total - begin[-1])
    return (*begin, *end)


@EXPANSIONS.of("DeformConv")
def deform_conv(node: Node) -> Sequence[Part]:
    """DeformConv: the vector unit samples the input at the computed offsets, and a convolution of one position follows."""
    data, weight, out = node.shape(0), node.shape(1), node.output_shape()
    rank, taps = len(data) - 2, prod(weight[2:])
    parts = Parts(node)
    places = [node.inputs[2], *([node.inputs[4]] if node.has(4) else [])]
    shape = (data[0], data[1] * taps, *out[2:])
    sampled = parts.add("Sample", node.inputs[0], *places, domain=INTERNAL, shape=shape)
    flat = parts.reshape(node.inputs[1], (weight[0], weight[1] * taps, *(1,) * rank))
    bias = [node.inputs[3]] if node.has(3) else []
    parts.add("Conv", sampled, flat, *bias, output=node.outputs[0], group=node.integer("group", 1))
    return parts.list
