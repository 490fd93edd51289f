"""Which operators of a file can be mapped in no form, whatever the sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from cmswitch.graph.expand import EXPANSIONS
from cmswitch.graph.names import title, unique_ids
from cmswitch.graph.rules import RULES
from cmswitch.graph.scopes import subgraphs


def unknown_operators(model: onnx.ModelProto) -> Iterator[str]:
    """A line for each node of ``model`` that would be refused as well once its inputs have sizes."""
    functions = {(function.domain, function.name) for function in model.functions}
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for identity, node in _nodes(model.graph, ""):
        domain = "" if node.domain == "ai.onnx" else node.domain
        kind = domain, node.op_type
        if (
            kind not in RULES
            and kind not in EXPANSIONS
            and kind not in functions
            and not _defined(node, domain, versions)
        ):
            yield (
                f"{title(identity, node.op_type, domain)}: no rule for this operator; "
                "express it with supported operators before export"
            )


def _nodes(graph: onnx.GraphProto, prefix: str) -> Iterator[tuple[str, onnx.NodeProto]]:
    for identity, node in zip(unique_ids(graph.node), graph.node, strict=True):
        yield prefix + identity, node
        for inner in subgraphs(node):
            yield from _nodes(inner, f"{prefix}{identity}#")


def _defined(node: onnx.NodeProto, domain: str, versions: dict[str, int]) -> bool:
    """Whether ONNX defines the operator by others."""
    if (domain, node.op_type) == ("", "Constant"):
        return True
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain)
    except (onnx.defs.SchemaError, TypeError):
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
