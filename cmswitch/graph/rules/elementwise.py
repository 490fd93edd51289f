"""Operators that compute each output element from the elements in its place: activations, arithmetic, comparisons."""

from __future__ import annotations

from cmswitch.graph.ir import Node
from cmswitch.graph.rules.rule import RULES, Vector, broadcast
from cmswitch.graph.streams import Link

# fmt: off
UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Clip", "Cos",
    "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu",
    "Log", "Mish", "Neg", "Not", "PRelu", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign",
    "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)
BINARY = (
    "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Mod", "Mul", "Or", "Pow", "Where", "Xor",
)
# fmt: on
GATED = ("SwiGLU",)
VARIADIC = ("Max", "Mean", "Min")
ADDITIVE = ("Add", "Sub", "Sum")


@RULES.of(*UNARY, *BINARY, *GATED, *VARIADIC, *ADDITIVE)
def elementwise(node: Node) -> Vector:
    """One pass per output element, one more for each further operand of a variadic operator and for a gate."""
    out = node.output_shape()
    kind = "add" if node.operator in ADDITIVE else "elementwise"
    variadic = node.operator in VARIADIC or node.operator == "Sum"
    passes = max(1, len(node.inputs) - 1) if variadic else 2 if node.operator in GATED else 1
    links = tuple(broadcast(node.shape(i), out) if node.has(i) else {} for i in range(len(node.inputs)))
    return Vector(kind, node.output_elements() * passes, (links,))


@RULES.of("BatchNormalization")
def batch_normalization(node: Node) -> Vector:
    """BatchNormalization that no convolution absorbs: a scale and a shift per channel; in training, of the batch itself."""
    out = node.output_shape()
    if any(node.makes(index) for index in range(1, len(node.outputs))):
        whole: tuple[Link, ...] = ({},) * len(node.inputs)
        return Vector("normalization", node.output_elements(), (whole,) * len(node.outputs), columnwise=False)
    links = (broadcast(node.shape(0), out), *({} for _ in node.inputs[1:]))
    return Vector("elementwise", node.output_elements(), (links,))
