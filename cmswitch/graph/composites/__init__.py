"""Composite operators, one file per family: each node is replaced by the simpler nodes that it stands for."""

from __future__ import annotations

from cmswitch.graph.composites import control_flow, recurrent, sequences
from cmswitch.graph.composites.parts import INTERNAL_DOMAIN, Expansion, Part, Parts

EXPANSIONS: dict[tuple[str, str], Expansion] = {
    **{
        ("", operator): expand
        for family in (control_flow, recurrent, sequences)
        for operator, expand in family.EXPANSIONS.items()
    },
}
"""Every expansion by (domain, operator)."""

__all__ = ["EXPANSIONS", "INTERNAL_DOMAIN", "Expansion", "Part", "Parts"]
