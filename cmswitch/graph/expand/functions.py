"""Operators that ONNX itself defines by simpler ones: expanded by that definition where nothing here says more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx.inliner

from cmswitch.graph.expand.parts import Part
from cmswitch.graph.ir import Node
from cmswitch.graph.rules import RULES
from cmswitch.graph.scopes import renamed


def function_parts(node: Node, proto: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> Sequence[Part] | None:
    """The nodes of ONNX's own definition of ``node``, which stands in the file as ``proto``; ``types`` are those of its inputs.

    None if it has a rule or no definition.
    """
    if (node.domain, node.operator) in RULES:
        return None
    try:
        schema: Any = onnx.defs.get_schema(node.operator, node.version, node.domain)
    except onnx.defs.SchemaError:
        return None
    call = onnx.NodeProto()
    call.CopyFrom(proto)
    call.attribute.extend(a.default_value for a in schema.attributes.values() if _unset(a, node))
    function = _function(schema, node, call, types)
    if function is None:
        return None
    versions: dict[str, int | None] = {entry.domain: entry.version for entry in function.opset_import}
    graph = _inlined(call, function)
    names = {value: f"{node.id}#{value}" for inner in graph.node for value in inner.output if value not in proto.output}
    parts = []
    for index, inner in enumerate(graph.node):
        part = renamed(inner, names)
        part.name = f"{part.op_type}_{index}"
        parts.append(Part(part, versions.get(part.domain)))
    return parts


def _function(
    schema: Any, node: Node, call: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]
) -> onnx.FunctionProto | None:
    """The definition for the version of the operator set that the node has, which may depend on its attributes and types."""
    fixed = [version for version in schema.function_opset_versions if version <= node.version]
    built = [version for version in schema.context_dependent_function_opset_versions if version <= node.version]
    if not fixed and not built:
        return None
    if fixed:
        found = schema.get_function_with_opset_version(max(fixed))
    else:
        given = [types.get(value, onnx.TypeProto()).SerializeToString() for value in node.inputs]
        found = schema.get_context_dependent_function_with_opset_version(max(built), call.SerializeToString(), given)
    function = onnx.FunctionProto()
    function.ParseFromString(found)
    function.domain, function.name = call.domain, call.op_type
    return function if function.node else None


def _unset(attribute: Any, node: Node) -> bool:
    """Whether the node leaves out an attribute of its schema that has a default."""
    return bool(attribute.default_value.name) and attribute.name not in node.attributes


def _inlined(call: onnx.NodeProto, function: onnx.FunctionProto) -> onnx.GraphProto:
    """A graph of the function's nodes, with the inputs, outputs and attributes of ``call``."""
    value = onnx.helper.make_empty_tensor_value_info
    graph = onnx.helper.make_graph(
        [call], "call", [value(name) for name in call.input if name], [value(name) for name in call.output if name]
    )
    model = onnx.helper.make_model(graph, opset_imports=function.opset_import, functions=[function])
    return onnx.inliner.inline_local_functions(model).graph
