"""The constants of a network with their numbers: what files store, what follows from it, and weights as they are stored."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import numpy_helper

from cmswitch.functional.description import Call
from cmswitch.functional.errors import UnsupportedNode
from cmswitch.functional.formats import Array, Format
from cmswitch.functional.vector import Evaluator
from cmswitch.graph.fold import UNPACK
from cmswitch.graph.ir import Graph, Node

MOVING = frozenset({"Transpose", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Flatten", "Slice"})
"""Operators that move or pick elements of their first input without changing them."""

PACKED_INPUTS = 4
"""Inputs of MatMulNBits that say what its weight is: packed integers, scales, zero points, groups."""


def call_of(node: Node) -> Call:
    """The node as the evaluator takes it."""
    return Call(node.id, node.operator, node.domain, node.version, node.attributes, node.inputs, node.outputs)


def fill_weights(model: onnx.ModelProto, seed: int) -> None:
    """Give stored floats without data random numbers, the same for the same name, shape and seed.

    Matrices get a spread that keeps the size of what passes through them; vectors and scalars lie around 1.
    """
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or tensor.HasField("raw_data") or len(tensor.float_data):
            continue
        shape = tuple(tensor.dims)
        random = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
        if len(shape) > 1:
            inner = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
            data = random.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / inner))
        else:
            data = random.uniform(0.5, 1.5, shape).astype(np.float32)
        tensor.raw_data = np.asarray(data, np.float32).tobytes()


def take_weights(model: onnx.ModelProto) -> dict[str, Array]:
    """The numbers of all stored constants of a model, by name."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


class Constants:
    """Constants by value name, computed when they are first asked for."""

    def __init__(self, graph: Graph, stored: Mapping[str, Array], given: Mapping[str, float]) -> None:
        self._graph, self._given = graph, given
        self._known: dict[str, Array] = dict(stored)
        self._run = Evaluator({})

    def __getitem__(self, name: str) -> Array:
        """Raises UnsupportedNode if an operator that makes it cannot be run."""
        if name not in self._known:
            self._known[name] = self._made(name)
        return self._known[name]

    def _made(self, name: str) -> Array:
        value = self._graph.values[name]
        if value.data is not None:
            return value.data
        node = self._graph.makers.get(name)
        if node is None:
            if name in self._given and value.shape is not None:
                dtype = onnx.helper.tensor_dtype_to_np_dtype(value.dtype)
                return np.full(value.shape, self._given[name], dtype)
            raise UnsupportedNode(f"constant {name!r} has no numbers")
        if self._is_packed(node):
            return self._unpacked(node, name)
        made = self._run(call_of(node), {each: self[each] for each in node.inputs if each})
        self._known.update(made)
        return made[name]

    def _is_packed(self, node: Node) -> bool:
        """Whether a node dequantises a weight that the file packs into bytes for a product of its own."""
        source = self._graph.makers.get(node.inputs[0]) if node.operator == "DequantizeLinear" else None
        return source is not None and source.operator == UNPACK

    def _unpacked(self, node: Node, name: str) -> Array:
        """The weight ``name`` that ``node`` makes of packed bytes: the product of the identity with it."""
        product = next(each for each in self._graph.composites.values() if node.id.startswith(f"{each.id}#"))
        shape = self._graph.values[name].shape
        assert shape is not None
        packed = product.inputs[1 : 1 + PACKED_INPUTS]
        given = {each: self[each] for each in packed if each}
        attributes = {key: value for key, value in product.attributes.items() if key != "accuracy_level"}
        call = replace(call_of(product), inputs=("identity", *packed), attributes=attributes)
        made = self._run(call, {**given, "identity": np.eye(shape[0], dtype=np.float32)})
        return made[call.outputs[0]].reshape(shape)

    def stored_weight(self, name: str, bits: int) -> tuple[Array, Format] | None:
        """Codes and format of a weight that the file dequantises from integers of ``bits`` bits; None if it does not.

        Scale and zero point have the shape of the codes.
        """
        node = self._graph.makers.get(name)
        if node is None or self._is_packed(node):
            return None
        if node.operator == "DequantizeLinear":
            return self._dequantised(node, bits)
        if node.operator not in MOVING:
            return None
        source = self.stored_weight(node.inputs[0], bits)
        if source is None:
            return None
        codes, form = source
        rest = {each: self[each] for each in node.inputs[1:] if each}

        def moved(array: Array) -> Array:
            made = self._run(call_of(node), {**rest, node.inputs[0]: array.astype(np.float32)})
            return made[node.outputs[0]].astype(array.dtype)

        return moved(codes), Format(bits, moved(form.scale), moved(form.zero))

    def _dequantised(self, node: Node, bits: int) -> tuple[Array, Format] | None:
        integers, scale = self[node.inputs[0]], self[node.inputs[1]].astype(np.float32)
        zero = self[node.inputs[2]] if node.has(2) else np.zeros((), np.int64)
        if node.integer("block_size", 0) or "int" not in integers.dtype.name:
            return None
        lowest = 0 if "uint" in integers.dtype.name else -(2 ** (bits - 1))
        codes = integers.astype(np.int64) - lowest
        if codes.min(initial=0) < 0 or codes.max(initial=0) >= 2**bits:
            return None
        shape = [1] * integers.ndim
        if scale.size > 1:
            shape[node.integer("axis", 1) % integers.ndim] = scale.size
        scales = np.broadcast_to(scale.reshape(shape if scale.size > 1 else [1] * integers.ndim), integers.shape)
        zeros = zero.astype(np.int64)
        zeros = (
            np.broadcast_to(zeros.reshape(shape if zeros.size > 1 else [1] * integers.ndim), integers.shape) - lowest
        )
        return codes, Format(bits, scales, zeros)
