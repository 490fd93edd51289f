"""Constants: what a file stores and what follows from it; which of them are the same weight."""

from __future__ import annotations

from cmswitch.graph.fold.folders import RANDOM, VALUES_READ, folded
from cmswitch.graph.fold.stored import LARGEST, tensor_data
from cmswitch.graph.fold.weights import UNPACK, element_bits, made_weight

__all__ = ["LARGEST", "RANDOM", "UNPACK", "VALUES_READ", "element_bits", "folded", "made_weight", "tensor_data"]
