"""What a user reads when a network cannot be imported."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from cmswitch.errors import InputError
from cmswitch.graph import load_network
from cmswitch.graph.assemble import assemble
from cmswitch.graph.ir import Graph, Node, Value


def message(source: str | Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_network(source, **options)
    return str(caught.value)


def save(
    folder: Path, nodes: list[onnx.NodeProto], shapes: dict[str, list[Any]], weights: dict[str, list[int]]
) -> Path:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)]
    stored = [TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims) for name, dims in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 2)]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.onnx"
    assert message(path) == (
        f"{path}: cannot be read (No such file or directory); give the path of an ONNX file or `zoo:NAME`"
    )


def test_directory(tmp_path: Path) -> None:
    assert message(tmp_path) == (
        f"{tmp_path}: cannot be read (Is a directory); give the path of an ONNX file or `zoo:NAME`"
    )


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.touch()
    assert message(path) == f"{path}: the file is empty; export or copy the model again"


def test_not_onnx(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("this is not a model\n")
    assert message(path) == f"{path}: not an ONNX model, or cut off (20 bytes); export or copy it again"


def test_truncated_file(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = save(tmp_path, [node], {"x": [1, 2]}, {})
    path.write_bytes(path.read_bytes()[:-9])
    size = path.stat().st_size
    assert message(path) == f"{path}: not an ONNX model, or cut off ({size} bytes); export or copy it again"


def test_valid_protobuf_without_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "no_graph.onnx"
    path.write_bytes(onnx.ModelProto(producer_name="nobody").SerializeToString())
    assert message(path) == (
        f"{path}: not an ONNX model (no version, operator set or nodes); give a file that ONNX exported"
    )


def test_all_unbound_dimensions_are_listed(tmp_path: Path) -> None:
    path = save(
        tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": ["batch", "tokens", None]}, {"w": [4, 4]}
    )
    assert message(path) == (
        f"{path}: 3 dimensions without a size: batch, tokens, x.2; give `--dim batch=VALUE --dim tokens=VALUE --dim x.2=VALUE`"
    )
    assert (
        message(path, dims={"batch": 1, "tokens": 2})
        == f"{path}: 1 dimension without a size: x.2; give `--dim x.2=VALUE`"
    )
    assert message(path, dims={"batsh": 1}) == (
        f"{path}: there is no dimension 'batsh' to size, only batch, tokens, x.2; did you mean 'batch'?"
    )
    assert message(path, batch=0) == f"{path}: --batch and --seq must be at least 1, --dim at least 0, not batch=0"


def test_batch_that_binds_nothing(tmp_path: Path) -> None:
    path = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 4]}, {"w": [4, 4]})
    assert message(path, batch=2) == (
        f"{path}: --batch 2 has no dimension to size: the inputs have fixed ones; leave it out, or "
        "export the model with a symbolic dimension"
    )
    load_network(path, batch=1)


def test_all_unsupported_nodes_are_listed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Fancy", ["x"], ["a"], "first", domain="acme"),
        helper.make_node("MatMul", ["x", "w"], ["b"], "product"),
        helper.make_node("NonZero", ["b"], ["c"], "second"),
        helper.make_node("Cast", ["c"], ["d"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Join", ["a", "d"], ["e"], "third", domain="acme"),
    ]
    path = save(tmp_path, nodes, {"x": [2, 4]}, {"w": [4, 4]})
    lines = message(path).splitlines()
    assert lines[0] == "model: 3 nodes cannot be mapped"
    assert lines[1] == (
        "  first: Fancy (acme 2) [2x4] -> [?]: no rule for this operator; express it with supported operators before export"
    )
    assert lines[2] == (
        "  second: NonZero (ai.onnx 17) [2x4] -> [?]: its output size depends on its data; "
        "make what decides the size a constant of the file, or cut the model before this node"
    )
    assert lines[3].startswith("  third: Join (acme 2) [?, ?] -> [?]: no rule")
    assert len(lines) == 4  # the Cast fails only because the NonZero does


def test_group_count_that_does_not_divide(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", group=3, kernel_shape=[1, 1])
    path = save(tmp_path, [node], {"x": [1, 8, 4, 4]}, {"w": [6, 2, 1, 1]})
    assert message(path).splitlines()[1] == (
        "  conv: Conv (ai.onnx 17) [1x8x4x4, 6x2x1x1] -> [1x6x4x4]: `group` 3 does not divide 8 input channels "
        "and 6 output channels with 2 input channels per group; correct the attribute `group` or the weight's shape"
    )


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/weights.bin", "inner/../../weights.bin"])
def test_external_data_outside_the_folder(tmp_path: Path, location: str) -> None:
    path = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 4]}, {"w": [4, 4]})
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    model.graph.initializer[0].external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    assert message(path) == (
        f"{path}: the data of 'w' is at {location!r}, outside the model's folder; move it next to the model"
    )


def test_link_that_leaves_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = save(folder, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 4]}, {"w": [4, 4]})
    (tmp_path / "secret.bin").touch()
    (folder / "weights.bin").symlink_to(tmp_path / "secret.bin")
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    model.graph.initializer[0].external_data.add(key="location", value="weights.bin")
    path.write_bytes(model.SerializeToString())
    assert "outside the model's folder" in message(path)


def test_value_that_nothing_produces(tmp_path: Path) -> None:
    path = save(tmp_path, [helper.make_node("Relu", ["missing"], ["y"], "relu")], {"x": [1, 4]}, {})
    assert message(path) == (
        "model: node 'relu' reads 'missing', which nothing before it produces (a cycle or a missing node); export the model again"
    )


def test_shapes_that_contradict(tmp_path: Path) -> None:
    path = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], "m")], {"x": [1, 5]}, {"w": [4, 4]})
    assert (
        message(path)
        .splitlines()[1]
        .startswith("  m: MatMul (ai.onnx 17) [1x5, 4x4] -> [?]: it has no valid output shape (")
    )


def test_network_of_constants(tmp_path: Path) -> None:
    path = save(tmp_path, [helper.make_node("Relu", ["w"], ["y"])], {"x": [1, 4]}, {"w": [4, 4]})
    assert message(path) == "model: no output depends on an input that has elements; there is nothing to map"


def test_unknown_zoo_name() -> None:
    assert message("zoo:resnet-50") == (
        "zoo:resnet-50: no such network (did you mean `zoo:resnet50`?); "
        "there are resnet18, resnet50, vgg16, mobilenet_v2, bert-large, vit-base"
    )
    assert message("zoo:xyz").startswith("zoo:xyz: no such network; there are")


def test_zoo_network_without_a_sequence() -> None:
    assert message("zoo:resnet18", dims={"seq": 3}) == ("zoo:resnet18: there is no dimension 'seq' to size, only batch")
    assert message("zoo:resnet18", seq=3).startswith("zoo:resnet18: --seq 3 has no dimension to size")


def test_input_without_a_shape(tmp_path: Path) -> None:
    path = save(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 4]}, {})
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    path.write_bytes(model.SerializeToString())
    assert message(path) == f"{path}: input 'x' is no tensor with a known number of axes; export it with a shape"


def test_outputs_that_no_rule_makes() -> None:
    values = {"m": Value((2, 4)), "d": Value((2, 4)), "more": Value(None)}
    node = Node("relu", "Relu", "", 17, {}, ("m",), ("d", "more"), values)
    with pytest.raises(InputError) as caught:
        assemble(Graph("model", (node,), values, ("m",), ("d", "more"), 1))
    assert str(caught.value).splitlines() == [
        "model: 1 node cannot be mapped",
        "  relu: Relu (ai.onnx 17) [2x4] -> [2x4, ?]: more of its outputs are used than can be mapped; "
        "remove the uses of the later outputs",
    ]


def test_shape_chain_that_fails(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], "shape"),
        helper.make_node("Gather", ["s", "s"], ["g"], "pick"),
        helper.make_node("Reshape", ["x", "g"], ["y"], "reshape"),
    ]
    path = save(tmp_path, nodes, {"x": [2, 4]}, {})
    assert (
        message(path)
        .splitlines()[1]
        .startswith("  pick: Gather (ai.onnx 17) [2, 2] -> [?]: it is malformed (index 2 is out of bounds")
    )


def test_reshape_to_another_size(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "m"),
        helper.make_node("Reshape", ["m", "s"], ["y"], "reshape"),
    ]
    path = save(tmp_path, nodes, {"x": [2, 4]}, {"w": [4, 4]})
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("s", TensorProto.INT64, [2], [3, 3]))
    path.write_bytes(model.SerializeToString())
    assert message(path).splitlines()[1] == (
        "  reshape: Reshape (ai.onnx 17) [2x4, 2] -> [3x3]: its output has another number of elements than its input; "
        "correct the target shape"
    )


def test_damaged_files_never_raise_anything_else(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Transpose", ["c"], ["t"], "turn", perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["t", "v"], ["m"], "product"),
        helper.make_node("Softmax", ["m"], ["y"], "soft", axis=-1),
    ]
    path = save(tmp_path, nodes, {"x": [1, 2, 6, 6]}, {"w": [4, 2, 3, 3], "v": [4, 5]})
    content = path.read_bytes()
    random = Random(1)
    refused = 0
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(random.choice((1, 2, 5))):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        path.write_bytes(damaged)
        try:
            load_network(path)
        except InputError:
            refused += 1
    assert refused > 100


def test_a_value_that_is_made_twice(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], "first"), helper.make_node("Neg", ["x"], ["y"], "second")]
    assert message(save(tmp_path, nodes, {"x": [1, 2]}, {})) == (
        "model: 'y' is made twice, by node 'first' and by node 'second'; "
        "each value needs a name of its own: export the model again"
    )
    nodes = [helper.make_node("Relu", ["x"], ["w"], "first")]
    assert "'w' is made twice, by a stored tensor and by node 'first'" in message(
        save(tmp_path, nodes, {"x": [1, 2]}, {"w": [2]})
    )


def test_an_operator_domain_that_is_not_declared(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "first", domain="com.microsoft")
    assert message(save(tmp_path, [node], {"x": [1, 2]}, {})) == (
        "model: node 'first' is an operator of domain 'com.microsoft', of which the file declares no version "
        "(it declares 'ai.onnx', 'acme'); export the model again"
    )


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (["x", "x", "x"], "has 3 inputs, but Add takes 2"),
        (["x"], "has 1 inputs, but Add takes 2"),
        (["", "x"], "lacks input 0 (A)"),
    ],
)
def test_a_wrong_number_of_inputs(tmp_path: Path, inputs: list[str], reason: str) -> None:
    node = helper.make_node("Add", inputs, ["y"], "first")
    assert message(save(tmp_path, [node], {"x": [1, 2]}, {})) == f"model: node 'first' {reason}; export the model again"


@pytest.mark.parametrize("operator", ["Shape", "Relu"])
def test_too_many_outputs(tmp_path: Path, operator: str) -> None:
    nodes = [helper.make_node(operator, ["x"], ["a", "b"], "first"), helper.make_node("Abs", ["b"], ["y"])]
    assert message(save(tmp_path, nodes, {"x": [1, 2]}, {})) == (
        f"model: node 'first' has 2 outputs, but {operator} makes at most 1; export the model again"
    )


def test_an_attribute_of_the_wrong_type(tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], "first", axis=1.5)
    assert message(save(tmp_path, [node], {"x": [1, 2]}, {})) == (
        "model: node 'first': attribute axis is of type FLOAT, which Softmax does not take; export the model again"
    )


@pytest.mark.parametrize("size", [0, -1])
def test_a_fixed_dimension_below_one_is_unbound(tmp_path: Path, size: int) -> None:
    path = save(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], {"x": [size, 2]}, {})
    assert message(path) == f"{path}: 1 dimension without a size: x.0 ({size} in the file); give `--dim x.0=VALUE`"


@pytest.mark.parametrize("location", [None, "", "a\0b"])
def test_stored_data_in_a_file_without_a_name(tmp_path: Path, location: str | None) -> None:
    path = save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 2]}, {"w": [2, 2]})
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    if location is not None:
        tensor.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    assert message(path) == (
        f"{path}: the data of 'w' is in another file, but the model does not say in which; export it again"
    )


def test_functions_that_call_themselves(tmp_path: Path) -> None:
    path = save(tmp_path, [helper.make_node("F", ["x"], ["y"], domain="acme")], {"x": [1, 2]}, {})
    model = onnx.load(path)
    call = helper.make_node("F", ["a"], ["b"], domain="acme")
    model.functions.append(helper.make_function("acme", "F", ["a"], ["b"], [call], [helper.make_opsetid("acme", 2)]))
    path.write_bytes(model.SerializeToString())
    assert message(path).startswith("model: its functions cannot be expanded (")
    assert message(path).endswith("; export the model again without functions")


def test_graph_where_none_belongs(tmp_path: Path) -> None:
    """Whatever the operator: a graph makes no node of constants one that runs."""
    inner = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["i"])], "inner", [], [onnx.ValueInfoProto(name="i")]
    )
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "step"], ["d"], "scale", body=inner),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    path = save(tmp_path, nodes, {"x": [6, 16]}, {"w": [16, 12], "step": []})
    model = onnx.load(path)
    model.graph.initializer[0].data_type = TensorProto.INT8
    onnx.save(model, path)
    assert message(path) == (
        "model: 1 node cannot be mapped\n  scale: DequantizeLinear (ai.onnx 17) [16x12, scalar] -> [?]: "
        "one of its attributes is a graph, which only control flow has; leave the attribute out of the file"
    )
