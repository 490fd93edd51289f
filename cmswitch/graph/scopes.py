"""Names within a graph and its subgraphs: the order of nodes, what a node reads, and renaming."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import onnx

from cmswitch.errors import InputError
from cmswitch.graph.names import called


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The bodies and branches that a node carries."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def size(graph: onnx.GraphProto) -> int:
    """Nodes of a graph and of its subgraphs."""
    return len(graph.node) + sum(size(inner) for node in graph.node for inner in subgraphs(node))


def write_plain_domains(model: onnx.ModelProto) -> None:
    """Give ONNX's own domain, which a file may also call ``ai.onnx``, its plain name throughout ``model``, in place."""
    for named in (*model.opset_import, *(entry for function in model.functions for entry in function.opset_import)):
        if named.domain == "ai.onnx":
            named.domain = ""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        if node.domain == "ai.onnx":
            node.domain = ""
        waiting.extend(inner for graph in subgraphs(node) for inner in graph.node)


def own_values(graph: onnx.GraphProto) -> set[str]:
    """Values that a graph has before any of its nodes runs."""
    stored = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    return stored | {value.name for value in graph.input}


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Values that a node depends on: its inputs, and what its subgraphs use of the scopes around them."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        defined = own_values(graph) | {value for inner in graph.node for value in inner.output}
        used = [value for inner in graph.node for value in reads(inner)] + [value.name for value in graph.output]
        yield from (value for value in dict.fromkeys(used) if value not in defined)


def ordered(graph: onnx.GraphProto, where: str, outer: Collection[str] = ()) -> list[onnx.NodeProto]:
    """Nodes in topological order, the graph's own where it is one; ``outer`` are values of the scopes around it.

    Raises InputError, which names ``where``, if there is no order.
    """
    defined = own_values(graph)
    waiting = [(node, set(reads(node))) for node in graph.node]
    found: list[onnx.NodeProto] = []
    while waiting:
        later = []
        for node, needed in waiting:
            if all(value in defined or value in outer for value in needed):
                defined.update(node.output)
                found.append(node)
            else:
                later.append((node, needed))
        if len(later) == len(waiting):
            made = {value for node, _ in later for value in node.output}
            lacking = [(node, sorted(needed - defined - set(outer))) for node, needed in later]
            unmade = [(node, [v for v in values if v not in made]) for node, values in lacking]
            listed = [(node, values) for node, values in unmade if values] or lacking[:1]  # else there are only cycles
            raise InputError.listing(
                where,
                [
                    f"{called(node)} reads {', '.join(map(repr, values))}, which nothing before it "
                    "produces (a cycle or a missing node); export the model again"
                    for node, values in listed
                ],
            )
        waiting = later
    return found


def renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of ``node`` that reads and makes values under their new ``names``, also within its subgraphs."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    _rename(copy, names)
    return copy


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    node.input[:] = [names.get(value, value) for value in node.input]
    node.output[:] = [names.get(value, value) for value in node.output]
    for graph in subgraphs(node):
        hidden = own_values(graph) | {value for inner in graph.node for value in inner.output}
        visible = {old: new for old, new in names.items() if old not in hidden}
        for inner in graph.node:
            _rename(inner, visible)
        for value in graph.output:
            value.name = visible.get(value.name, value.name)
