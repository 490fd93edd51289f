"""Operators that need a whole row or axis: reductions, softmax, normalisation."""

from __future__ import annotations

from math import prod

from cmswitch.graph.ir import Node
from cmswitch.graph.rules.rule import RULES, Vector, along, axis_of, broadcast
from cmswitch.graph.streams import SAME


@RULES.of(
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "ArgMax",
    "ArgMin",
)
def reduction(node: Node) -> Vector:
    """ReduceSum and its like, ArgMax, ArgMin: every input element is visited once."""
    data = node.shape(0)
    if node.operator.startswith("Arg"):
        axes: tuple[int, ...] = (node.integer("axis", 0),)
    else:
        given = node.integers("axes", 1)
        everything = () if node.integer("noop_with_empty_axes", 0) else tuple(range(len(data)))
        axes = given or everything
    gone = {axis_of(axis, len(data)) for axis in axes}
    kept = [axis for axis in range(len(data)) if axis not in gone]
    keep = node.integer("keepdims", 1)
    link = {(axis if keep else position): (axis, SAME) for position, axis in enumerate(kept)}
    return Vector("reduce", prod(data), ((link, {}),), columnwise=False)


@RULES.of("Softmax", "LogSoftmax", "Hardmax")
def softmax(node: Node) -> Vector:
    """Softmax, LogSoftmax, Hardmax over one axis (before opset 13: over all axes from ``axis`` on)."""
    data = node.shape(0)
    modern = node.version >= 13
    axis = axis_of(node.integer("axis", -1 if modern else 1), len(data))
    coupled = frozenset((axis,) if modern else range(axis, len(data)))
    return Vector("softmax", prod(data), ((broadcast(data, data, coupled),),), columnwise=False)


@RULES.of("LayerNormalization", "RMSNormalization")
def layer_normalization(node: Node) -> Vector:
    """LayerNormalization, RMSNormalization over all axes from ``axis`` on."""
    data = node.shape(0)
    coupled = frozenset(range(axis_of(node.integer("axis", -1), len(data)), len(data)))
    link = broadcast(data, data, coupled)
    return Vector("normalization", prod(data), ((link, {}, {}),) * len(node.outputs), columnwise=False)


@RULES.of("InstanceNormalization", "GroupNormalization")
def image_normalization(node: Node) -> Vector:
    """InstanceNormalization, GroupNormalization: each image needs all of its positions."""
    data = node.shape(0)
    return Vector("normalization", prod(data), (({0: (0, SAME)}, {}, {}),), columnwise=False)


@RULES.of("MeanVarianceNormalization")
def mean_variance(node: Node) -> Vector:
    """MeanVarianceNormalization over ``axes``."""
    data = node.shape(0)
    coupled = {axis_of(axis, len(data)) for axis in node.integers("axes") or (0, 2, 3)}
    link = along(axis for axis in range(len(data)) if axis not in coupled)
    return Vector("normalization", prod(data), ((link,),), columnwise=False)


@RULES.of("LpNormalization")
def lp_normalization(node: Node) -> Vector:
    """LpNormalization along one axis."""
    data = node.shape(0)
    coupled = frozenset({axis_of(node.integer("axis", -1), len(data))})
    return Vector("normalization", prod(data), ((broadcast(data, data, coupled),),), columnwise=False)
