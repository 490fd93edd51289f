"""Networks: what they are, and how they are read from ONNX files or built by name.

The folders are the steps of an import, in the order of ``importer.py``:

* ``read``: the file, or an entry of the ``zoo``, and the sizes of its symbolic dimensions
* ``check``: what contradicts itself, and what is not known at all
* ``infer``: one sweep over the nodes for their shapes, with what ``fold`` knows of constants and ``expand`` of composites
* ``assemble``: what the ``rules`` say of each node, fused into operators

An operator is supported where it has an entry in ``rules`` (what it is to the chip) or ``expand`` (the simpler nodes that it
stands for); ``fold`` and ``infer/shapes.py`` have further entries where its output is a constant or its shape is left open.
The files beside them are what the steps share: the bound graph (``ir.py``), the network, names, scopes, tables, streams.
"""

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
