"""Refuse what contradicts itself before shapes do: values made twice, unknown domains, wrong inputs."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx.defs import OpSchema

from cmswitch.errors import InputError
from cmswitch.graph.names import called, quoted
from cmswitch.graph.read import network_inputs
from cmswitch.graph.scopes import own_values, subgraphs

AGAIN = "export the model again"
_SINGLE = OpSchema.FormalParameterOption.Single


def check_well_formed(model: onnx.ModelProto, name: str) -> None:
    """Raise InputError, naming every such node and value, if ``model`` (no functions, plain domains) is not well formed."""
    problems = [*_repeated(model.graph), *_missing_outputs(model.graph)]
    versions = {entry.domain: entry.version for entry in model.opset_import}
    newest = onnx.defs.onnx_opset_version()
    if versions.get("", 0) > newest:
        problems.append(
            f"operator set {versions['']} is newer than {newest}, the newest that the installed onnx {onnx.__version__} "
            "knows; upgrade onnx, or export the model for an earlier one"
        )
    for graph in _graphs(model.graph):
        for node in graph.node:
            problems += _node_problems(node, versions)
    if problems:
        raise InputError.listing(name, problems)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and its subgraphs."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _graphs(inner)


def _repeated(graph: onnx.GraphProto) -> Iterator[str]:
    makers: dict[str, str] = {}
    made = [(value.name, "a network input") for value in network_inputs(graph)]
    made += [(tensor.name, "a stored tensor") for tensor in graph.initializer]
    made += [(tensor.values.name, "a stored tensor") for tensor in graph.sparse_initializer]
    made += [(value, called(node)) for node in graph.node for value in node.output if value]
    for value, maker in made:
        if value in makers:
            yield (
                f"{quoted(value)} is made twice, by {makers[value]} and by {maker}; "
                f"each value needs a name of its own: {AGAIN}"
            )
        makers.setdefault(value, maker)


def _missing_outputs(graph: onnx.GraphProto) -> Iterator[str]:
    made = own_values(graph) | {value for node in graph.node for value in node.output}
    for value in graph.output:
        if value.name not in made:
            yield f"nothing makes the output {quoted(value.name)}; {AGAIN}"


def _node_problems(node: onnx.NodeProto, versions: dict[str, int]) -> Iterator[str]:
    domain = node.domain
    if domain not in versions:
        known = ", ".join(quoted(d or "ai.onnx") for d in versions)
        yield (
            f"{called(node)} is an operator of domain {quoted(domain or 'ai.onnx')}, "
            f"of which the file declares no version (it declares {known}); {AGAIN}"
        )
        return
    try:
        schema = onnx.defs.get_schema(node.op_type, versions[domain], domain)
    except (onnx.defs.SchemaError, TypeError):
        return
    given = list(node.input)
    while given and not given[-1]:
        given.pop()
    made = [value for value in node.output if value]
    for count, what, does, least, most in (
        (len(given), "inputs", "takes", schema.min_input, schema.max_input),
        (len(made), "outputs", "makes", 0, schema.max_output),
    ):
        if not least <= count <= most:
            span = f"at most {most}" if not least else f"{least}" if most == least else f"{least} to {most}"
            yield f"{called(node)} has {count} {what}, but {node.op_type} {does} {span}; {AGAIN}"
    for position, (value, parameter) in enumerate(zip(given, schema.inputs, strict=False)):
        if not value and parameter.option == _SINGLE:
            yield f"{called(node)} lacks input {position} ({parameter.name}); {AGAIN}"
    for attribute in node.attribute:
        taken = schema.attributes.get(attribute.name)
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
        if taken is not None and taken.type != getattr(OpSchema.AttrType, kind, None):
            yield (
                f"{called(node)}: attribute {attribute.name} is of type {kind}, "
                f"which {node.op_type} does not take; {AGAIN}"
            )
