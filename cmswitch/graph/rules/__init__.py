"""One file per operator family, each with its ``RULES``: operator name -> rule. Nodes without a rule are refused."""

from __future__ import annotations

from cmswitch.graph.rules import (
    channels_last,
    elementwise,
    matmul,
    movement,
    quantization,
    recurrent,
    reductions,
    windows,
)
from cmswitch.graph.rules.rule import Mapped, Product, Rule, Vector, View

RULES: dict[tuple[str, str], Rule] = {
    ("", operator): rule
    for family in (windows, matmul, elementwise, reductions, movement, quantization)
    for operator, rule in family.RULES.items()
}
RULES |= {
    ("cmswitch", operator): rule
    for family in (channels_last, quantization, recurrent, windows)
    for operator, rule in family.INTERNAL_RULES.items()
}
"""Every rule by (domain, operator)."""

__all__ = ["RULES", "Mapped", "Product", "Rule", "Vector", "View"]
