"""What a constant is as a weight: which stored data it is a view of, and how many bits the file gives each element."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

import onnx
from onnx import TensorProto

from cmswitch.graph.ir import Shape, Value

UNPACK = "UnpackBits"
"""Internal operator: a weight of attribute ``bits`` bits per element that is stored packed into bytes."""

# fmt: off
SAME_DATA = frozenset({
    "Identity", "Transpose", "Cast", "CastLike", "Reshape", "Flatten", "Squeeze", "Unsqueeze",
    "DequantizeLinear", "QuantizeLinear", UNPACK,
})
"""Operators whose constant result is the same stored weight in another form."""
# fmt: on

SCALING = frozenset({"Mul", "Div"})
OFFSETTING = frozenset({"Sub", "Add"})
"""What dequantises a weight if one operand is its quantised data and the other a scale or zero point, broadcast to it."""

SELECTING = frozenset({"Gather", "Slice", "Split", "Expand", "Tile", "Pad"})
"""Operators whose result holds elements of their first input, unchanged."""


def element_bits(kind: int) -> int | None:
    """Bits of an element of type ``kind`` if it is a quantised one: integers of at most 16 bits, floats below 16.

    None for all others, of which a chip holds a quantised form: wide floats, and integers that nobody stores weights in.
    """
    found = re.fullmatch(r"U?INT(2|4|8|16)|FLOAT([468])E.*", TensorProto.DataType.Name(kind))
    return int(found[1] or found[2]) if found else None


def made_weight(
    node: onnx.NodeProto, output: str, kind: int, shape: Shape | None, values: Mapping[str, Value]
) -> tuple[str, int | None]:
    """(name of the stored weight, bits of an element) of ``output``, which ``node`` makes from constants.

    ``kind`` and ``shape`` are those of the output. A view of a stored weight has its name, and its bits unless its own type
    has fewer: then it is another weight, named after both. A factor for all elements scales the product, not what is stored.
    """
    given = [values[value] for value in node.input if value]
    own = element_bits(kind)
    source = _source(node, given, shape)
    if source is None or source.weight is None:
        moved = given if node.op_type == "Concat" else given[:1] if node.op_type in SELECTING else []
        inherited = [value.bits for value in moved]
        known = [bits for bits in inherited if bits is not None]
        widest = max(known) if known and len(known) == len(inherited) else None
        return output, _fewer(own, widest)
    if node.op_type == UNPACK:
        return source.weight, next(a.i for a in node.attribute if a.name == "bits")
    bits = _fewer(own, source.bits)
    same = bits == source.bits
    return source.weight if same else f"{source.weight} as {TensorProto.DataType.Name(kind)}", bits


def _source(node: onnx.NodeProto, given: list[Value], shape: Shape | None) -> Value | None:
    """The input that the result is another form of."""
    if node.op_type in SAME_DATA and given:
        return given[0]
    if node.op_type in SCALING | OFFSETTING:
        whole = [value for value in given if value.shape == shape]
        factor = node.op_type in SCALING and any(value.shape is not None and prod(value.shape) == 1 for value in given)
        if len(whole) == 1 and (factor or whole[0].bits is not None):
            return whole[0]
    return None


def _fewer(first: int | None, second: int | None) -> int | None:
    return min((bits for bits in (first, second) if bits is not None), default=None)
