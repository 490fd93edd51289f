"""Needs through reshapes, transpositions, slices and joins, checked by running the network on changed data.

For every product that streams the result of another one, whatever the producer makes after the chunks that chunk ``c`` waits
for is replaced by other numbers; the consumer's rows of chunk ``c`` must not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from cmswitch.graph.assemble import assemble
from cmswitch.graph.infer import infer
from cmswitch.graph.ir import Shape
from cmswitch.graph.network import MatrixProduct, Network
from tests.expanded import float_parts

Array = np.ndarray[Any, Any]


class Sketch:
    """A small model with random weights."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.graph = onnx.GraphProto(name="sketch")
        self.graph.input.append(helper.make_tensor_value_info("data", TensorProto.FLOAT, shape))
        self.random = np.random.default_rng(1)

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(self.random.normal(size=shape).astype(np.float32), name))
        return name

    def ints(self, *values: int) -> str:
        name = f"i{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def floats(self, *values: float) -> str:
        return self._stored(np.array(values, np.float32))

    def indices(self, values: Array) -> str:
        return self._stored(values)

    def _stored(self, values: Array) -> str:
        name = f"c{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator}{len(self.graph.node)}"
        self.graph.node.append(helper.make_node(operator, list(inputs), [name], name, **attributes))
        return name

    def expand(self, operator: str, inputs: Sequence[str], shapes: Sequence[Shape], **attributes: Any) -> str:
        """The parts of a composite node; ``shapes`` of its inputs and of its output."""
        name = f"{operator}{len(self.graph.node)}"
        proto = helper.make_node(operator, inputs, [name], name, **attributes)
        for part in float_parts(proto, dict(zip((*inputs, name), shapes, strict=True))):
            part.proto.name = part.proto.output[0]
            self.graph.node.append(part.proto)
        return name

    def model(self, output: str, opset: int = 17) -> onnx.ModelProto:
        self.graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, None))
        return helper.make_model(self.graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def attention(batch: int) -> onnx.ModelProto:
    s = Sketch((batch, 6, 8))
    data = s.add("MatMul", "data", s.weight(8, 8))

    def head(order: list[int]) -> str:
        split = s.add("Reshape", s.add("MatMul", data, s.weight(8, 8)), s.ints(0, 0, 2, 4))
        return s.add("Transpose", split, perm=order)

    query, key, value = head([0, 2, 1, 3]), head([0, 2, 3, 1]), head([0, 2, 1, 3])
    scores = s.add("Softmax", s.add("MatMul", query, key), axis=-1)
    mixed = s.add("Transpose", s.add("MatMul", scores, value), perm=[0, 2, 1, 3])
    joined = s.add("MatMul", s.add("Reshape", mixed, s.ints(0, 0, 8)), s.weight(8, 8))
    return s.model(s.add("MatMul", s.add("Add", joined, data), s.weight(8, 3)))


def patches(batch: int) -> onnx.ModelProto:
    """Convolution to tokens: the streaming axis is split from, and merged with, its columns; a token goes in front."""
    s = Sketch((batch, 2, 12, 9))
    data = s.add("Conv", "data", s.weight(4, 2, 3, 3), strides=[3, 3])
    tokens = s.add("Transpose", s.add("Reshape", data, s.ints(0, 4, 12)), perm=[0, 2, 1])
    tokens = s.add("Concat", s.weight(batch, 2, 4), tokens, axis=1)
    tokens = s.add("MatMul", tokens, s.weight(4, 6))
    back = s.add("Slice", tokens, s.ints(2), s.ints(14), s.ints(1), s.ints(1))
    image = s.add("Reshape", s.add("Transpose", back, perm=[0, 2, 1]), s.ints(0, 6, 4, 3))
    image = s.add("Conv", image, s.weight(5, 6, 3, 3), pads=[1, 1, 1, 1])
    return s.model(s.add("Gemm", s.add("Flatten", s.add("GlobalAveragePool", image)), s.weight(5, 3)))


def shuffle(batch: int) -> onnx.ModelProto:
    s = Sketch((batch, 4, 8, 5))
    data = s.add("Conv", "data", s.weight(6, 2, 1, 1), group=2)
    data = s.add(
        "Reshape",
        s.add("Transpose", s.add("Reshape", data, s.ints(0, 2, 3, 8, 5)), perm=[0, 2, 1, 3, 4]),
        s.ints(0, 6, 8, 5),
    )
    data = s.add("Conv", data, s.weight(6, 1, 3, 3), group=6, pads=[1, 1, 1, 1], strides=[2, 2])
    parts = s.add("Concat", data, s.add("Relu", data), axis=1)
    return s.model(s.add("Conv", parts, s.weight(2, 12, 2, 2), auto_pad="SAME_UPPER"))


def one_dimensional(batch: int) -> onnx.ModelProto:
    """More positions than chunks, then a stride; the chunks of producer and consumer do not line up."""
    s = Sketch((batch, 2, 700))
    data = s.add("Conv", "data", s.weight(3, 2, 5), pads=[2, 2])
    data = s.add("MaxPool", data, kernel_shape=[3], strides=[2], pads=[1, 1])
    data = s.add("Conv", data, s.weight(3, 3, 3), dilations=[2], pads=[2, 2])
    return s.model(s.add("MatMul", s.add("Transpose", data, perm=[0, 2, 1]), s.weight(3, 4)))


def volume(batch: int) -> onnx.ModelProto:
    s = Sketch((batch, 2, 5, 6, 4))
    data = s.add("Conv", "data", s.weight(3, 2, 3, 3, 3), pads=[1, 1, 1, 1, 1, 1])
    data = s.add("AveragePool", data, kernel_shape=[2, 2, 2], strides=[1, 2, 2])
    return s.model(s.add("Conv", data, s.weight(2, 3, 2, 2, 1)))


def sequence_reductions(batch: int) -> onnx.ModelProto:
    """What a token cannot see: a sum over tokens, a softmax over tokens, a reversed order."""
    s = Sketch((batch, 7, 4))
    data = s.add("MatMul", "data", s.weight(4, 4))
    total = s.add("ReduceMean", data, axes=[1], keepdims=1)
    weighted = s.add("Mul", s.add("Softmax", data, axis=1), s.add("Sub", data, total))
    turned = s.add("Slice", data, s.ints(-1), s.ints(-100), s.ints(1), s.ints(-1))
    left = s.add("MatMul", weighted, s.weight(4, 3))
    right = s.add("MatMul", turned, s.weight(4, 3))
    swapped = s.add("MatMul", s.weight(5, 7), s.add("Add", left, right))
    return s.model(s.add("MatMul", swapped, s.weight(3, 2)))


def constant_left(batch: int) -> onnx.ModelProto:
    s = Sketch((batch, 4, 6))
    data = s.add("MatMul", s.weight(5, 4), "data")
    data = s.add("MatMul", s.weight(3, 5), s.add("Relu", data))
    return s.model(s.add("MatMul", s.add("Transpose", data, perm=[0, 2, 1]), s.weight(3, 2)))


def grouped_attention(batch: int) -> onnx.ModelProto:
    """Four query heads on two key heads: the rows of a product are the queries of both heads of a group, token by token."""
    s = Sketch((batch, 6, 8))
    data = s.add("MatMul", "data", s.weight(8, 8))
    query, key, value = (s.add("MatMul", data, s.weight(8, width)) for width in (12, 6, 10))
    shapes = ((batch, 6, 12), (batch, 6, 6), (batch, 6, 10), (batch, 6, 20))
    mixed = s.expand("Attention", (query, key, value), shapes, q_num_heads=4, kv_num_heads=2, is_causal=1)
    return s.model(s.add("MatMul", mixed, s.weight(20, 3)), 21)


def heads_in_front(batch: int) -> onnx.ModelProto:
    """The same with the heads as an axis before the tokens: a product starts with all queries of one head."""
    s = Sketch((batch, 4, 6, 8))
    data = s.add("MatMul", "data", s.weight(8, 8))
    query = s.add("MatMul", data, s.weight(8, 3))
    half = s.add("Slice", data, s.ints(0), s.ints(2), s.ints(1))
    key, value = (s.add("MatMul", half, s.weight(8, 3)) for _ in range(2))
    shapes = ((batch, 4, 6, 3), (batch, 2, 6, 3), (batch, 2, 6, 3), (batch, 4, 6, 3))
    mixed = s.expand("Attention", (query, key, value), shapes)
    return s.model(s.add("MatMul", mixed, s.weight(3, 2)), 21)


def equations(batch: int) -> onnx.ModelProto:
    """Einsum with axes in place, merged, and with the streamed operand second."""
    s = Sketch((batch, 6, 8))
    data = s.add("MatMul", "data", s.weight(8, 8))
    split = s.add("Reshape", data, s.ints(0, 0, 2, 4))
    heads = s.expand(
        "Einsum", (split, s.weight(5, 4)), ((batch, 6, 2, 4), (5, 4), (batch, 6, 2, 5)), equation="bsnd,ed->bsne"
    )
    held = s.weight(3, 2, 5)
    joined = s.expand("Einsum", (held, heads), ((3, 2, 5), (batch, 6, 2, 5), (batch, 6, 3)), equation="ond,bsnd->bso")
    return s.model(s.add("MatMul", joined, s.weight(3, 2)), 21)


def overlapping_blocks(batch: int) -> onnx.ModelProto:
    """Columns that overlap in an image: an image row needs the positions of all windows over it."""
    s = Sketch((batch, 4, 12))
    columns = s.add("MatMul", s.weight(18, 4), "data")
    image = s.add("Col2Im", columns, s.ints(8, 7), s.ints(3, 3), strides=[2, 2], pads=[0, 0, 1, 0])
    return s.model(s.add("Conv", image, s.weight(3, 2, 2, 2)), 18)


def resized(batch: int) -> onnx.ModelProto:
    """Up and down by whole and by broken factors, by every way of finding the input position."""
    s = Sketch((batch, 2, 9, 4))

    def resize(data: str, *scales: float, **attributes: Any) -> str:
        made = s.add("Resize", data, "", s.floats(1, 1, *scales), **attributes)
        return s.add("Conv", made, s.weight(2, 2, 3, 1), pads=[1, 0, 1, 0])

    data = s.add("Conv", "data", s.weight(2, 2, 1, 1))
    data = resize(data, 2, 1, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    data = resize(data, 2, 1, mode="nearest")
    data = resize(data, 0.5, 1, mode="linear")
    data = resize(data, 1.5, 2, mode="linear", coordinate_transformation_mode="align_corners")
    return s.model(resize(data, 0.75, 0.5, mode="cubic", coordinate_transformation_mode="pytorch_half_pixel"))


def rearranged(batch: int) -> onnx.ModelProto:
    """Padding of every mode, a crop, blocks between depth and space, repetition."""
    s = Sketch((batch, 4, 8, 4))
    data = s.add("Conv", "data", s.weight(4, 4, 1, 1))
    for mode, pads in (("constant", (2, 0, 1, 0)), ("reflect", (3, 1, 2, 1)), ("edge", (2, 0, 3, 0))):
        padded = s.add("Pad", data, s.ints(0, 0, *pads[:2], 0, 0, *pads[2:]), mode=mode)
        data = s.add("Conv", s.add("Conv", padded, s.weight(4, 4, 1, 1)), s.weight(4, 4, 3, 1))
    data = s.add("Conv", s.add("Pad", data, s.ints(0, 0, -2, 0, 0, 0, 0, -2)), s.weight(4, 4, 1, 1))
    data = s.add("Conv", s.add("DepthToSpace", data, blocksize=2), s.weight(4, 1, 1, 1))
    data = s.add("Conv", s.add("SpaceToDepth", data, blocksize=2), s.weight(4, 16, 1, 1))
    return s.model(s.add("Conv", s.add("Tile", data, s.ints(1, 1, 1, 3)), s.weight(4, 4, 1, 1)))


def picked(batch: int) -> onnx.ModelProto:
    """Elements picked along the columns, triangles, running sums; then along the tokens, which couples them."""
    s = Sketch((batch, 7, 4))
    data = s.add("MatMul", "data", s.weight(4, 4))
    data = s.add("MatMul", s.add("Trilu", data), s.weight(4, 4))
    data = s.add("MatMul", s.add("CumSum", data, s.ints(2)), s.weight(4, 4))
    indices = s.indices(np.random.default_rng(3).integers(0, 4, (batch, 7, 4)))
    data = s.add("MatMul", s.add("GatherElements", data, indices, axis=2), s.weight(4, 4))
    replaced = s.add("ScatterElements", data, indices, s.weight(batch, 7, 4), axis=2, reduction="add")
    data = s.add("MatMul", replaced, s.weight(4, 4))
    data = s.add("MatMul", s.add("CumSum", data, s.ints(1), reverse=1), s.weight(4, 4))
    places = s.indices(np.random.default_rng(4).integers(0, 7, (batch, 7, 4)))
    return s.model(s.add("MatMul", s.add("GatherElements", data, places, axis=1), s.weight(4, 3)))


SKETCHES = (
    *(attention, patches, shuffle, one_dimensional, volume, sequence_reductions, constant_left),
    *(grouped_attention, heads_in_front, equations, overlapping_blocks),
    *(resized, rearranged, picked),
)


def by_rows(value: Array, product: MatrixProduct, node: onnx.NodeProto, constant: set[str]) -> Array:
    """``value`` of a product as [rows of one group, everything else], the rows in the order in which they are made."""
    if node.op_type == "Conv":
        value = np.moveaxis(value, 1, -1)
    elif node.input[0] in constant:
        value = np.swapaxes(value, -1, -2)
    if product.dynamic:
        value = np.moveaxis(value.reshape(product.groups, product.rows, -1), 0, -1)
    return value.reshape(product.rows, -1)


def after_rows(value: Array, first: int, product: MatrixProduct, node: onnx.NodeProto, constant: set[str]) -> Array:
    """``value`` with all rows from ``first`` on replaced by other numbers."""
    places = by_rows(np.arange(value.size).reshape(value.shape), product, node, constant)
    changed = value.reshape(-1).copy()
    changed[places[first:].reshape(-1)] += 17
    return changed.reshape(value.shape)


def run(model: onnx.ModelProto, outputs: Sequence[str], given: dict[str, Array]) -> list[Array]:
    """Values of ``outputs``; nodes whose output is ``given`` are replaced by it."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    kept = [node for node in part.graph.node if node.output[0] not in given]
    del part.graph.node[:], part.graph.output[:]
    part.graph.node.extend(kept)
    for name in given:
        if name != part.graph.input[0].name:
            part.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, given[name].shape))
    part.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in outputs)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    found: list[Array] = onnxruntime.InferenceSession(part.SerializeToString(), options).run(list(outputs), given)
    return found


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_later_chunks_do_not_matter(sketch: Callable[[int], onnx.ModelProto], batch: int) -> None:
    model = sketch(batch)
    network = assemble(infer(model, "sketch"))
    nodes = {node.name: node for node in model.graph.node}
    constant = {tensor.name for tensor in model.graph.initializer}
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    data = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    names = [operator.name for operator in network.operators]
    known = dict(zip(names, run(model, names, {"data": data}), strict=True))
    for operator in network.operators:
        (read,) = (read for read in operator.reads if read.role == "matrix")
        producer = network.tensors[read.tensor].producer
        if producer is None:
            continue
        source, target = network.operators[producer], operator
        assert source.product is not None and target.product is not None
        before = by_rows(known[target.name], target.product, nodes[target.name], constant)
        for chunk in range(0, target.chunks, max(1, target.chunks // 6)):
            first = read.need.chunks(chunk, source.chunks) * source.product.rows // source.chunks
            changed = after_rows(known[source.name], first, source.product, nodes[source.name], constant)
            (result,) = run(model, [target.name], {"data": data, source.name: changed})
            after = by_rows(result, target.product, nodes[target.name], constant)
            mine = slice(chunk * len(before) // target.chunks, (chunk + 1) * len(before) // target.chunks)
            np.testing.assert_allclose(after[mine], before[mine], rtol=1e-4, atol=1e-4)


def pipelined(network: Network) -> list[bool]:
    """For each matrix read of another operator's result, in order: whether it waits for less than everything."""
    return [
        read.need.chunks(0, network.operators[producer].chunks) < network.operators[producer].chunks
        for operator in network.operators
        for read in operator.reads
        if read.role == "matrix" and (producer := network.tensors[read.tensor].producer) is not None
    ]


def test_streams_are_not_lost_where_the_axis_only_moves() -> None:
    assert all(pipelined(assemble(infer(attention(1), "attention"))))
    assert pipelined(assemble(infer(patches(1), "patches"))) == [True, True, False]
    assert all(pipelined(assemble(infer(shuffle(2), "shuffle"))))
    assert all(pipelined(assemble(infer(one_dimensional(1), "one"))))
    assert all(pipelined(assemble(infer(volume(2), "volume"))))
    assert all(pipelined(assemble(infer(constant_left(1), "left"))))
    assert all(pipelined(assemble(infer(grouped_attention(1), "grouped"))))
    assert all(pipelined(assemble(infer(equations(2), "equations"))))
    assert all(pipelined(assemble(infer(overlapping_blocks(1), "blocks"))))
    assert all(pipelined(assemble(infer(resized(2), "resized"))))
    assert all(pipelined(assemble(infer(rearranged(2), "rearranged"))))
    assert pipelined(assemble(infer(picked(1), "picked"))) == [True, True, True, True, False, False]
    assert pipelined(assemble(infer(sequence_reductions(1), "sums"))) == [False, False, False, False]
