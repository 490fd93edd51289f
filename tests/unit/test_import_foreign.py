"""Networks as other tools leave them: computed dimension names, shapes in other files, contrib operators, odd constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cmswitch.errors import InputError
from cmswitch.graph import load_network
from cmswitch.graph.fold import folded
from cmswitch.graph.ir import ABSENT, Value
from cmswitch.graph.read import expressions
from tests.compiled import off_arrays
from tests.sketch import Sketch


def refusal(s: Sketch, *outputs: str, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        s.load(*outputs, **options)
    return str(caught.value).replace(f"{s.path}: ", "")


def masked(folder: Path) -> Sketch:
    s = Sketch(folder)
    new, old = s.input("new", "batch", "length", 4), s.input("old", "batch", "past", 4)
    every = s.add("Concat", "every", old, new, axis=1)
    s.add("MatMul", "product", every, s.weight("w", 4, 4))
    s.add("Mul", "y", "product", s.input("mask", "batch", "past + length", 1))
    return s


def test_a_computed_dimension_follows_from_its_terms(tmp_path: Path) -> None:
    network = masked(tmp_path).load("y", batch=1, dims={"past": 15, "length": 1})
    assert network.macs == 16 * 4 * 4
    assert {t.name: t.elements for t in network.tensors}["mask"] == 16


def test_seq_binds_no_sum_that_has_the_sequence_in_it(tmp_path: Path) -> None:
    network = masked(tmp_path).load("y", batch=2, seq=3, dims={"length": 3, "past": 5})
    assert {t.name: t.elements for t in network.tensors}["mask"] == 2 * 8


def test_only_the_terms_of_a_computed_dimension_are_asked_for(tmp_path: Path) -> None:
    assert (
        refusal(masked(tmp_path), "y", batch=1)
        == "2 dimensions without a size: length, past; give `--dim length=VALUE --dim past=VALUE`"
    )


def test_a_sum_of_names_that_no_input_has_is_quoted_for_the_shell(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Relu", "y", s.input("x", 1, 2, "a + 2*b"))
    path = s.save("y")
    assert refusal(s, batch=1) == "1 dimension without a size: a + 2*b; give `--dim 'a + 2*b=VALUE'`"
    assert load_network(path, dims={"a": 3, "b": 4}).tensors[0].elements == 2 * 11
    assert load_network(path, dims={"a + 2*b": 5}).tensors[0].elements == 2 * 5


def test_an_option_that_binds_nothing_is_refused(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Relu", "y", s.input("x", "batch", 3, 4, 4))
    path = s.save("y")
    assert refusal(s, batch=2, dims={"batch": 1}) == (
        "--batch 2 has no dimension to size: other options say batch=1; leave one of them out"
    )
    assert refusal(s, seq=2) == (
        "--seq 2 has no dimension to size: of those without a size (batch) none is a sequence; leave it out, "
        "or size by name: `--dim batch=VALUE`"
    )
    assert load_network(path, batch=2, dims={"batch": 2}).tensors[0].elements == 2 * 48


def test_a_difference_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Relu", "y", s.input("x", "n", 2, "n - 3"))
    assert refusal(s, "y", dims={"n": 2}) == (
        "the bound dimensions leave n - 3 = -1; every dimension must be from 0 to 2^63 - 1"
    )


@pytest.mark.parametrize(
    "name", ["batch", "batch size", "f(x)", "a ** b", "a if b else c", "1", "a +", "a + 1.5", f"{300 * 'a'} + b"]
)
def test_other_names_are_names(name: str) -> None:
    assert expressions.terms(name) == frozenset()


def test_division_by_nothing_has_no_value() -> None:
    assert expressions.value("a // b", {"a": 1, "b": 0}) is None
    assert expressions.value("2 * (a - b) // 3", {"a": 9, "b": 3}) == 4


@pytest.mark.parametrize("stored", [True, False])
def test_a_shape_in_another_file_is_read_if_it_is_there(tmp_path: Path, stored: bool) -> None:
    s = Sketch(tmp_path)
    s.input("x", 3, 4)
    tensor = TensorProto(name="target", data_type=TensorProto.INT64, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "sizes.bin"), ("offset", "8"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    s.graph.initializer.append(tensor)
    s.add("MatMul", "y", s.add("Reshape", "r", "x", "target"), s.weight("w", 2, 5))
    if stored:
        (tmp_path / "sizes.bin").write_bytes(np.array([7, -1, 2], np.int64).tobytes())
        assert s.load("y").macs == 6 * 2 * 5
    else:
        assert refusal(s, "y").splitlines()[1] == (
            "  r: Reshape (ai.onnx 17) [3x4, 2] -> [?]: the contents of its constant 'target' are not known: they are large, "
            "or in a file that is missing; put the file of external data next to the model, or store the constant in the model"
        )


def test_data_of_a_function_is_kept_in_the_folder_too(tmp_path: Path) -> None:
    weight = TensorProto(name="k", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="../secret")
    body = [helper.make_node("Constant", [], ["k"], value=weight), helper.make_node("MatMul", ["a", "k"], ["b"])]
    s = Sketch(tmp_path)
    s.add("Linear", "y", s.input("x", 2, 4), domain="mine")
    model = onnx.load(s.save("y"))
    model.functions.append(helper.make_function("mine", "Linear", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    onnx.save(model, s.path)
    with pytest.raises(InputError) as caught:
        load_network(s.path)
    assert (
        str(caught.value)
        == f"{s.path}: the data of 'k' is at '../secret', outside the model's folder; move it next to the model"
    )


@pytest.mark.parametrize(
    ("transposed", "left", "right"),
    [({}, (3, 4), (4, 5)), ({"transA": 1}, (4, 3), (4, 5)), ({"transB": 1, "alpha": 0.5}, (3, 4), (5, 4))],
)
def test_fused_matmul(
    tmp_path: Path, transposed: dict[str, Any], left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    s = Sketch(tmp_path)
    s.add("FusedMatMul", "y", s.input("x", 2, *left), s.weight("w", *right), domain="com.microsoft", **transposed)
    network = s.load("y")
    assert (network.macs, network.weight_elements) == (2 * 3 * 4 * 5, 20)
    assert len(network.places["data movement"]) == ("transA" in transposed)  # the weight is stored as it is needed
    assert not off_arrays(network) or "transA" in transposed


def test_bias_softmax_and_bias_add(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    product = s.add("MatMul", "p", s.input("x", 2, 3, 4, 5), s.weight("w", 5, 6))
    soft = s.add(
        "BiasSoftmax", "s", product, s.input("b", 2, 1, 1, 6), domain="com.microsoft", axis=3, is_inner_broadcast=0
    )
    s.add("BiasAdd", "y", soft, s.weight("c", 6), product, domain="com.microsoft")
    network = s.load("y")
    kinds = [(work.kind, work.elements) for operator in network.operators for work in operator.vector]
    assert sorted(kinds) == [("add", 144), ("add", 144), ("add", 144), ("softmax", 144)]


def array(*values: float, kind: type = np.int64) -> np.ndarray:
    return np.array(values, kind)


def fold(operator: str, arrays: list[np.ndarray], attributes: dict[str, Any]) -> np.ndarray | None:
    return folded("", operator, [Value(each.shape, "c", each) for each in arrays], attributes)


def test_folding_follows_onnx_where_numpy_does_not() -> None:
    largest = fold("Max", [array(2, 5), np.array(3)], {})
    assert largest is not None and largest.tolist() == [3, 5]
    power = fold("Pow", [array(2, 3), array(2.0, 0.5, kind=np.float32)], {})
    assert power is not None and power.dtype == np.int64 and power.tolist() == [4, 1]
    empty = fold("Reshape", [np.zeros((0, 3), np.int64), array(3, 0)], {"allowzero": 1})
    assert empty is not None and empty.shape == (3, 0)
    assert fold("Range", [np.array(0), np.array(2**40), np.array(1)], {}) is None
    infinite = fold("Div", [array(1, kind=np.float32), array(0, kind=np.float32)], {})
    assert infinite is not None and np.isinf(infinite).all()
    data, start, end, steps = (Value((len(n),), "c", array(*n)) for n in ([1, 2, 3], [0], [3], [2]))
    assert folded("", "Slice", [data, start, end, ABSENT, steps], {}) is None  # the steps are no axes
    for operator in ("Div", "Mod"):
        with pytest.raises(ZeroDivisionError):
            fold(operator, [array(1), array(0)], {})


def test_nothing_is_printed_while_constants_fold(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    s = Sketch(tmp_path)
    s.graph.initializer.append(numpy_helper.from_array(array(1, 0, kind=np.float32), "c"))
    s.add("Mul", "y", s.input("x", 2), s.add("Div", "d", "c", "c"))
    s.load("y")
    assert capfd.readouterr() == ("", "")


def test_names_that_parts_of_a_composite_would_have(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    gates = [s.weight("w", 1, 16, 3), s.weight("r", 1, 16, 4)]
    s.add("LSTM", "L", s.input("x", 4, 2, 3), *gates, outputs=["y"], hidden_size=4)
    taken = next(node for node in s.load("y").operators[0].nodes if "#" in node)
    s.add("Relu", "other", "x", outputs=[taken])
    del s.graph.output[:]
    assert (
        refusal(s, "y", taken)
        .splitlines()[1]
        .endswith(
            f"a value within it would be called {taken!r}, as another of the file is; rename the value or the node"
        )
    )


def test_a_generated_id_is_never_the_name_of_another_node(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "", s.input("x", 1, 4), s.weight("w", 4, 4), outputs=["a"])
    s.add("MatMul", "MatMul_0", "a", "w", outputs=["b"])
    s.add("MatMul", "line\nbreak", "b", "w", outputs=["y"])
    assert [operator.name for operator in s.load("y").operators] == ["MatMul_0_", "MatMul_0", "line\\nbreak"]
