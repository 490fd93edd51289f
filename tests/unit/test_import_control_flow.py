"""If, Loop and Scan are written out where constants decide them, and refused by name where they do not."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.backend.test.case import node as backend

from cmswitch.errors import InputError
from cmswitch.graph import load_network
from cmswitch.graph.network import MatrixProduct
from tests.sketch import Sketch
from tests.subgraphs import agree, body, constant, macs, node, refusal, sketch, typed_input
from tests.unit.test_import import product


def choice(s: Sketch, condition: str, name: str = "If_0") -> None:
    """An If between a product with 4 x 6 and one with 4 x 4 and a Relu."""
    rng = np.ones
    then = body([node("MatMul", "x w", "m", name="product")], "m", "", {"w": rng((4, 6), np.float32)})
    other = body(
        [node("MatMul", "x w", "m", name="product"), node("Relu", "m", "n")], "n", "", {"w": rng((4, 4), np.float32)}
    )
    s.add("If", name, condition, outputs=[f"{name}_out"], then_branch=then, else_branch=other)


@pytest.mark.parametrize(("condition", "columns", "nodes"), [(True, 6, 2), (False, 4, 3)])
def test_a_constant_condition_takes_its_branch(tmp_path: Path, condition: bool, columns: int, nodes: int) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 4)
    choice(s, constant(s, "c", condition, np.bool_))
    (operator,) = s.load("If_0_out").operators
    assert operator.product == MatrixProduct(3, 4, columns, 1, "If_0:w")
    assert operator.name == "If_0#product"
    assert len(operator.nodes) == nodes  # with the view that gives the output its name


def test_nodes_of_subgraphs_count(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 4)
    choice(s, constant(s, "c", True, np.bool_))
    assert s.load("If_0_out").node_count == 1 + 1 + 2


def test_two_branches_with_the_same_names_are_kept_apart(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 4)
    choice(s, constant(s, "yes", True, np.bool_), "first")
    choice(s, constant(s, "no", False, np.bool_), "second")
    s.add("Concat", "both", "first_out", "second_out", axis=1)
    graph = agree(s, "both")
    assert [n.id for n in graph.nodes if n.operator == "MatMul"] == ["first#product", "second#product"]
    assert macs(load_network(s.path)) == [3 * 4 * 6, 3 * 4 * 4]


def test_nested_branches_use_values_of_all_scopes_around_them(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 4)
    inner_then = body([node("Add", "a b", "c"), node("Sub", "c x", "d")], "d")
    inner_else = body([node("Identity", "a", "e")], "e")
    outer = body(
        [
            node("Add", "x offset", "a"),
            node("Mul", "x x", "b"),
            node("Shape", "b", "size"),
            node("Gather", "size zero", "first", axis=0),
            node("Equal", "first three", "is_three"),
            node("If", "is_three", "r", then_branch=inner_then, else_branch=inner_else),
        ],
        "r",
        "",
        {"offset": np.ones(4, np.float32), "zero": np.array(0), "three": np.array(3)},
    )
    other = body([node("Neg", "x", "n")], "n")
    s.add("If", "outer", constant(s, "c", True, np.bool_), outputs=["out"], then_branch=outer, else_branch=other)
    graph = agree(s, "out")
    assert [n.operator for n in graph.nodes] == ["Add", "Mul", "Add", "Sub", "Identity", "Identity"]


def test_what_a_branch_uses_is_computed_before_it(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 4)
    taken = body([node("Relu", "made_later", "r")], "r")
    s.add("If", "early", constant(s, "c", True, np.bool_), outputs=["out"], then_branch=taken, else_branch=taken)
    s.add("MatMul", "late", "x", s.weight("w", 4, 4), outputs=["made_later"])
    (operator,) = s.load("out").operators
    assert operator.nodes[:2] == ("late", "early#Relu_0")


def test_a_branch_may_return_what_it_did_not_make(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.add("MatMul", "m", s.input("x", 3, 4), s.weight("w", 4, 4))
    taken = body([node("Relu", "m", "r")], "m stored r r", "", {"stored": np.ones((3, 4), np.float32)})
    names = ["same", "fixed", "once", "twice"]
    s.add("If", "if", constant(s, "c", False, np.bool_), outputs=names, then_branch=taken, else_branch=taken)
    s.add("Sum", "all", *names)
    agree(s, "all")


def test_a_large_constant_of_a_branch_keeps_only_its_shape(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 64)
    taken = body([node("MatMul", "x w", "m")], "m", "", {"w": np.ones((64, 64), np.float32)})
    s.add("If", "if", constant(s, "c", True, np.bool_), outputs=["out"], then_branch=taken, else_branch=taken)
    network = s.load("out")
    assert product(network).weights == 64 * 64
    from cmswitch.graph.read import read_model

    stored = read_model(s.path).graph.node[0].attribute[0].g.initializer[0]
    assert (list(stored.dims), len(stored.raw_data)) == ([64, 64], 0)


def loop_of_products(s: Sketch, count: str, condition: str = "") -> None:
    """h = Relu(h w'), w' a transposed constant of the body; every h is an output too."""
    inner = body(
        [
            node("Transpose", "w", "turned", perm=[1, 0]),
            node("MatMul", "h turned", "m", name="product"),
            node("Relu", "m", "next"),
            node("Identity", "going", "still"),
        ],
        "still next next",
        "i going h",
        {"w": np.ones((4, 4), np.float32) / 4},
    )
    s.add("Loop", "loop", count, condition, s.input("x", 3, 4), outputs=["last", "all"], body=inner)


@pytest.mark.parametrize("condition", [True, None])
def test_a_loop_of_known_length_is_written_out(tmp_path: Path, condition: bool | None) -> None:
    s = sketch(tmp_path)
    given = constant(s, "c", condition, np.bool_) if condition is not None else ""
    loop_of_products(s, constant(s, "count", 3, np.int64), given)

    def expected(x: Any) -> list[Any]:
        states = [x]
        for _ in range(3):
            states.append(np.maximum(states[-1] @ np.full((4, 4), 0.25, np.float32), 0))
        return [states[-1], np.stack(states[1:])]

    agree(s, "last", "all", expected=expected)
    network = load_network(s.path)
    assert macs(network) == [3 * 4 * 4] * 3
    assert network.weight_elements == 16  # one weight for all iterations
    assert [o.name for o in network.operators] == [f"loop#{i}.product" for i in range(3)]
    assert {t.elements for t in network.tensors if t.is_output} == {12, 36}


@pytest.mark.parametrize("count", [None, 5, 2**63 - 1])  # the last: exporters' way to write that there is none
def test_a_loop_ends_when_its_condition_does(tmp_path: Path, count: int | None) -> None:
    s = sketch(tmp_path)
    inner = body(
        [node("Add", "i one", "n"), node("Less", "n four", "still"), node("Mul", "h h", "next")],
        "still next",
        "i going h",
        {"one": np.array(1), "four": np.array(4)},
    )
    given = constant(s, "count", count, np.int64) if count else ""
    s.add("Loop", "loop", given, constant(s, "c", True, np.bool_), s.input("x", 2, 2), outputs=["out"], body=inner)
    graph = agree(s, "out")
    assert [n.operator for n in graph.nodes].count("Mul") == 4


def test_a_loop_that_never_runs_passes_its_inputs_on(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    loop_of_products(s, constant(s, "count", 0, np.int64))
    s.add("MatMul", "after", "last", s.weight("v", 4, 2))
    network = s.load("after")
    assert macs(network) == [3 * 4 * 2]
    s.add("Add", "of_nothing", "last", "all")
    assert "of_nothing: Add (ai.onnx 21) [3x4, ?] -> [?]" in refusal(s, "of_nothing")


def test_branches_in_a_loop_may_depend_on_the_iteration(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    first = body([node("Add", "h scaled", "a")], "a")
    later = body([node("Sub", "h scaled", "b")], "b")
    inner = body(
        [
            node("Cast", "i", "number", to=TensorProto.FLOAT),
            node("Mul", "x number", "scaled"),
            node("Equal", "i zero", "is_first"),
            node("If", "is_first", "next", then_branch=first, else_branch=later),
        ],
        "going next",
        "i going h",
        {"zero": np.array(0)},
    )
    names = [constant(s, "n", 3, np.int64), constant(s, "c", True, np.bool_), s.input("x", 2, 2)]
    s.add("Loop", "loop", *names, outputs=["out"], body=inner)
    graph = agree(s, "out")
    assert [n.operator for n in graph.nodes if n.operator in ("Add", "Sub")] == ["Add", "Sub", "Sub"]


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_directions": [1, 0], "scan_output_directions": [1]},
        {"scan_input_axes": [1, -1], "scan_output_axes": [1]},
    ],
)
def test_a_scan_is_written_out(tmp_path: Path, attributes: dict[str, Any]) -> None:
    """A layer h = Tanh(x_t w + h r) + y_t of five steps."""
    s = sketch(tmp_path)
    inner = body(
        [
            node("MatMul", "a w", "in", name="in"),
            node("MatMul", "h r", "back", name="back"),
            node("Add", "in back", "sum"),
            node("Tanh", "sum", "state"),
            node("Add", "state b", "next"),
        ],
        "next next",
        "h a b",
        {"w": np.ones((3, 4), np.float32), "r": np.eye(4, dtype=np.float32)},
    )
    axes = "scan_input_axes" in attributes
    names = [s.input("h0", 2, 4), s.input("x", *((2, 5, 3) if axes else (5, 2, 3)))]
    names.append(s.input("y", *((2, 4, 5) if axes else (5, 2, 4))))
    s.add("Scan", "scan", *names, outputs=["last", "all"], body=inner, num_scan_inputs=2, **attributes)

    def expected(h0: Any, x: Any, y: Any) -> list[Any]:
        if axes:
            x, y = np.moveaxis(x, 1, 0), np.moveaxis(y, -1, 0)
        back = "scan_input_directions" in attributes
        state, states = h0, []
        for a, b in zip(x[::-1] if back else x, y, strict=True):
            state = np.tanh(a @ np.ones((3, 4), np.float32) + state) + b
            states.append(state)
        return [state, np.stack(states[::-1] if back else states, axis=1 if axes else 0)]

    agree(s, "last", "all", expected=expected)
    network = load_network(s.path)
    assert sorted(macs(network)) == [2 * 3 * 4] * 5 + [2 * 4 * 4] * 5
    assert network.weight_elements == 12 + 16


def test_a_loop_with_too_many_iterations_is_refused_with_their_number(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    loop_of_products(s, constant(s, "count", 100_000, np.int64))
    with pytest.raises(InputError) as caught:
        s.load("last")
    assert str(caught.value).splitlines()[1] == (
        "  loop: Loop (ai.onnx 21) [scalar, -, 3x4] -> [?, ?]: in 100,000 iterations it makes 500,000 values, more than "
        "the 20,000 that are written out; bind a shorter sequence, or split the loop before export"
    )


@pytest.mark.parametrize("count", [None, 2**63 - 1])
def test_an_endless_loop_is_refused(tmp_path: Path, count: int | None) -> None:
    s = sketch(tmp_path)
    loop_of_products(s, "" if count is None else constant(s, "count", count, np.int64))
    with pytest.raises(
        InputError, match="it has no trip count and goes on after 1000 iterations; give it a trip count"
    ):
        s.load("last")


def test_a_condition_from_an_input_names_the_option_that_decides_it(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 4)
    s.add("Equal", "c", typed_input(s, "rate", TensorProto.INT64), s.ints("wanted", 16000))
    s.add("Squeeze", "scalar", "c")
    choice(s, "scalar")
    assert refusal(s, "If_0_out") == (
        "If_0: If (ai.onnx 21) [scalar] -> [?]: its condition 'scalar' is computed at run time from 'rate'; "
        "give `--value rate=V`"
    )
    for rate, columns in ((16000, 6), (8000, 4)):
        network = load_network(s.path, values={"rate": rate})
        assert product(network).columns == columns
        assert network.tensors[0].name == "x"


def test_a_condition_from_an_input_of_many_numbers_is_not_decided_by_one(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 4)
    s.add("ReduceMax", "largest", typed_input(s, "mask", TensorProto.INT64, 1, 2), keepdims=0)
    s.add("Equal", "c", "largest", s.ints("wanted", 1))
    s.add("Squeeze", "scalar", "c")
    choice(s, "scalar")
    assert refusal(s, "If_0_out").endswith(
        "its condition 'scalar' is computed at run time from 'mask'; make it a constant of the file"
    )


def test_a_condition_from_several_inputs_is_refused(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 4)
    s.add("Equal", "c", typed_input(s, "p", TensorProto.INT64), typed_input(s, "q", TensorProto.INT64))
    choice(s, "c")
    assert refusal(s, "If_0_out").endswith(
        "its condition 'c' is computed at run time from 'p', 'q'; make it a constant of the file"
    )


def test_a_trip_count_from_an_input_is_refused(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    loop_of_products(s, typed_input(s, "n", TensorProto.INT64))
    assert refusal(s, "last").endswith("its trip count 'n' is computed at run time from 'n'; give `--value n=V`")
    assert macs(load_network(s.path, values={"n": 2})) == [48, 48]


def test_a_loop_that_ends_when_its_data_say_so_is_refused(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    inner = body(
        [node("Mul", "h h", "next"), node("ReduceSum", "next", "sum", keepdims=0), node("Less", "sum limit", "still")],
        "still next",
        "i going h",
        {"limit": np.array(1, np.float32)},
    )
    s.add("Loop", "loop", constant(s, "n", 3, np.int64), "", s.input("x", 2, 2), outputs=["out"], body=inner)
    assert "its condition 'loop:0.still' is computed at run time from 'x'" in refusal(s, "out")


def test_a_subgraph_that_reads_nothing_anybody_makes(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.input("x", 3, 4)
    taken = body([node("Add", "x nowhere", "a")], "a")
    s.add("If", "if", constant(s, "c", True, np.bool_), outputs=["out"], then_branch=taken, else_branch=taken)
    assert "node 'if' reads 'nowhere', which nothing before it produces" in refusal(s, "out")


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (TensorProto.INT64, 0.5, "input 'v' is int64 and cannot be 0.5; give a number of its type"),
        (TensorProto.INT8, 128, "input 'v' is int8 and cannot be 128; give a number of its type"),
        (TensorProto.BOOL, 2, "input 'v' is bool and cannot be 2; give a number of its type"),
        (TensorProto.INT64, 2**70, f"input 'v' is int64 and cannot be {2**70}; give a number of its type"),
        (TensorProto.STRING, 1, "input 'v' is object and cannot be 1; give a number of its type"),
    ],
)
def test_a_value_has_the_type_of_its_input(tmp_path: Path, kind: int, value: float, message: str) -> None:
    s = sketch(tmp_path)
    s.add("MatMul", "m", s.input("x", 3, 4), s.weight("w", 4, 4))
    typed_input(s, "v", kind, 2)
    assert refusal(s, "m", values={"v": value}) == f"{s.path}: {message}"


def test_an_input_with_a_value_is_a_constant_of_any_size(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.add("Mul", "masked", s.input("x", 100, 40), s.input("mask", 100, 40))
    s.add("MatMul", "m", "masked", s.weight("w", 40, 4))
    assert [t.name for t in s.load("m").tensors] == ["x", "mask", "masked", "m"]
    network = load_network(s.path, values={"mask": 1})
    assert [t.name for t in network.tensors] == ["x", "masked", "m"]
    assert refusal(s, values={"maks": 1}).endswith(
        "there is no input 'maks' to give a value (did you mean 'mask'? choose from x, mask)"
    )


def test_an_optional_is_what_is_in_it(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.add("Optional", "maybe", s.input("x", 3, 4))
    s.add("OptionalHasElement", "given", "maybe")
    s.add("OptionalGetElement", "content", "maybe")
    choice(s, "given")
    s.add("Add", "sum", "content", "x")
    assert macs(s.load("If_0_out", "sum")) == [3 * 4 * 6]


@pytest.mark.parametrize(
    ("module", "imported"),
    [("if_", 0), ("loop", 0), ("scan", 3), ("sequence_map", 0), ("splittosequence", 1), ("optionalgetelement", 0)],
)
def test_examples_of_onnx_are_imported_or_refused_by_name(tmp_path: Path, module: str, imported: int) -> None:
    importlib.import_module(f"onnx.backend.test.case.node.{module}")
    operator = module.replace("_", "")
    cases = [
        case
        for case in backend._NodeTestCases
        if case.model and case.name.replace("_", "").startswith(f"test{operator}")
        if any(n.op_type.lower() == operator for n in case.model.graph.node)
    ]
    assert cases
    count = 0
    for case in cases:
        path = tmp_path / f"{case.name}.onnx"
        onnx.save(case.model, path)
        names = [v.name for v in case.model.graph.input] + [n.op_type for n in case.model.graph.node]
        try:
            load_network(path)
        except InputError as error:
            assert any(name in str(error) for name in names) or "nothing to map" in str(error), case.name
        else:
            count += 1
    assert count == imported


def test_a_branch_may_hide_a_name_of_the_scope_around_it(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    hiding = body([node("Mul", "x x", "a"), node("Add", "a b", "c")], "c")
    outer = body(
        [
            node("Neg", "x", "a"),
            node("Relu", "a", "b"),
            node("If", "yes", "r", then_branch=hiding, else_branch=hiding),
            node("Sub", "r a", "d"),
        ],
        "d",
    )
    s.input("x", 2, 3)
    s.add("If", "if", constant(s, "yes", True, np.bool_), outputs=["out"], then_branch=outer, else_branch=outer)
    agree(s, "out", expected=lambda x: [x * x + np.maximum(-x, 0) + x])
