"""Networks: what they are, and how they are read from ONNX files or built by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cmswitch.graph.network import MatrixProduct, Need, Network, Operator, Read, Tensor, VectorWork, Write

__all__ = ["MatrixProduct", "Need", "Network", "Operator", "Read", "Tensor", "VectorWork", "Write", "load_network"]


def load_network(
    source: str | Path,
    dims: Mapping[str, int] | None = None,
    batch: int | None = None,
    seq: int | None = None,
    values: Mapping[str, float] | None = None,
) -> Network:
    """Import a network.

    ``source`` is the path of an ONNX file or ``zoo:NAME``. ``dims`` binds symbolic dimensions by name, ``batch`` and ``seq``
    those that stand for the batch and the sequence. ``values`` makes network inputs constants, all of whose elements have
    the given value: what follows from them, such as which branch an If takes, is decided at import. Weights are never
    read: only their shapes matter. Raises :class:`cmswitch.errors.InputError` for a file that cannot be read, an unbound
    dimension, or nodes that cannot be mapped (all of them in one message).
    """
    from cmswitch.graph.importer import import_network  # onnx takes long to import

    return import_network(source, dims or {}, batch, seq, values or {})
