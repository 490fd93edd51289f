"""Operators that pick, place or order elements: by index tensors, by position, by value."""

from __future__ import annotations

from math import prod

from cmswitch.graph.ir import Node
from cmswitch.graph.network import HOST
from cmswitch.graph.rules.rule import RULES, Vector, along, axis_of
from cmswitch.graph.streams import SAME, Link


@RULES.of("GatherElements")
def gather_elements(node: Node) -> Vector:
    """GatherElements: one element for each index, at the index's position along all other axes."""
    indices = node.shape(1)
    axis = axis_of(node.integer("axis", 0), len(indices))
    everywhere = range(len(indices))
    return Vector("gather", prod(indices), ((along(a for a in everywhere if a != axis), along(everywhere)),), False)


@RULES.of("GatherND")
def gather_nd(node: Node) -> Vector:
    """GatherND: a slice of the data for each index tuple."""
    indices = node.shape(1)
    shared = along(range(node.integer("batch_dims", 0)))
    return Vector("gather", node.output_elements(), ((shared, along(range(len(indices) - 1))),), columnwise=False)


@RULES.of("Scatter", "ScatterElements")
def scatter(node: Node) -> Vector:
    """Scatter, ScatterElements: a copy of the data in which the updates replace elements along one axis."""
    data, updates = node.shape(0), node.shape(2)
    axis = axis_of(node.integer("axis", 0), len(data))
    placed = along(a for a in range(len(data)) if a != axis)
    return Vector("gather", prod(data) + prod(updates), ((along(range(len(data))), placed, placed),), columnwise=False)


@RULES.of("ScatterND", "TensorScatter")
def scatter_nd(node: Node) -> Vector:
    """ScatterND, TensorScatter: a copy of the data in which the updates replace slices at any position."""
    data = node.shape(0)
    updates = prod(node.shape(2 if node.operator == "ScatterND" else 1))
    return Vector("gather", prod(data) + updates, ((along(range(len(data))), {}, {}),), columnwise=False)


@RULES.of("Compress")
def compress(node: Node) -> Vector:
    """Compress with a constant condition: the slices that it selects."""
    return Vector("gather", node.output_elements(), (({}, {}),), columnwise=False)


@RULES.of("OneHot")
def one_hot(node: Node) -> Vector:
    """OneHot: as many elements as there are classes for each index."""
    out = node.output_shape()
    axis = axis_of(node.integer("axis", -1), len(out))
    indices: Link = {a: (a if a < axis else a - 1, SAME) for a in range(len(out)) if a != axis}
    return Vector("elementwise", prod(out), ((indices, {}, {}),), columnwise=False)


@RULES.of("ReverseSequence")
def reverse_sequence(node: Node) -> Vector:
    """ReverseSequence: the first elements along the time axis, as many as each sequence has, in reverse."""
    data = node.shape(0)
    time = axis_of(node.integer("time_axis", 0), len(data))
    return Vector("gather", prod(data), ((along(a for a in range(len(data)) if a != time), {}),), columnwise=False)


def array_feature_extractor(node: Node) -> Vector:
    """ArrayFeatureExtractor: the elements of the last axis that an index list names."""
    rank = len(node.shape(0))
    return Vector("gather", node.output_elements(), ((along(range(rank - 1)), {}),), columnwise=False)


@RULES.of("Trilu")
def triangle(node: Node) -> Vector:
    """Trilu: every element is kept or becomes zero."""
    data = node.shape(0)
    return Vector("elementwise", prod(data), ((along(range(len(data))), {}),))


@RULES.of("EyeLike", "ConstantOfShape")
def filled(node: Node) -> Vector:
    """EyeLike and other tensors that are written without reading more than a shape."""
    return Vector("copy", node.output_elements(), (({},) * len(node.inputs),), columnwise=False)


@RULES.of("CumSum", "CumProd")
def cumulative(node: Node) -> Vector:
    """CumSum, CumProd along one axis."""
    data = node.shape(0)
    axis = axis_of((node.integers("axis", 1) or (0,))[0], len(data))
    return Vector("reduce", prod(data), ((along(a for a in range(len(data)) if a != axis), {}),), columnwise=False)


@RULES.of("TopK")
def top_k(node: Node) -> Vector:
    """TopK: each row along the axis is sorted on the host, ``n log2 n`` comparisons."""
    data = node.shape(0)
    axis = axis_of(node.integer("axis", -1), len(data))
    node.output_shape(0 if node.makes(0) else 1)
    link = along(a for a in range(len(data)) if a != axis)
    compared = prod(data) * max(1, (data[axis] - 1).bit_length())
    return Vector(HOST, compared, ((link, {}),) * 2, columnwise=False)


@RULES.of("NonMaxSuppression")
def non_max_suppression(node: Node) -> Vector:
    """NonMaxSuppression on the host: the boxes of each class are sorted, and each that is kept is compared with all."""
    *_, boxes = node.shape(1)
    kept = node.output_shape()[0]
    compared = prod(node.shape(1)) * max(1, (boxes - 1).bit_length()) + kept * boxes
    return Vector(HOST, compared, (({},) * len(node.inputs),), columnwise=False)


@RULES.of(
    "NonZero",
    "Range",
    "Unique",
    "Multinomial",
    "ImageDecoder",
    "StringNormalizer",
    "StringSplit",
    "RegexFullMatch",
    "StringConcat",
    "TfIdfVectorizer",
)
def host(node: Node) -> Vector:
    """What only the host can do: every element that is read or written takes it once."""
    made = [index for index in range(len(node.outputs)) if node.makes(index)]
    read = sum(prod(node.shape(index)) for index in range(len(node.inputs)) if node.has(index))
    written = sum(node.output_elements(index) for index in made)
    return Vector(HOST, read + written, (({},) * len(node.inputs),) * len(node.outputs), columnwise=False)


@RULES.of("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli")
def host_elementwise(node: Node) -> Vector:
    """What the host does to every element alone: random choices, text, look-ups by value."""
    return Vector(HOST, node.output_elements(), ((along(range(len(node.output_shape()))),) * len(node.inputs),), False)
