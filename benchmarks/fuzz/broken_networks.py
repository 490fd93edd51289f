"""Networks that are wrong, or right and odd: changes to nodes, attributes, stored tensors, shapes, types and versions."""

from __future__ import annotations

import random
from collections.abc import Callable

import onnx
from onnx import AttributeProto, TensorProto, helper

NUMBERS = (-(2**63), -(2**31), -100, -2, -1, 0, 1, 2, 3, 5, 16, 1000, 2**16, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)
NAMES = ("", "nowhere", "x", "y", "a b", "é\u2028", "n" * 10_000, "../../etc/passwd", "%s{}", "-1")
OPERATORS = (
    *(
        "Conv",
        "MatMul",
        "Gemm",
        "Add",
        "Reshape",
        "Transpose",
        "Softmax",
        "Concat",
        "Split",
        "Slice",
        "Gather",
        "If",
        "Loop",
    ),
    *(
        "ConvTranspose",
        "LSTM",
        "NonZero",
        "RandomNormal",
        "Einsum",
        "Resize",
        "Shape",
        "Expand",
        "ConstantOfShape",
        "Cast",
        "Range",
    ),
    *(
        "Squeeze",
        "Unsqueeze",
        "Where",
        "ReduceMean",
        "TopK",
        "MaxPool",
        "SequenceEmpty",
        "Optional",
        "Scan",
        "Pad",
        "Nonsense",
        "",
    ),
)
DOMAINS = ("ai.onnx", "com.microsoft", "ai.onnx.ml", "nowhere", "é", "")
VERSIONS = (-(2**63), -1, 0, 1, 2, 6, 7, 9, 11, 12, 13, 17, 18, 21, 99, 2**31, 2**63 - 1)
LOCATIONS = ("", ".", "..", "../x", "/etc/passwd", "missing.bin", "a\x00b", "n" * 5000, "\\\\host\\x")
LONG_CHAIN = 2000
"""Nodes of the longest chain that is put in front of a value."""

Model = onnx.ModelProto
Change = Callable[[Model, random.Random], None]


def _drop_node(model: Model, chance: random.Random) -> None:
    if model.graph.node:
        del model.graph.node[chance.randrange(len(model.graph.node))]


def _repeat_node(model: Model, chance: random.Random) -> None:
    copy = model.graph.node.add()
    copy.CopyFrom(_node(model, chance))
    if chance.random() < 0.5:  # else the same value is made twice
        copy.output[:] = [f"{name}_again" for name in copy.output]


def _move_node(model: Model, chance: random.Random) -> None:
    node = onnx.NodeProto()
    node.CopyFrom(_node(model, chance))
    _drop_node(model, chance)
    model.graph.node.insert(chance.randrange(len(model.graph.node) + 1), node)


def _rename_node(model: Model, chance: random.Random) -> None:
    _node(model, chance).name = chance.choice((*NAMES, _node(model, chance).name))


def _change_operator(model: Model, chance: random.Random) -> None:
    node = _node(model, chance)
    node.op_type = chance.choice((*OPERATORS, _node(model, chance).op_type))


def _change_domain(model: Model, chance: random.Random) -> None:
    _node(model, chance).domain = chance.choice(DOMAINS)


def _rewire(model: Model, chance: random.Random) -> None:
    """Another value as an input: one made earlier, later (a cycle), by nobody, or none."""
    node = _node(model, chance)
    if node.input:
        node.input[chance.randrange(len(node.input))] = _any_value(model, chance)


def _swap_inputs(model: Model, chance: random.Random) -> None:
    node = _node(model, chance)
    mixed = list(node.input)
    chance.shuffle(mixed)
    node.input[:] = mixed


def _drop_input(model: Model, chance: random.Random) -> None:
    node = _node(model, chance)
    if node.input:
        del node.input[chance.randrange(len(node.input))]


def _add_input(model: Model, chance: random.Random) -> None:
    _node(model, chance).input.append(_any_value(model, chance))


def _change_outputs(model: Model, chance: random.Random) -> None:
    node = _node(model, chance)
    if node.output and chance.random() < 0.5:
        node.output[chance.randrange(len(node.output))] = _any_value(model, chance)
    elif chance.random() < 0.5:
        node.output.append(chance.choice(NAMES))
    elif node.output:
        node.output.pop()


def _close_cycle(model: Model, chance: random.Random) -> None:
    """The first input of a node from a later one, or from itself."""
    index = chance.randrange(len(model.graph.node) or 1)
    later = model.graph.node[index + chance.randrange(len(model.graph.node) - index)] if model.graph.node else None
    if later is not None and later.output and model.graph.node[index].input:
        model.graph.node[index].input[0] = later.output[0]


def _change_attribute(model: Model, chance: random.Random) -> None:
    nodes = [node for node in model.graph.node if node.attribute]
    if not nodes:
        return
    node = chance.choice(nodes)
    index = chance.randrange(len(node.attribute))
    attribute = node.attribute[index]
    how = chance.randrange(6)
    if how == 0:
        attribute.CopyFrom(_attribute(attribute.name, chance))
    elif how == 1:
        del node.attribute[index]
    elif how == 2:
        node.attribute.append(node.attribute[index])
    elif how == 3:
        attribute.name = chance.choice((*NAMES, "axis", "axes", "perm", "group", "to", "value"))
    elif how == 4:
        attribute.type = chance.choice(AttributeProto.AttributeType.values())
    elif attribute.ints:
        place = chance.randrange(len(attribute.ints))
        if chance.random() < 0.3:
            del attribute.ints[place]
        else:
            attribute.ints[place] = chance.choice(NUMBERS)
    elif attribute.type == AttributeProto.INT:
        attribute.i = chance.choice(NUMBERS)
    elif attribute.type == AttributeProto.TENSOR:
        _break_tensor(attribute.t, chance)


def _add_attribute(model: Model, chance: random.Random) -> None:
    known = (
        "axis",
        "axes",
        "perm",
        "group",
        "kernel_shape",
        "strides",
        "pads",
        "dilations",
        "auto_pad",
        "transA",
        "alpha",
        "to",
    )
    _node(model, chance).attribute.append(_attribute(chance.choice((*known, *NAMES)), chance))


def _attribute(name: str, chance: random.Random) -> AttributeProto:
    values = (
        lambda: chance.choice(NUMBERS),
        lambda: [chance.choice(NUMBERS) for _ in range(chance.randrange(6))] or [0],
        lambda: chance.choice((0.0, -1.5, float("nan"), float("inf"))),
        lambda: chance.choice((b"SAME_UPPER", b"", b"\xff\xfe", b"NOTSET")),
        lambda: TensorProto(data_type=TensorProto.INT64, dims=[chance.choice(NUMBERS)], raw_data=chance.randbytes(8)),
        lambda: onnx.GraphProto(name="inner"),
    )
    made = helper.make_attribute(name or "unnamed", chance.choice(values)())
    made.name = name
    return made


def _drop_stored(model: Model, chance: random.Random) -> None:
    if model.graph.initializer:
        del model.graph.initializer[chance.randrange(len(model.graph.initializer))]


def _repeat_stored(model: Model, chance: random.Random) -> None:
    if model.graph.initializer:
        model.graph.initializer.append(chance.choice(model.graph.initializer))


def _break_stored(model: Model, chance: random.Random) -> None:
    if model.graph.initializer:
        _break_tensor(chance.choice(model.graph.initializer), chance)


def _break_tensor(tensor: TensorProto, chance: random.Random) -> None:
    how = chance.randrange(8)
    if how == 0 and tensor.dims:
        tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(NUMBERS)
    elif how == 1:
        tensor.dims.append(chance.choice(NUMBERS))
    elif how == 2 and tensor.dims:
        tensor.dims.pop()
    elif how == 3:
        tensor.data_type = chance.choice((*TensorProto.DataType.values(), -1, 1000))
    elif how == 4:
        tensor.raw_data = chance.randbytes(chance.choice((0, 1, 7, 8, 64)))
    elif how == 5:
        tensor.data_location = TensorProto.EXTERNAL
        for key in chance.sample(("location", "offset", "length", "é"), chance.randrange(4)):
            tensor.external_data.add(key=key, value=chance.choice((*LOCATIONS, "-1", "9" * 30)))
    elif how == 6:
        tensor.name = chance.choice(NAMES)
    elif tensor.int64_data:
        tensor.int64_data[chance.randrange(len(tensor.int64_data))] = chance.choice(NUMBERS)


def _change_constant(model: Model, chance: random.Random) -> None:
    """A number that shapes are computed from."""
    nodes = [node for node in model.graph.node if node.op_type == "Constant" and node.attribute]
    if nodes:
        attribute = chance.choice(nodes).attribute[0]
        if attribute.ints:
            attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(NUMBERS)
        elif attribute.type == AttributeProto.INT:
            attribute.i = chance.choice(NUMBERS)


def _add_sparse(model: Model, chance: random.Random) -> None:
    sparse = model.graph.sparse_initializer.add(dims=[chance.choice(NUMBERS) for _ in range(chance.randrange(3))])
    sparse.values.CopyFrom(TensorProto(name=_any_value(model, chance), data_type=1, dims=[1], float_data=[1.0]))


def _change_interface(model: Model, chance: random.Random) -> None:
    """An input or output of the network that is missing, there twice, new, or something else than a tensor."""
    listing = chance.choice((model.graph.input, model.graph.output))
    how = chance.randrange(6)
    if how == 0:
        listing.add(name=_any_value(model, chance))
    elif how == 1:
        listing.append(helper.make_tensor_value_info(_any_value(model, chance), 1, [chance.choice(NUMBERS)]))
    elif listing:
        value = chance.choice(listing)
        if how == 2:
            listing.remove(value)
        elif how == 3:
            listing.append(value)
        elif how == 4:
            value.name = _any_value(model, chance)
        else:
            value.type.sequence_type.elem_type.tensor_type.elem_type = 1


def _change_shape(model: Model, chance: random.Random) -> None:
    """The shape or type that the file states for a value."""
    stated = [*model.graph.input, *model.graph.input, *model.graph.output, *model.graph.value_info]
    if not stated:
        return
    kind = chance.choice(stated).type.tensor_type
    how = chance.randrange(6)
    if how == 0:
        kind.elem_type = chance.choice((*TensorProto.DataType.values(), -1, 1000))
    elif how == 1:
        kind.ClearField("shape")
    elif how == 2:
        kind.shape.dim.add(dim_value=chance.choice(NUMBERS))
    elif kind.shape.dim:
        dim = chance.choice(kind.shape.dim)
        if how == 3:
            kind.shape.dim.remove(dim)
        elif how == 4:
            dim.dim_param = chance.choice((*NAMES, "batch", "seq", "N"))
        else:
            dim.dim_value = chance.choice(NUMBERS)


def _state_shape(model: Model, chance: random.Random) -> None:
    shape = [chance.choice((*NUMBERS, "batch", None)) for _ in range(chance.randrange(5))]
    model.graph.value_info.append(helper.make_tensor_value_info(_any_value(model, chance), 1, shape))


def _change_version(model: Model, chance: random.Random) -> None:
    how = chance.randrange(4)
    if how == 0:
        model.ir_version = chance.choice(VERSIONS)
    elif how == 1 and model.opset_import:
        model.opset_import[0].version = chance.choice(VERSIONS)
    elif how == 2:
        model.opset_import.add(domain=chance.choice(DOMAINS), version=chance.choice(VERSIONS))
    elif model.opset_import:
        model.opset_import.pop()


def _rename_value(model: Model, chance: random.Random) -> None:
    """Another name for a value wherever it stands, maybe one that is taken."""
    old, new = _any_value(model, chance), _any_value(model, chance)
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        if value.name == old:
            value.name = new


def _add_function(model: Model, chance: random.Random) -> None:
    """A function that a node calls, and that may call itself."""
    domain = chance.choice(("own", "", "é"))
    calls = helper.make_node(chance.choice(("F", "Relu", "Identity")), ["a"], ["b"], domain=chance.choice((domain, "")))
    imports = [helper.make_opsetid(chance.choice(("", domain)), chance.choice((1, 17, 20)))]
    model.functions.append(helper.make_function(domain, "F", ["a"], ["b"], [calls], imports))
    node = _node(model, chance)
    node.op_type, node.domain = "F", domain
    if chance.random() < 0.7:
        model.opset_import.add(domain=domain, version=1)


def _add_subgraph(model: Model, chance: random.Random) -> None:
    """A node with graphs of its own, nested up to deeply."""
    inner = onnx.GraphProto(name="inner")
    inner.node.append(helper.make_node("Identity", [_any_value(model, chance)], ["inner_out"]))
    inner.output.add(name="inner_out")
    for _ in range(chance.choice((0, 1, 5, 40))):
        outer = onnx.GraphProto(name="outer")
        outer.node.append(
            helper.make_node("If", [_any_value(model, chance)], ["inner_out"], then_branch=inner, else_branch=inner)
        )
        if outer.ByteSize() > 100_000:
            break
        inner = outer
    node = _node(model, chance)
    node.op_type = chance.choice(("If", "Loop", "Scan", node.op_type))
    node.attribute.append(helper.make_attribute(chance.choice(("then_branch", "body", "x")), inner))


def _add_chain(model: Model, chance: random.Random) -> None:
    """Many nodes in a row before an input."""
    node = _node(model, chance)
    if not node.input:
        return
    name = node.input[0]
    operator = chance.choice(("Identity", "Relu", "Neg"))
    for index in range(chance.choice((3, 100, LONG_CHAIN))):
        link = onnx.NodeProto(op_type=operator, input=[name], output=[f"chain_{index}"])
        model.graph.node.insert(index, link)
        name = f"chain_{index}"
    node.input[0] = name


def _node(model: Model, chance: random.Random) -> onnx.NodeProto:
    if not model.graph.node:
        model.graph.node.add(op_type="Relu", input=["x"], output=["y"])
    node: onnx.NodeProto = chance.choice(model.graph.node)
    return node


def _any_value(model: Model, chance: random.Random) -> str:
    """The name of some value, or one that does not exist."""
    node = _node(model, chance)
    listed = [*model.graph.input, *model.graph.output, *model.graph.initializer]
    named = [chance.choice(listed).name] if listed else []
    return str(chance.choice((*node.input, *node.output, *named, *named, chance.choice(NAMES))))


CHANGES: tuple[Change, ...] = (
    _drop_node,
    _repeat_node,
    _move_node,
    _rename_node,
    _change_operator,
    _change_domain,
    _rewire,
    _swap_inputs,
    _drop_input,
    _add_input,
    _change_outputs,
    _close_cycle,
    _change_attribute,
    _change_attribute,
    _change_attribute,
    _add_attribute,
    _drop_stored,
    _repeat_stored,
    _break_stored,
    _break_stored,
    _change_constant,
    _change_constant,
    _add_sparse,
    _change_interface,
    _change_shape,
    _change_shape,
    _state_shape,
    _change_version,
    _rename_value,
    _add_function,
    _add_subgraph,
    _add_chain,
)


def break_network(model: Model, chance: random.Random) -> list[str]:
    """Make one to four changes in place and return their names."""
    chosen = chance.choices(CHANGES, k=chance.choice((1, 1, 2, 4)))
    for change in chosen:
        change(model, chance)
    return [change.__name__.strip("_") for change in chosen]
