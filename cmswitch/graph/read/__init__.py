"""A file as it is, without its weights, and the sizes of its symbolic dimensions."""

from __future__ import annotations

from cmswitch.graph.read.bind import bind, bind_values, network_inputs
from cmswitch.graph.read.load import drop_data, read_model

__all__ = ["bind", "bind_values", "drop_data", "network_inputs", "read_model"]
