"""The network of a bound graph: what the rules say of each node, fused into operators."""

from __future__ import annotations

from cmswitch.graph.assemble.operators import apply_rules, assemble

__all__ = ["apply_rules", "assemble"]
