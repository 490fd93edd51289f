"""Composite operators, one file per family: each node is replaced by the simpler nodes that it stands for."""

from __future__ import annotations

from cmswitch.graph.composites import (
    attention,
    control_flow,
    convolution,
    einsum,
    fused,
    learners,
    matmul,
    normalization,
    quantized,
    recurrent,
    rotary,
    sequences,
)
from cmswitch.graph.composites.functions import function_parts
from cmswitch.graph.composites.parts import INTERNAL_DOMAIN, Expansion, Part, Parts
from cmswitch.graph.shapes import ML_DOMAIN

EXPANSIONS: dict[tuple[str, str], Expansion] = {
    **{
        ("", operator): expand
        for family in (
            attention,
            control_flow,
            convolution,
            einsum,
            matmul,
            normalization,
            recurrent,
            rotary,
            sequences,
        )
        for operator, expand in family.EXPANSIONS.items()
    },
    **{
        ("com.microsoft", operator): expand
        for family in (attention, normalization, rotary)
        for operator, expand in family.MICROSOFT.items()
    },
    **fused.EXPANSIONS,
    **quantized.EXPANSIONS,
    **{(ML_DOMAIN, operator): expansion for operator, expansion in learners.ML_EXPANSIONS.items()},
}
"""Every expansion by (domain, operator)."""

CONTROL_FLOW = frozenset(("", operator) for operator in control_flow.EXPANSIONS)
"""Operators that carry graphs of their own."""

__all__ = ["CONTROL_FLOW", "EXPANSIONS", "INTERNAL_DOMAIN", "Expansion", "Part", "Parts", "function_parts"]
