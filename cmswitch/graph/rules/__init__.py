"""One file per operator family, each with its ``RULES``: operator name -> rule. Nodes without a rule are refused."""

from __future__ import annotations

from cmswitch.graph.rules import (
    channels_last,
    elementwise,
    indexing,
    learners,
    matmul,
    movement,
    quantization,
    recurrent,
    reductions,
    resampling,
    signal,
    training,
    windows,
)
from cmswitch.graph.rules.rule import Mapped, Product, Rule, Vector, View
from cmswitch.graph.shapes import ML_DOMAIN

_FAMILIES: tuple[tuple[str, dict[str, Rule]], ...] = (
    *(("", family.RULES) for family in (windows, matmul, elementwise, reductions, movement, quantization)),
    *(("", family.RULES) for family in (resampling, indexing, signal, training)),
    *(("cmswitch", family.INTERNAL_RULES) for family in (channels_last, quantization, recurrent, windows)),
    (ML_DOMAIN, learners.RULES),
    (training.TRAINING_DOMAIN, training.TRAINING_RULES),
)

RULES: dict[tuple[str, str], Rule] = {
    (domain, operator): rule for domain, family in _FAMILIES for operator, rule in family.items()
}
"""Every rule by (domain, operator)."""

__all__ = ["RULES", "Mapped", "Product", "Rule", "Vector", "View"]
