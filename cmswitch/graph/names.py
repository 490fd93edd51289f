"""What nodes and values are called: unique ids, and how messages speak of them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

LONGEST = 80
"""Characters of a name that messages show: files may contain names of any length."""


def unique_ids(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    """A name for every node: its own if it is the first to use it, else one like ``Conv_12`` from its place.

    No node is called what another one is called in the file, and control characters are escaped.
    """
    named = [(node, _printable(node.name)) for node in nodes]
    own = {name for _, name in named}
    taken: set[str] = set()
    ids = []
    for index, (node, name) in enumerate(named):
        if not name or name in taken:
            name = f"{_printable(node.op_type)}_{index}"
            while name in taken or name in own:
                name += "_"
        taken.add(name)
        ids.append(name)
    return ids


def _printable(name: str) -> str:
    return name if name.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)


def quoted(name: str) -> str:
    """A name in a message."""
    return repr(name if len(name) <= LONGEST else name[:LONGEST] + "...")


def called(node: onnx.NodeProto) -> str:
    """A node of a file within a sentence, by its name or, if it has none, its operator."""
    return f"node {quoted(node.name or node.op_type)}"


def title(identity: str, operator: str, domain: str, version: int | None = None) -> str:
    """What a line about one node begins with, as ``conv1: Conv (ai.onnx 17)``."""
    place = domain or "ai.onnx"
    return f"{identity}: {operator} ({place if version is None else f'{place} {version}'})"
