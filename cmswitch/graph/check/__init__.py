"""What is wrong with a file whatever its shapes: contradictions, and operators that are not known."""

from __future__ import annotations

from cmswitch.graph.check.known import unknown_operators
from cmswitch.graph.check.wellformed import check_well_formed

__all__ = ["check_well_formed", "unknown_operators"]
