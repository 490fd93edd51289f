"""Linear models of the domain ai.onnx.ml: a product with the coefficients that their attributes hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from cmswitch.graph.expand.parts import EXPANSIONS, Part, Parts
from cmswitch.graph.ir import Node
from cmswitch.graph.table import ML

_TRANSFORMS = {"SOFTMAX": "Softmax", "SOFTMAX_ZERO": "Softmax", "LOGISTIC": "Sigmoid", "PROBIT": "Erf"}


def _scores(node: Node, parts: Parts, output: str | None) -> str:
    """The product, with what the attribute ``post_transform`` makes of it."""
    inner = node.shape(0)[-1]
    weight = parts.constant(np.reshape(node.attributes["coefficients"], (-1, inner)), np.float32)
    intercepts = node.attributes.get("intercepts")
    bias = () if intercepts is None else (parts.constant(intercepts, np.float32),)
    data = node.inputs[0]
    if node.value(0).dtype != TensorProto.FLOAT:
        data = parts.add("Cast", data, to=TensorProto.FLOAT)
    if len(node.shape(0)) == 1:
        data = parts.add("Unsqueeze", data, parts.constant([0]))
    transform = _TRANSFORMS.get(node.attributes.get("post_transform", b"NONE").decode())
    made = parts.add("Gemm", data, weight, *bias, output=None if transform else output, transB=1)
    return parts.add(transform, made, output=output) if transform else made


@EXPANSIONS.of("LinearRegressor", domain=ML)
def regressor(node: Node) -> Sequence[Part]:
    """LinearRegressor."""
    parts = Parts(node)
    _scores(node, parts, node.outputs[0])
    return parts.list


@EXPANSIONS.of("LinearClassifier", domain=ML)
def classifier(node: Node) -> Sequence[Part]:
    """LinearClassifier: the label of the largest score, and the scores; one row of coefficients scores two labels."""
    parts = Parts(node)
    text = "classlabels_strings" in node.attributes
    labels = node.attributes["classlabels_strings" if text else "classlabels_ints"]
    single = len(labels) == 2 and len(node.attributes["coefficients"]) == node.shape(0)[-1]
    given = node.outputs[1] if len(node.outputs) > 1 and node.outputs[1] else None
    scores = _scores(node, parts, None if single else given)
    if single:
        scores = parts.add("Concat", parts.add("Neg", scores), scores, output=given, axis=1)
    if node.outputs[0]:
        best = parts.add("ArgMax", scores, axis=1, keepdims=0)
        table = parts.constant(labels, np.object_ if text else np.int64)
        parts.add("Gather", table, best, output=node.outputs[0])
    return parts.list
