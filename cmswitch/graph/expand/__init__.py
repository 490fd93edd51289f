"""Composite operators, one file per family: each node is replaced by the simpler nodes that it stands for."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from cmswitch.graph.expand.functions import function_parts
from cmswitch.graph.expand.parts import EXPANSIONS, Expansion, Part, Parts

for _family in iter_modules(__path__):
    import_module(f"{__name__}.{_family.name}")

__all__ = ["EXPANSIONS", "Expansion", "Part", "Parts", "function_parts"]
