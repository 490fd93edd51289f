"""One file per operator family, whose rules stand in ``RULES`` once it is imported: what each node is to the chip."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from cmswitch.graph.rules.rule import RULES, Mapped, Product, Rule, Vector, View

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")

__all__ = ["RULES", "Mapped", "Product", "Rule", "Vector", "View"]
