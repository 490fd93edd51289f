"""Quantised operators: their float form between DequantizeLinear and QuantizeLinear.

A weight so keeps its stored form and bits, and a network costs the same whether its file says QLinearConv or Conv between
the nodes that quantise. Zero points belong to dequantisation: they add no multiplication to a product.
"""

from __future__ import annotations

from math import ceil, prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from cmswitch.graph.expand.channels_last import windowed
from cmswitch.graph.expand.parts import EXPANSIONS, PARTS_VERSION, Expansion, Part, Parts
from cmswitch.graph.fold import UNPACK
from cmswitch.graph.ir import Node, Shape, Unsupported
from cmswitch.graph.table import INTERNAL, MICROSOFT
from cmswitch.naming import quantity

CHANNELS_LAST = "channels_last"


class _Quantized(Parts):
    """Parts of a quantised node, which speak of its inputs by number."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node

    def input(self, index: int) -> str:
        """Name of input ``index``, empty if it is left out."""
        return self.node.inputs[index] if self.node.has(index) else ""

    def real(self, index: int, scale: int | None = None, zero: int | None = None, **attributes: Any) -> str:
        """What input ``index`` stands for, given the inputs that hold its scale (None: 1) and its zero point."""
        factor = self.constant(1.0, np.float32) if scale is None else self.input(scale)
        offset = "" if zero is None else self.input(zero)
        return self.add("DequantizeLinear", self.input(index), factor, offset, **attributes)

    def ranged(self, index: int) -> str:
        """Input ``index``, a float, after it went through integers whose scale its own range decides."""
        names = [f"{self.node.id}#{part}" for part in ("integers", "scale", "zero")]
        quantise = helper.make_node("DynamicQuantizeLinear", [self.input(index)], names, name="quantize")
        self.list.append(Part(quantise))
        return self.add("DequantizeLinear", *names)

    def biased(self, value: str, index: int) -> str:
        """``value`` with the bias of input ``index``, if there is one."""
        return self.add("Add", value, self.input(index)) if self.node.has(index) else value

    def quantised(self, value: str, scale: int, zero: int) -> list[Part]:
        """All parts; the last makes the node's output from ``value``."""
        self.add("QuantizeLinear", value, self.input(scale), self.input(zero), output=self.node.outputs[0])
        return self.list

    def plain(self, value: str) -> list[Part]:
        """All parts; the last renames ``value`` to the node's output.

        An integer product's sums are the numbers themselves: that the file calls them int32 is no work.
        """
        self.add("Identity", value, output=self.node.outputs[0])
        return self.list

    def unpacked(self, index: int, scale: int, bits: int, shape: Shape) -> str:
        """The weight of ``shape`` that input ``index`` holds packed into bytes, with scales that are as wide as numbers are."""
        packed = self.node.value(index)
        if not packed.constant:
            raise Unsupported("its packed weight is computed at run time", "make it a constant of the file")
        if packed.shape is not None and prod(packed.shape) < ceil(prod(shape) * bits / 8):
            raise Unsupported(
                f"its packed weight has {quantity(prod(packed.shape), 'byte')}, too few for "
                f"{quantity(prod(shape), 'weight')} of {quantity(bits, 'bit')}",
                "export the model again",
            )
        integers = self.add(UNPACK, self.input(index), domain=INTERNAL, shape=shape, bits=bits)
        return self.add("DequantizeLinear", integers, self.input(scale))


@EXPANSIONS.of("QuantizeLinear", "DequantizeLinear", domain=MICROSOFT)
def quantize(node: Node) -> list[Part]:
    """QuantizeLinear and DequantizeLinear as com.microsoft had them first."""
    parts = Parts(node)
    parts.add(node.operator, *node.inputs, output=node.outputs[0], **node.attributes)
    return parts.list


@EXPANSIONS.of("DynamicQuantizeLinear")
def dynamic_quantize(node: Node) -> list[Part]:
    """DynamicQuantizeLinear: scale and zero point from the range of all elements, then quantisation."""
    parts = Parts(node)
    scale, zero = node.outputs[1], f"{node.id}#zero"
    found = helper.make_node("QuantizationRange", node.inputs, [scale, zero], name="range", domain=INTERNAL)
    parts.list.append(Part(found, 1, ((), ())))
    parts.add("Cast", zero, output=node.outputs[2], to=TensorProto.UINT8)
    parts.add("QuantizeLinear", node.inputs[0], scale, node.outputs[2], output=node.outputs[0])
    return parts.list


@EXPANSIONS.of("QLinearConv")
@EXPANSIONS.of("QLinearConv", domain=MICROSOFT)
def qlinear_convolution(node: Node) -> list[Part]:
    """QLinearConv; its bias has the scale of the accumulators."""
    parts = _Quantized(node)
    attributes = {name: value for name, value in node.attributes.items() if name != CHANNELS_LAST}
    given = [parts.real(0, 1, 2), parts.real(3, 4, 5, axis=0)]
    if node.has(8):
        given.append(parts.add("Cast", parts.input(8), to=TensorProto.FLOAT))
    last = bool(node.integer(CHANNELS_LAST, 0))
    return parts.quantised(windowed(parts, "Conv", given, [node.shape(0), node.shape(3)], last, attributes), 6, 7)


@EXPANSIONS.of("QLinearMatMul")
def qlinear_matmul(node: Node) -> list[Part]:
    """QLinearMatMul."""
    parts = _Quantized(node)
    return parts.quantised(parts.add("MatMul", parts.real(0, 1, 2), parts.real(3, 4, 5)), 6, 7)


@EXPANSIONS.of("QGemm", domain=MICROSOFT)
def qgemm(node: Node) -> list[Part]:
    """QGemm; without a scale of the output it is a float."""
    parts = _Quantized(node)
    given = [parts.real(0, 1, 2), parts.real(3, 4, 5)]
    if node.has(6):
        given.append(parts.add("Cast", parts.input(6), to=TensorProto.FLOAT))
    made = parts.add("Gemm", *given, **node.attributes)
    return parts.quantised(made, 7, 8) if node.has(7) else parts.plain(made)


@EXPANSIONS.of("ConvInteger", "MatMulInteger")
def integer_product(node: Node) -> list[Part]:
    """ConvInteger and MatMulInteger: products of integers less their zero points, as integers."""
    parts = _Quantized(node)
    operator = node.operator.removesuffix("Integer")
    made = parts.add(operator, parts.real(0, None, 2), parts.real(1, None, 3), **node.attributes)
    return parts.plain(made)


@EXPANSIONS.of("MatMulIntegerToFloat", domain=MICROSOFT)
def integer_to_float(node: Node) -> list[Part]:
    """MatMulIntegerToFloat."""
    parts = _Quantized(node)
    return parts.plain(parts.biased(parts.add("MatMul", parts.real(0, 2, 4), parts.real(1, 3, 5)), 6))


@EXPANSIONS.of("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_matmul(node: Node) -> list[Part]:
    """DynamicQuantizeMatMul: quantises its float matrix first."""
    parts = _Quantized(node)
    return parts.plain(parts.biased(parts.add("MatMul", parts.ranged(0), parts.real(1, 2, 3)), 4))


@EXPANSIONS.of("MatMulNBits", "MatMulBnb4", domain=MICROSOFT)
def packed_matmul(node: Node) -> list[Part]:
    """MatMulNBits and MatMulBnb4: a float matrix times a ``K`` x ``N`` weight of few bits, packed into bytes."""
    parts = _Quantized(node)
    weight = parts.unpacked(1, 2, node.integer("bits", 4), (node.integer("K", 0), node.integer("N", 0)))
    return parts.plain(parts.biased(parts.add("MatMul", parts.input(0), weight), 5))


@EXPANSIONS.of("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_lstm(node: Node) -> list[Part]:
    """DynamicQuantizeLSTM: an LSTM that quantises its input, with weights stored as integers and the gates as columns."""
    parts = _Quantized(node)
    weights = [
        parts.add("Transpose", parts.real(index, scale, scale + 1, axis=0), perm=[0, 2, 1])
        for index, scale in ((1, 8), (2, 10))
    ]
    given = [parts.ranged(0), *weights, *(parts.input(index) for index in range(3, 8))]
    lstm = helper.make_node("LSTM", given, node.outputs, name="lstm", **node.attributes)
    parts.list.append(Part(lstm))
    return parts.list


def _qlinear(operator: str, operands: int, first: int) -> Expansion:
    """``operator`` on inputs that come as (data, scale, zero point) from number ``first`` on, then those of the output."""

    def expand(node: Node) -> list[Part]:
        parts = _Quantized(node)
        given = [*node.inputs[:first], *(parts.real(i, i + 1, i + 2) for i in range(first, first + 3 * operands, 3))]
        end = first + 3 * operands
        return parts.quantised(parts.add(operator, *given, **node.attributes), end, end + 1)

    return expand


@EXPANSIONS.of("QLinearAveragePool", "QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_pooling(node: Node) -> list[Part]:
    """QLinearAveragePool and QLinearGlobalAveragePool."""
    parts = _Quantized(node)
    attributes = {name: value for name, value in node.attributes.items() if name != CHANNELS_LAST}
    operator, last = node.operator.removeprefix("QLinear"), bool(node.integer(CHANNELS_LAST, 0))
    made = windowed(parts, operator, [parts.real(0, 1, 2)], [node.shape(0)], last, attributes)
    return parts.quantised(made, 3, 4)


@EXPANSIONS.of("QLinearReduceMean", domain=MICROSOFT)
def qlinear_mean(node: Node) -> list[Part]:
    """QLinearReduceMean."""
    parts = _Quantized(node)
    axes = [parts.constant(node.integers("axes"))] if node.integers("axes") else []
    made = parts.add("ReduceMean", parts.real(0, 1, 2), *axes, keepdims=node.integer("keepdims", 1))
    return parts.quantised(made, 3, 4)


@EXPANSIONS.of("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(node: Node) -> list[Part]:
    """QLinearSoftmax; the axes it runs over depend on the operator set that it says it is of."""
    parts = _Quantized(node)
    version = node.integer("opset", PARTS_VERSION)
    axis = node.integer("axis", -1 if version >= 13 else 1)
    data, made = parts.real(0, 1, 2), f"{node.id}#softmax"
    parts.list.append(Part(helper.make_node("Softmax", [data], [made], name="softmax", axis=axis), version))
    return parts.quantised(made, 3, 4)


@EXPANSIONS.of("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node: Node) -> list[Part]:
    """QLinearConcat: scale and zero point of the output come first."""
    parts = _Quantized(node)
    given = [parts.real(i, i + 1, i + 2) for i in range(2, len(node.inputs), 3)]
    return parts.quantised(parts.add("Concat", *given, **node.attributes), 0, 1)


for _operator, _operands, _first in (
    ("Add", 2, 0),
    ("Mul", 2, 0),
    ("Where", 2, 1),
    ("Sigmoid", 1, 0),
    ("LeakyRelu", 1, 0),
):
    EXPANSIONS.of(f"QLinear{_operator}", domain=MICROSOFT)(_qlinear(_operator, _operands, _first))
