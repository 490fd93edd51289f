"""One sweep over the nodes: unique ids, shapes with constants folded and composites replaced, no dead nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx import numpy_helper, shape_inference

from cmswitch.errors import InputError
from cmswitch.graph.check import check_well_formed
from cmswitch.graph.expand import EXPANSIONS, Part, function_parts
from cmswitch.graph.expand.control_flow import CONTROL_FLOW
from cmswitch.graph.fold import RANDOM, VALUES_READ, element_bits, folded, made_weight, tensor_data
from cmswitch.graph.infer.shapes import SHAPES
from cmswitch.graph.ir import ABSENT, Graph, Node, Shape, Unsupported, Value
from cmswitch.graph.names import unique_ids
from cmswitch.graph.read import network_inputs
from cmswitch.graph.rules import RULES
from cmswitch.graph.scopes import ordered, own_values, reads, size, subgraphs, write_plain_domains

MALFORMED = (TypeError, ValueError, KeyError, IndexError, ArithmeticError, onnx.checker.ValidationError)
"""What a node or constant that breaks its own definition makes ONNX and numpy raise."""


def infer(model: onnx.ModelProto, name: str) -> Graph:
    """The bound graph of ``model``. Raises InputError for a graph that has no order or contradicts its own shapes."""
    write_plain_domains(model)
    if model.functions:
        model = _inlined(model, name)
    check_well_formed(model, name)
    nodes = ordered(model.graph, name)
    state = _Inference(model, name)
    ids = unique_ids(nodes)
    for proto, identity in zip(nodes, ids, strict=True):
        state.sweep(Part(proto, version=None), identity)
    names = (value.name for value in model.graph.output)
    outputs = tuple(item for name in names for item in state.values.get(name, ABSENT).items or (name,))
    inputs = tuple(value.name for value in network_inputs(model.graph))
    return Graph(
        name,
        tuple(_live(state.found, outputs)),
        state.values,
        inputs,
        outputs,
        size(model.graph),
        state.makers,
        state.composites,
    )


def _inlined(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    try:
        return onnx.inliner.inline_local_functions(model)
    except (RuntimeError, *MALFORMED) as error:
        raise InputError(
            f"{name}: its functions cannot be expanded ({_first_line(error)}); export the model again without functions"
        ) from error


def _live(nodes: list[Node], outputs: tuple[str, ...]) -> list[Node]:
    """Nodes that an output depends on."""
    needed = set(outputs)
    kept = []
    for node in reversed(nodes):
        if any(value in needed for value in node.outputs if value):
            unread = frozenset(value for value in node.outputs if value not in needed)
            needed.update(value for value in node.inputs if value)
            kept.append(replace(node, unread=unread))
    return kept[::-1]


class _Inference:
    """One forward sweep over the nodes: shapes from ONNX's own inference, completed node by node as constants fold.

    ``found`` are the nodes that run, composite ones replaced by their parts; ``makers`` and ``composites`` as in ``Graph``.
    """

    def __init__(self, model: onnx.ModelProto, name: str) -> None:
        self.values: dict[str, Value] = {}
        self.found: list[Node] = []
        self.makers: dict[str, Node] = {}
        self.composites: dict[str, Node] = {}
        self._types: dict[str, onnx.TypeProto] = {}
        self._opsets = list(model.opset_import)
        self._versions = {entry.domain: entry.version for entry in model.opset_import}
        self._ir_version = model.ir_version
        self._file = own_values(model.graph) | {value for node in model.graph.node for value in node.output if value}
        try:
            inferred = shape_inference.infer_shapes(model).graph
        except (shape_inference.InferenceError, RuntimeError, *MALFORMED) as error:
            raise InputError(
                f"{name}: the shapes contradict each other ({_first_line(error)}); export the model again"
            ) from error
        for value in (*inferred.value_info, *inferred.output):
            self._types[value.name] = value.type
        for tensor in model.graph.initializer:
            try:
                self._constant(tensor.name, tuple(tensor.dims), tensor_data(tensor), tensor.data_type)
            except MALFORMED as error:
                raise InputError(
                    f"{name}: constant {tensor.name!r} is malformed ({_first_line(error)}); export the model again"
                ) from error
        for sparse in model.graph.sparse_initializer:
            self._constant(sparse.values.name, tuple(sparse.dims), None, sparse.values.data_type)
        for value in network_inputs(model.graph):
            self._types[value.name] = value.type
            self.values[value.name] = Value(
                _shape(value.type), sources=frozenset({value.name}), dtype=_dtype(value.type)
            )

    def sweep(self, part: Part, identity: str) -> None:
        """Record what is known of the node's outputs, and the node or its parts in ``found`` unless they are constants."""
        proto = part.proto
        domain = proto.domain
        version = part.version or self._versions.get(domain, 1)
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
        before = len(self.found)
        inputs, outputs = tuple(proto.input), tuple(proto.output)
        node = Node(identity, proto.op_type, domain, version, attributes, inputs, outputs, self.values)
        try:
            expand = EXPANSIONS.get((domain, proto.op_type))
            self._refuse_graphs(proto, (domain, proto.op_type))
            runs = not self._visit(part, domain, version, attributes)
            if not runs and not (expand and any(self._shapeless(value) for value in proto.output)):
                self.makers.update(dict.fromkeys(outputs, node))
                return
            parts = expand(node) if expand else function_parts(node, proto, self._types)
            if parts is not None:
                self.composites[identity] = node
                for inner in parts:
                    self._refuse_shared_names(node, inner)
                    self.sweep(inner, f"{identity}#{inner.proto.name}")
                return
        except (Unsupported, *MALFORMED) as error:
            malformed = Unsupported(f"it is malformed ({_first_line(error)})", "export the model again")
            del self.found[before:]
            node = replace(node, refusal=error if isinstance(error, Unsupported) else malformed)
            sources = frozenset[str]().union(*(self.values[value].sources for value in reads(proto)))
            for value in filter(None, outputs):
                self.values.setdefault(value, Value(None, sources=sources))
        self.found.append(node)

    def _refuse_graphs(self, proto: onnx.NodeProto, kind: tuple[str, str]) -> None:
        """Raise Unsupported if an operator that would be mapped carries a graph and is no control flow."""
        if any(subgraphs(proto)) and (kind in RULES or kind in EXPANSIONS) and kind not in CONTROL_FLOW:
            raise Unsupported(
                "one of its attributes is a graph, which only control flow has", "leave the attribute out of the file"
            )

    def _refuse_shared_names(self, node: Node, part: Part) -> None:
        """Raise Unsupported if a value within the composite ``node`` would have the name of another one of the file."""
        shared = [value for value in part.proto.output if value in self._file and value not in node.outputs]
        if shared:
            raise Unsupported(
                f"a value within it would be called {shared[0]!r}, as another of the file is",
                "rename the value or the node",
            )

    def _visit(self, part: Part, domain: str, version: int, attributes: Mapping[str, Any]) -> bool:
        """Record what is known of the outputs; True if they are constants, so that the node never runs."""
        proto = part.proto
        given = [self.values[value] for value in reads(proto)]
        sources = frozenset[str]().union(*(value.sources for value in given))
        if part.items is not None:
            self.values[proto.output[0]] = Value(None, sources=sources, items=part.items)
            return True
        data = folded(domain, proto.op_type, self._inputs(proto), attributes)
        if data is not None:
            dtype = onnx.helper.np_dtype_to_tensor_dtype(data.dtype)
            self._constant(proto.output[0], data.shape, data, dtype, proto)
            return True
        for value, shape in zip(proto.output, part.shapes or (), strict=False):
            self._types[value] = onnx.helper.make_tensor_type_proto(self.values[proto.input[0]].dtype, shape)
        self._state(proto, domain, attributes)
        self._complete(proto, domain, version)
        read = given[: VALUES_READ.get(proto.op_type)]
        runs = not all(value.constant for value in read) or proto.op_type in RANDOM or any(subgraphs(proto))
        runs = runs or any(_is_sequence(self._types.get(value)) for value in proto.output)
        for value in filter(None, proto.output):
            kind = self._types.get(value, onnx.TypeProto())
            self.values[value] = Value(_shape(kind), sources=sources, dtype=_dtype(kind))
            if not runs or self._empty_piece(value, proto):
                weight, bits = made_weight(proto, value, _dtype(kind), _shape(kind), self.values)
                self.values[value] = replace(self.values[value], weight=weight, bits=bits)
        return not runs

    def _empty_piece(self, value: str, proto: onnx.NodeProto) -> bool:
        """Whether a node that makes several values puts nothing into this one and something into another."""
        counts = {made: prod(shape) for made in proto.output if (shape := _shape(self._types.get(made))) is not None}
        return counts.get(value) == 0 and any(counts.values())

    def _shapeless(self, value: str) -> bool:
        """Whether ``value`` is a constant whose shape only the parts of its node can tell."""
        return value != "" and self.values[value].constant and self.values[value].shape is None

    def _inputs(self, proto: onnx.NodeProto) -> list[Value]:
        """What is known of each input, up to the last that is given."""
        names = list(proto.input)
        while names and not names[-1]:
            names.pop()
        return [self.values[name] if name else ABSENT for name in names]

    def _state(self, proto: onnx.NodeProto, domain: str, attributes: Mapping[str, Any]) -> None:
        """Shapes that ONNX leaves open and that are known here."""
        given = self._inputs(proto)
        known = SHAPES.get((domain, proto.op_type))
        if known is None or any(value.shape is None for value in given):
            return
        for name, shape in zip(proto.output, known(given, attributes) or (), strict=False):
            dtype = _dtype(self._types.get(name)) or given[0].dtype
            self._types[name] = onnx.helper.make_tensor_type_proto(dtype, shape)

    def _complete(self, proto: onnx.NodeProto, domain: str, version: int) -> None:
        """Infer this node alone if the sweep over the whole file left an output without a full shape."""
        if all(_shape(self._types.get(value)) is not None for value in proto.output if value):
            return
        if any(value and self.values[value].shape is None for value in proto.input) or any(subgraphs(proto)):
            return
        types = {value: self._types[value] for value in proto.input if value}
        data = {
            value: numpy_helper.from_array(known, value)
            for value in proto.input
            if value and (known := self.values[value].data) is not None
        }
        try:
            schema = onnx.defs.get_schema(proto.op_type, version, domain)
        except onnx.defs.SchemaError:
            return
        try:
            opsets = [*(o for o in self._opsets if o.domain != domain), onnx.helper.make_opsetid(domain, version)]
            found = shape_inference.infer_node_outputs(
                schema, proto, types, data, opset_imports=opsets, ir_version=self._ir_version
            )
        except (shape_inference.InferenceError, RuntimeError) as error:
            raise Unsupported(
                f"it has no valid output shape ({_first_line(error)})", "check its sizes and the bound dimensions"
            ) from error
        self._types.update(found)

    def _constant(
        self,
        name: str,
        shape: Shape,
        data: np.ndarray[Any, Any] | None,
        dtype: int,
        maker: onnx.NodeProto | None = None,
    ) -> None:
        """Record a constant that the file stores, or that the node ``maker`` makes."""
        shape = tuple(int(size) for size in shape)
        weight, bits = made_weight(maker, name, dtype, shape, self.values) if maker else (name, element_bits(dtype))
        self.values[name] = Value(shape, weight, data, bits=bits, dtype=dtype)
        self._types[name] = onnx.helper.make_tensor_type_proto(dtype, shape)


def _shape(kind: onnx.TypeProto | None) -> Shape | None:
    """The shape of a tensor type if all of it is known."""
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return (
        tuple(dim.dim_value for dim in dims)
        if all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in dims)
        else None
    )


def _is_sequence(kind: onnx.TypeProto | None) -> bool:
    return kind is not None and kind.HasField("sequence_type")


def _dtype(kind: onnx.TypeProto | None) -> int:
    """The element type of a tensor type, 0 of any other."""
    return kind.tensor_type.elem_type if kind is not None and kind.HasField("tensor_type") else 0


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
