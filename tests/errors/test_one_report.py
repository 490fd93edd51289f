"""Whatever is wrong with a file is said at once: each obstacle with its place and its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from cmswitch.errors import InputError
from tests.sketch import Sketch


def report(s: Sketch, *outputs: str, **options: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        s.load(*outputs, **options)
    return str(caught.value).splitlines()


def test_everything_that_is_ill_formed(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opsets={})
    s.add("Add", "add", s.input("x", 1, 4))
    s.add("Relu", "relu", "x", "x", outputs=["b"])
    s.add("Abs", "again", "x", outputs=["b"])
    lines = report(s, "add", "b", "ghost")
    assert lines == [
        "sketch: 4 problems",
        "  'b' is made twice, by node 'relu' and by node 'again'; each value needs a name of its own: export the model again",
        "  nothing makes the output 'ghost'; export the model again",
        "  node 'add' has 1 inputs, but Add takes 2; export the model again",
        "  node 'relu' has 2 inputs, but Relu takes 1; export the model again",
    ]


def test_every_value_that_nothing_makes(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 1, 4)
    s.add("Add", "a", "x", "lost")
    s.add("Sum", "b", "x", "gone", "missing")
    s.add("Relu", "c", "b")
    lines = report(s, "a", "c")
    assert lines[0] == "sketch: 2 problems"
    assert lines[1].startswith("  node 'a' reads 'lost', which nothing")
    assert lines[2].startswith("  node 'b' reads 'gone', 'missing', which nothing")


def test_subgraphs_are_checked_too(tmp_path: Path) -> None:
    branches = {
        name: helper.make_graph(
            [helper.make_node("Add", inputs, ["o"], f"{name}_add")],
            name,
            [],
            [helper.make_tensor_value_info("o", 1, None)],
        )
        for name, inputs in (("then_branch", ["x"]), ("else_branch", ["x", "x"]))
    }
    s = Sketch(tmp_path)
    s.input("x", 1, 4)
    s.add("If", "y", s.input("c", 1, dtype=TensorProto.BOOL), **branches)
    assert report(s, "y") == ["sketch: node 'then_branch_add' has 1 inputs, but Add takes 2; export the model again"]


def test_wrong_shapes_do_not_hide_other_nodes(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 1, 3, 8, 8)
    s.add("MatMul", "bad", "x", s.weight("w", 5, 5))
    s.add("Relu", "after", "bad")
    s.add("Conv", "conv", "x", s.weight("k", 4, 3, 3, 3), kernel_shape=[5, 5])
    s.add("Conv", "biased", "x", "k", s.weight("bias", 7))
    s.add("Conv", "padded", "x", "k", auto_pad="FOO")
    s.add("Pad", "cut", "x", s.ints("pads", 0, 0, -9, 0, 0, 0, 0, 0))
    s.add("Div", "none", s.ints("one", 1), s.ints("zero", 0))
    s.add("Expand", "wide", "x", "none")
    s.add("Fancy", "fancy", "x", domain="acme")
    lines = report(s, "after", "conv", "biased", "padded", "cut", "wide", "fancy")
    assert lines[0] == "sketch: 7 nodes cannot be mapped"
    reasons = {line.split(":")[0].strip(): line.partition("]: ")[2] for line in lines[1:]}
    assert list(reasons) == ["bad", "conv", "biased", "padded", "cut", "none", "fancy"]
    assert reasons["bad"].startswith("it has no valid output shape (")
    assert reasons["conv"].startswith("its kernel_shape is 5x5, but its weight is of 3x3;")
    assert reasons["biased"].startswith("its bias has 7 elements for 4 output channels;")
    assert reasons["padded"].startswith("auto_pad is 'FOO'; use one of NOTSET,")
    assert reasons["cut"].startswith("no output shape fits its inputs and attributes;")
    assert reasons["none"].startswith("it is malformed (division by zero);")
    assert reasons["fancy"].startswith("no rule for this operator;")


def test_many_alike_do_not_hide_the_others(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 1, 4)
    for index in range(100):
        s.add("Fancy", f"node {index}", "x", outputs=[f"y{index}"], domain="acme")
    s.add("NonZero", "other", "x")
    lines = report(s, *(f"y{index}" for index in range(100)), "other")
    assert lines[0] == "sketch: 101 nodes cannot be mapped"
    assert [line.partition(": ")[0] for line in lines[1:12]] == [*(f"  node {index}" for index in range(10)), "  other"]
    assert lines[12:] == ["  and 90 more like these"]
    for index in range(30):
        s.add("Abs", f"again {index}", "x", outputs=[f"y{index}"])
    del s.graph.output[1:]
    assert [len(report(s)), report(s)[-1]] == [12, "  and 20 more like these"]


def test_unbound_dimensions_do_not_hide_unknown_operators(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", "n", 4)
    s.add("Gelu", "defined", s.add("Fancy", "fancy", "x", domain="acme"), domain="com.microsoft")
    lines = report(s, "defined")
    assert lines[0] == f"{s.path}: 1 dimension without a size: n; give `--dim n=VALUE`"
    assert lines[1:] == [
        "  fancy: Fancy (acme): no rule for this operator; express it with supported operators before export"
    ]


def test_every_input_without_a_shape_and_every_unknown_dimension(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Add", "y", s.input("a", 1), s.input("b", 1))
    s.save("y")
    assert [line.partition("dimension ")[2][:3] for line in report(s, dims={"p": 1, "q": 2})[1:]] == ["'p'", "'q'"]
    for value in s.graph.input:
        value.type.tensor_type.ClearField("shape")
    del s.graph.output[:]
    assert [line.split("'")[1] for line in report(s, "y")[1:]] == ["a", "b"]


def test_an_operator_set_that_onnx_does_not_know(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opset=99)
    s.add("Relu", "y", s.input("x", 4))
    (line,) = report(s, "y")
    assert line.startswith("sketch: operator set 99 is newer than ")
    assert "upgrade onnx" in line


@pytest.mark.parametrize("operator", ["Pad", "Resize", "Conv", "LSTM", "SplitToSequence", "Range"])
def test_axes_of_any_length_are_answered_at_once(tmp_path: Path, operator: str) -> None:
    """Nothing is listed position by position for axes that only a mistake makes so long."""
    long = 2**40
    s = Sketch(tmp_path)
    match operator:
        case "Pad":
            s.add("Pad", "y", s.input("x", 1, 1, long, 4), s.ints("p", 0, 0, 1, 0, 0, 0, 0, 0))
        case "Resize":
            s.add("Resize", "y", s.input("x", 1, 1, long, 4), "", "", s.ints("sizes", 1, 1, 2 * long, 4))
        case "Conv":
            s.add("Conv", "y", s.input("x", 1, 1, long, 4), s.weight("w", 1, 1, 3, 3))
        case "LSTM":
            s.add(
                "LSTM", "y", s.input("x", long, 1, 4), s.weight("w", 1, 16, 4), s.weight("r", 1, 16, 4), hidden_size=4
            )
        case "SplitToSequence":
            pieces = s.add("SplitToSequence", "s", s.input("x", long, 4), axis=0)
            s.add("ConcatFromSequence", "y", pieces, axis=0)
        case "Range":
            limits = [s.add("Constant", f"c{n}", value_int=n) for n in (0, long, 1)]
            some = s.add("Gather", "g", s.add("Range", "r", *limits), s.ints("i", 3))
            s.add("Mul", "y", s.input("x", 1, dtype=TensorProto.INT64), some)
    if operator in ("Pad", "Resize", "Range"):
        assert s.load("y").operators
    else:
        assert len(report(s, "y")) == 2


def test_a_recurrent_layer_that_states_another_size(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("LSTM", "y", s.input("x", 8, 1, 24), s.weight("w", 1, 16, 24), s.weight("r", 1, 16, 4), hidden_size=5)
    assert report(s, "y")[1].partition("]: ")[2] == (
        "its hidden_size is 5, but its weights are of 4 states; correct the attribute `hidden_size` or the weights"
    )
