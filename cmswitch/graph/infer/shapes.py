"""Output shapes that ONNX's own inference leaves open: where constants decide them, or bound what data decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cmswitch.graph.ir import Shape, Value
from cmswitch.graph.table import ML, Table

Shapes = Callable[[Sequence[Value], Mapping[str, Any]], Sequence[Shape] | None]
"""The shapes of the outputs, from the inputs (which all have one) and the attributes; None: ONNX knows better."""

SHAPES: Table[Shapes] = Table()
"""By (domain, operator)."""


@SHAPES.of("GroupNormalization", "MeanVarianceNormalization")
@SHAPES.of("CategoryMapper", "Imputer", "Normalizer", "Scaler", domain=ML)
def _like_first(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Sequence[Shape] | None:
    return None if inputs[0].shape is None else (inputs[0].shape,)


@SHAPES.of("MaxUnpool")
def _max_unpool(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Sequence[Shape] | None:
    """As its third input says."""
    if len(inputs) < 3 or inputs[2].data is None:
        return None
    return (tuple(int(size) for size in inputs[2].data),)


@SHAPES.of("NonMaxSuppression")
def _non_max_suppression(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Sequence[Shape] | None:
    """The most boxes that it may select, if that is a constant."""
    scores = inputs[1].shape
    if scores is None or len(inputs) < 3 or inputs[2].data is None:
        return None
    batch, classes, boxes = scores
    return ((batch * classes * min(boxes, int(inputs[2].data.reshape(-1)[0])), 3),)


@SHAPES.of("Compress")
def _compress(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Sequence[Shape] | None:
    """As many slices as a constant condition selects."""
    shape, condition = inputs[0].shape, inputs[1].data
    if shape is None or condition is None:
        return None
    count, axis = int(condition.astype(bool).sum()), attributes.get("axis")
    return ((count,) if axis is None else tuple(count if a == axis % len(shape) else s for a, s in enumerate(shape)),)


@SHAPES.of("FeatureVectorizer", domain=ML)
def _features(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Sequence[Shape] | None:
    shapes = [value.shape for value in inputs if value.shape is not None]
    return ((shapes[0][0], sum(shape[-1] for shape in shapes)),)


@SHAPES.of("SVMRegressor", domain=ML)
def _regression(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Sequence[Shape] | None:
    return None if not inputs[0].shape else ((inputs[0].shape[0], 1),)


@SHAPES.of("SVMClassifier", domain=ML)
def _classification(inputs: Sequence[Value], attributes: Mapping[str, Any]) -> Sequence[Shape] | None:
    """A label and a score for each class."""
    labels = attributes.get("classlabels_ints") or attributes.get("classlabels_strings") or ()
    return None if not inputs[0].shape else ((inputs[0].shape[0],), (inputs[0].shape[0], len(labels)))
