"""Operators that need a whole row or axis: reductions, softmax, normalisation."""

from __future__ import annotations

from math import prod

from cmswitch.graph.ir import Node
from cmswitch.graph.rules.rule import Rule, Vector, along, axis_of, broadcast
from cmswitch.graph.streams import SAME


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


def softmax(node: Node) -> Vector:
    """Softmax, LogSoftmax, Hardmax over one axis (before opset 13: over all axes from ``axis`` on)."""
    data = node.shape(0)
    modern = node.version >= 13
    axis = axis_of(node.integer("axis", -1 if modern else 1), len(data))
    coupled = frozenset((axis,) if modern else range(axis, len(data)))
    return Vector("softmax", prod(data), ((broadcast(data, data, coupled),),), columnwise=False)


def layer_normalization(node: Node) -> Vector:
    """LayerNormalization, RMSNormalization over all axes from ``axis`` on."""
    data = node.shape(0)
    coupled = frozenset(range(axis_of(node.integer("axis", -1), len(data)), len(data)))
    link = broadcast(data, data, coupled)
    return Vector("normalization", prod(data), ((link, {}, {}),) * len(node.outputs), columnwise=False)


def image_normalization(node: Node) -> Vector:
    """InstanceNormalization, GroupNormalization: each image needs all of its positions."""
    data = node.shape(0)
    return Vector("normalization", prod(data), (({0: (0, SAME)}, {}, {}),), columnwise=False)


def mean_variance(node: Node) -> Vector:
    """MeanVarianceNormalization over ``axes``."""
    data = node.shape(0)
    coupled = {axis_of(axis, len(data)) for axis in node.integers("axes") or (0, 2, 3)}
    link = along(axis for axis in range(len(data)) if axis not in coupled)
    return Vector("normalization", prod(data), ((link,),), columnwise=False)


def lp_normalization(node: Node) -> Vector:
    """LpNormalization along one axis."""
    data = node.shape(0)
    coupled = frozenset({axis_of(node.integer("axis", -1), len(data))})
    return Vector("normalization", prod(data), ((broadcast(data, data, coupled),),), columnwise=False)


# fmt: off
REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin",
)
# fmt: on

RULES: dict[str, Rule] = {
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), softmax),
    "LayerNormalization": layer_normalization,
    "RMSNormalization": layer_normalization,
    "InstanceNormalization": image_normalization,
    "GroupNormalization": image_normalization,
    "MeanVarianceNormalization": mean_variance,
    "LpNormalization": lp_normalization,
}
