"""If: the branch that the file decides is compiled; a branch that data decides is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, TensorProto, helper, numpy_helper

from cmswitch.cli import main
from cmswitch.errors import InputError
from cmswitch.graph import load_network
from tests.compiled import compiled
from tests.sketch import Sketch

INT64 = int(TensorProto.INT64)


def branch(name: str, width: int) -> GraphProto:
    """A product of the captured ``x`` with a weight of the branch's own, of ``width`` columns."""
    node = helper.make_node("MatMul", ["x", f"{name}_w"], [f"{name}_y"], f"{name}_product")
    weight = numpy_helper.from_array(np.zeros((8, width), np.float32), f"{name}_w")
    return helper.make_graph(
        [node], name, [], [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)], [weight]
    )


def choose(s: Sketch, condition: str) -> None:
    s.add("If", "choose", condition, then_branch=branch("yes", 5), else_branch=branch("no", 7))


@pytest.mark.parametrize(("truth", "width"), [(True, 5), (False, 7)])
@pytest.mark.parametrize("where", ["initializer", "constant"])
def test_constant_condition(tmp_path: Path, truth: bool, width: int, where: str) -> None:
    s = Sketch(tmp_path)
    s.input("x", 6, 8)
    value = numpy_helper.from_array(np.array(truth), "condition")
    if where == "initializer":
        s.graph.initializer.append(value)
    else:
        s.add("Constant", "condition", value=value)
    choose(s, "condition")
    network = s.load("choose")
    (operator,) = network.operators
    product = operator.product
    assert product is not None
    assert (product.rows, product.inner, product.columns, product.dynamic) == (6, 8, width, False)
    assert network.macs == 6 * 8 * width
    assert ("yes_product" if truth else "no_product") in operator.nodes[0]
    assert network.host_nodes == ()
    compiled(network)


@pytest.mark.parametrize(("tokens", "width"), [(1, 5), (6, 7)])
def test_condition_that_follows_from_a_shape(tmp_path: Path, tokens: int, width: int) -> None:
    s = Sketch(tmp_path)
    s.input("x", "tokens", 8)
    s.add("Shape", "shape", "x")
    s.add("Gather", "length", "shape", s.ints("first", 0))
    s.add("Equal", "single", "length", s.ints("one", 1))
    s.add("Squeeze", "condition", "single")
    choose(s, "condition")
    network = s.load("choose", dims={"tokens": tokens})
    assert network.macs == tokens * 8 * width
    compiled(network)


def test_branch_that_reads_what_was_computed_before(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "x", s.input("data", 6, 4), s.weight("w", 4, 8))
    s.graph.initializer.append(numpy_helper.from_array(np.array(True), "condition"))
    choose(s, "condition")
    s.add("Relu", "end", "choose")
    network = s.load("end")
    assert network.macs == 6 * 4 * 8 + 6 * 8 * 5
    assert [t.name for t in network.tensors if t.is_output] == ["end"]
    compiled(network)


def test_condition_that_depends_on_data(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 6, 8)
    s.add("ReduceSum", "sum", "x", keepdims=0)
    s.add("Greater", "positive", "sum", s.weight("zero"))
    choose(s, "positive")
    with pytest.raises(InputError) as caught:
        s.load("choose")
    assert "choose: If (ai.onnx 17)" in str(caught.value)
    assert "'positive'" in str(caught.value)
    assert "no rule" not in str(caught.value)


def rated(folder: Path) -> Path:
    """A file whose scalar input ``rate`` chooses: 5 columns at 16000, else 7."""
    s = Sketch(folder)
    s.input("x", 6, 8), s.input("rate", dtype=INT64)
    s.graph.initializer.append(numpy_helper.from_array(np.array(16000, np.int64), "high"))
    s.add("Equal", "is_high", "rate", "high")
    choose(s, "is_high")
    return s.save("choose")


def test_condition_that_depends_on_an_input(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_network(rated(tmp_path))
    assert "choose: If (ai.onnx 17)" in str(caught.value)
    assert "'is_high'" in str(caught.value)
    assert "--value rate=" in str(caught.value)


@pytest.mark.parametrize(("rate", "width"), [(16000, 5), (8000, 7)])
def test_input_that_is_bound_to_a_value(
    tmp_path: Path, rate: int, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rated(tmp_path)
    bound: dict[str, Any] = {"values": {"rate": rate}}
    network = load_network(path, **bound)
    assert network.macs == 6 * 8 * width
    assert [t.name for t in network.tensors if t.producer is None] == ["x"]
    compiled(network)
    assert main(["inspect", str(path), "--value", f"rate={rate}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["macs"] == network.macs


def test_value_of_an_input_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(rated(tmp_path)), "--value", "rat=16000"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "'rat'" in err
    assert "'rate'" in err
