"""Losses, which inference may report, and operators of training, which it has no use for."""

from __future__ import annotations

from math import prod

from cmswitch.graph.ir import Node
from cmswitch.graph.rules.rule import RULES, Vector, along, refusal
from cmswitch.graph.table import TRAINING


@RULES.of("SoftmaxCrossEntropyLoss")
def cross_entropy(node: Node) -> Vector:
    """SoftmaxCrossEntropyLoss over axis 1; the second output is the logarithm of the softmax."""
    scores = node.shape(0)
    shared = along((0,))
    loss = shared if node.attributes.get("reduction", b"mean") == b"none" else {}
    return Vector("softmax", prod(scores), ((loss, loss, {}), (shared, {}, {})), columnwise=False)


@RULES.of("NegativeLogLikelihoodLoss")
def likelihood(node: Node) -> Vector:
    """NegativeLogLikelihoodLoss: one score for each label, summed."""
    shared = along((0,)) if node.attributes.get("reduction", b"mean") == b"none" else {}
    return Vector("gather", prod(node.shape(1)), ((shared, shared, {}),), columnwise=False)


RULES.of("Adagrad", "Adam", "Gradient", "Momentum", domain=TRAINING)(
    refusal("it trains, and only inference is mapped", "export the model for inference")
)
