"""Operators that move data without computing: views, transpositions, concatenation, slicing, gathering."""

from __future__ import annotations

from math import prod

import onnx

from cmswitch.graph.ir import Node
from cmswitch.graph.network import HOST
from cmswitch.graph.rules.rule import RULES, Vector, View, along, axis_of, broadcast, refusal
from cmswitch.graph.streams import SAME, Link, Window


@RULES.of("BitCast", "Flatten", "Identity", "OptionalGetElement", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze")
def view(node: Node) -> View:
    """Reshape and its like; also Identity, which computes nothing.

    Shape and Size are constants wherever their input's shape is known, so that here they can only be refused.
    """
    node.shape(0), node.output_shape()
    return View()


def _family(dtype: int) -> str:
    """What kind of number an element type is: conversions within a kind change only how wide the file stores it."""
    name = onnx.TensorProto.DataType.Name(dtype).lstrip("BU")
    return next(
        (kind for kind in ("FLOAT", "INT", "COMPLEX") if name.startswith(kind)), name.replace("DOUBLE", "FLOAT")
    )


@RULES.of("Cast", "CastLike")
def cast(node: Node) -> Vector | View:
    """Cast, CastLike: a view between types of one kind (activations have one width on a chip), else work on each element."""
    shape = node.output_shape()
    given, made = node.value(0).dtype, node.values[node.outputs[0]].dtype
    if given and _family(given) == _family(made):
        return View()
    return Vector("elementwise", prod(shape), ((along(range(len(shape))), {}),))


@RULES.of("Dropout")
def dropout(node: Node) -> Vector | View:
    """Dropout: nothing at inference, when its mask, if read, keeps everything; a random choice for each element in training."""
    link = along(range(len(node.shape(0))))
    mode = node.value(2).data
    if node.has(2) and (mode is None or mode.any()):
        return Vector(HOST, node.output_elements(), ((link, {}, {}),) * len(node.outputs), columnwise=False)
    if node.makes(1):
        return Vector("copy", 2 * prod(node.shape(0)), ((link, {}, {}),) * len(node.outputs))
    return View()


@RULES.of("Transpose")
def transpose(node: Node) -> Vector | View:
    """Transpose: a view if only axes of size 1 change places. Columns may move, but a share of them moves alone."""
    data = node.shape(0)
    order = node.integers("perm") or tuple(reversed(range(len(data))))
    large = [axis for axis in order if data[axis] != 1]
    if large == sorted(large):
        return View()
    link = {position: (axis, SAME) for position, axis in enumerate(order)}
    return Vector("copy", prod(data), ((link,),))


def _shifted(rank: int, axis: int, window: Window) -> Link:
    return {a: (a, window if a == axis else SAME) for a in range(rank)}


@RULES.of("Concat")
def concat(node: Node) -> Vector | View:
    """Concat: every part follows the output at its own offset. Of a single part it is a view."""
    if len(node.inputs) == 1:
        return View()
    out = node.output_shape()
    axis = axis_of(node.integer("axis", 1), len(out))
    links: list[Link] = []
    offset = 0
    for index in range(len(node.inputs)):
        links.append(_shifted(len(out), axis, Window(pad=offset)))
        offset += node.shape(index)[axis]
    return Vector("copy", prod(out), (tuple(links),), columnwise=False)


@RULES.of("Split")
def split(node: Node) -> Vector:
    """Split: each output is a slice of the input."""
    data = node.shape(0)
    axis = axis_of(node.integer("axis", 0), len(data))
    links: list[tuple[Link, ...]] = []
    offset = 0
    for index in range(len(node.outputs)):
        links.append((_shifted(len(data), axis, Window(pad=-offset)), {}))
        offset += node.output_shape(index)[axis] if node.outputs[index] else 0
    return Vector("copy", prod(data), tuple(links), columnwise=False)


@RULES.of("Slice")
def slice_(node: Node) -> Vector:
    """Slice: along a sliced axis output ``i`` reads input ``start + step i``; backwards it does not stream."""
    data, out = node.shape(0), node.output_shape()
    starts, axes, steps = node.integers("starts", 1), node.integers("axes", 3), node.integers("steps", 4)
    link: dict[int, tuple[int, Window]] = {axis: (axis, SAME) for axis in range(len(data))}
    for position, start in enumerate(starts or ()):
        axis = axis_of(axes[position], len(data)) if axes else position
        step = steps[position] if steps else 1
        first = min(max(axis_of(start, data[axis]), 0), data[axis])
        if step > 0:
            link[axis] = (axis, Window(stride=step, pad=-first))
        else:
            del link[axis]
    return Vector("copy", prod(out), ((link, {}, {}, {}, {}),), columnwise=False)


@RULES.of("Gather")
def gather(node: Node) -> Vector:
    """Gather along one axis, an embedding look-up for one: other axes of the data and all axes of the indices stream."""
    data, indices, out = node.shape(0), node.shape(1), node.output_shape()
    axis = axis_of(node.integer("axis", 0), len(data))
    table: Link = {(a if a < axis else a + len(indices) - 1): (a, SAME) for a in range(len(data)) if a != axis}
    picked: Link = {axis + a: (a, SAME) for a in range(len(indices))}
    return Vector("gather", prod(out), ((table, picked),), columnwise=False)


@RULES.of("Expand")
def expand(node: Node) -> Vector | View:
    """Expand: repeats axes of size 1; a view if it repeats nothing."""
    data, out = node.shape(0), node.output_shape()
    if prod(data) == prod(out):
        return View()
    return Vector("copy", prod(out), ((broadcast(data, out), {}),), columnwise=False)


RULES.of("Optional", "OptionalHasElement")(
    refusal("whether a value is there is decided at run time", "export the model without optional values")
)
