"""The bound graph: shapes of all values, with constants folded and composites expanded on the way."""

from __future__ import annotations

from cmswitch.graph.infer.sweep import infer

__all__ = ["infer"]
