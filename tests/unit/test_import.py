"""From ONNX nodes to operators, tensors and reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import numpy_helper

from cmswitch.graph import load_network
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator, Read
from tests.compiled import off_arrays
from tests.sketch import Sketch


def product(network: Network, index: int = 0) -> MatrixProduct:
    found = network.operators[index].product
    assert found is not None
    return found


def reads(network: Network, operator: Operator) -> dict[tuple[str, str], Read]:
    return {(network.tensors[read.tensor].name, read.role): read for read in operator.reads}


def work(operator: Operator) -> list[tuple[str, str, int]]:
    return [(v.node, v.kind, v.elements) for v in operator.vector]


def test_grouped_strided_convolution(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add(
        "Conv",
        "conv",
        s.input("x", 2, 8, 15, 11),
        s.weight("w", 6, 4, 3, 3),
        group=2,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    )
    network = s.load("conv")
    assert product(network) == MatrixProduct(rows=2 * 8 * 6, inner=36, columns=3, groups=2, weight="w")
    (operator,) = network.operators
    assert operator.chunks == 2 * 8
    (read,) = operator.reads
    assert (read.elements, read.expanded_elements) == (2 * 8 * 15 * 11, 2 * 8 * 6 * 36 * 2)


def test_one_and_three_dimensional_convolutions(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Conv", "line", s.input("x", 1, 4, 1000), s.weight("w", 6, 4, 5), pads=[2, 2])
    s.add("Conv", "volume", s.input("y", 1, 2, 4, 6, 8), s.weight("v", 3, 2, 1, 3, 3))
    network = s.load("line", "volume")
    assert (product(network, 0).rows, network.operators[0].chunks) == (1000, 250)
    assert (product(network, 1).rows, network.operators[1].chunks) == (4 * 4 * 6, 4 * 4)


def test_gemm_transpositions_and_constant_left(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Gemm", "plain", s.input("x", 3, 5), s.weight("w", 7, 5), transB=1)
    s.add("Gemm", "turned", s.weight("v", 5, 4), s.input("y", 5, 9), transA=1)
    network = s.load("plain", "turned")
    assert product(network, 0) == MatrixProduct(3, 5, 7, 1, "w")
    assert product(network, 1) == MatrixProduct(9, 5, 4, 1, "v")


def test_matmul_batches(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 2, 3, 10, 4), s.input("y", 2, 3, 4, 6), s.input("z", 4)
    s.add("MatMul", "shared", "x", s.weight("w", 4, 5))
    s.add("MatMul", "separate", "x", s.weight("v", 3, 4, 5))
    s.add("MatMul", "dynamic", "x", "y")
    s.add("MatMul", "left", s.weight("u", 8, 10), "x")
    s.add("MatMul", "vector", "z", "w")
    network = s.load("shared", "separate", "dynamic", "left", "vector")
    assert product(network, 0) == MatrixProduct(60, 4, 5, 1, "w")
    assert product(network, 1) == MatrixProduct(20, 4, 5, 3, "v")
    assert product(network, 2) == MatrixProduct(10, 4, 6, 6, None)
    assert product(network, 3) == MatrixProduct(24, 10, 8, 1, "u")
    assert product(network, 4) == MatrixProduct(1, 4, 5, 1, "w")
    assert [o.chunks for o in network.operators] == [60, 20, 10, 24, 1]
    assert set(reads(network, network.operators[2])) == {("x", "matrix"), ("y", "operand")}
    assert network.weight_elements == 20 + 60 + 80  # w is stored once


def test_tied_weights_through_views(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 2, 4), s.weight("w", 6, 4)
    s.add("Transpose", "w_t", "w", perm=[1, 0])
    s.add("Identity", "w_i", "w_t")
    s.add("MatMul", "up", "x", "w_i")
    s.add("MatMul", "down", "up", "w")
    network = s.load("down")
    assert [product(network, i).weight for i in range(2)] == ["w", "w"]
    assert network.weight_elements == 24


def test_initializers_listed_as_inputs_are_weights(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 2, 4), s.input("w", 4, 3), s.weight("w", 4, 3)
    s.add("MatMul", "m", "x", "w")
    network = s.load("m")
    assert product(network).weight == "w"
    assert [t.name for t in network.tensors] == ["x", "m"]


def test_weights_that_nodes_compute(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 2, 4)
    s.add("ConstantOfShape", "w", s.ints("shape", 4, 3), value=numpy_helper.from_array(np.ones(1, np.float32)))
    s.add("MatMul", "m", "x", "w")
    assert product(s.load("m")).weight == "w"


def test_batch_normalization_after_a_single_consumer_convolution_costs_nothing(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    parameters = [s.weight(name, 2) for name in ("scale", "shift", "mean", "variance")]
    s.add("Conv", "alone", s.input("x", 1, 2, 4, 4), s.weight("w", 2, 2, 1, 1))
    s.add("BatchNormalization", "folded", "alone", *parameters)
    s.add("Conv", "read_twice", "folded", s.weight("v", 2, 2, 1, 1))
    s.add("BatchNormalization", "kept", "read_twice", *parameters)
    s.add("Add", "sum", "kept", "read_twice")
    network = s.load("sum")
    first, second = network.operators
    assert (first.nodes, work(first)) == (("alone", "folded"), [])
    assert work(second) == [("kept", "elementwise", 32), ("sum", "add", 32)]
    assert off_arrays(network) == {"kept", "sum"}


def test_batch_normalization_whose_statistics_are_read_is_not_part_of_the_convolution(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    parameters = [s.weight(name, 2) for name in ("scale", "shift", "mean", "variance")]
    s.add("Conv", "conv", s.input("x", 1, 2, 4, 4), s.weight("w", 2, 2, 1, 1))
    s.add("BatchNormalization", "trains", "conv", *parameters, outputs=["y", "new_mean", ""], training_mode=1)
    s.add("Relu", "reads", "new_mean")
    (operator,) = s.load("y", "reads").operators
    assert work(operator) == [("trains", "normalization", 32), ("reads", "elementwise", 2)]


def test_a_node_without_inputs_runs_with_what_reads_it(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Conv", "conv", s.input("x", 1, 2, 4, 4), s.weight("w", 2, 2, 1, 1))
    s.add("RandomNormal", "noise", shape=[1, 2, 4, 4])
    s.add("Add", "noisy", "conv", "noise")
    first, second = s.load("noisy").operators
    assert work(first) == [("noise", "host", 32)]
    assert work(second) == [("noisy", "add", 32)]


def test_residual_reads_its_shortcut_once_per_role(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Conv", "c0", s.input("x", 1, 2, 6, 6), s.weight("w0", 2, 2, 3, 3), pads=[1] * 4)
    s.add("Relu", "r0", "c0")
    s.add("Conv", "c1", "r0", s.weight("w1", 2, 2, 3, 3), pads=[1] * 4)
    s.add("Add", "a1", "c1", "r0")
    s.add("Mul", "m1", "a1", "r0")
    network = s.load("m1")
    found = reads(network, network.operators[1])
    assert found["r0", "matrix"].need == Need(1, 1, 2, 3)
    assert found["r0", "side"].need == Need(1, 1, 1, 1)
    assert len(found) == 2
    assert [t.name for t in network.tensors] == ["x", "r0", "m1"]  # c0, c1 and a1 stay inside their operators
    assert network.consumers[1] == (1,)


def test_join_is_fused_into_the_latest_producer(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 1, 2, 6, 6)
    s.add("Conv", "left", "x", s.weight("w0", 3, 2, 1, 1))
    s.add("Conv", "right", "x", s.weight("w1", 2, 2, 3, 3), pads=[1] * 4)
    s.add("Concat", "joined", "left", "right", axis=1)
    network = s.load("joined")
    left, right = network.operators
    assert left.vector == ()
    assert work(right) == [("joined", "copy", 180)]
    assert not right.vector[0].columnwise
    assert reads(network, right)["left", "side"].elements == 108


def test_views_create_no_tensor(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Conv", "c", s.input("x", 1, 2, 4, 4), s.weight("w", 3, 2, 1, 1))
    s.add("Identity", "i", "c")
    s.add("Flatten", "f", "i")
    s.add("Gemm", "g", "f", s.weight("v", 48, 5))
    s.add("Dropout", "d", "g")
    network = s.load("d")
    assert [t.name for t in network.tensors] == ["x", "c", "g"]
    assert work(network.operators[0]) == [("i", "view", 48), ("f", "view", 48)]
    assert reads(network, network.operators[1])["c", "matrix"].need == Need.whole(4)
    assert [t.is_output for t in network.tensors] == [False, False, True]


def test_view_of_a_network_input_belongs_to_its_reader(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Unsqueeze", "u", s.input("x", 2, 6, 6), s.ints("axis", 0))
    s.add("Conv", "c", "u", s.weight("w", 3, 2, 1, 1))
    (operator,) = s.load("c").operators
    assert (operator.nodes, work(operator)) == (("c", "u"), [("u", "view", 72)])


def test_work_on_inputs_alone_is_one_vector_only_operator_in_front(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("mask", 1, 8), s.input("x", 1, 8, 4)
    s.add("MatMul", "m", "x", s.weight("w", 4, 4))
    s.add("Unsqueeze", "u", "mask", s.ints("axis", 2))
    s.add("Sub", "inverted", s.weight("one"), "u")
    s.add("Mul", "masked", "m", "inverted")
    network = s.load("masked")
    first, second = network.operators
    assert first.product is None
    assert (first.nodes, first.chunks) == (("u", "inverted"), 8)
    assert second.name == "m"
    assert reads(network, second)["inverted", "side"].need == Need(1, 1, 1, 1)


def test_readers_wait_for_all_of_a_global_pooling(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Conv", "c", s.input("x", 1, 2, 4, 4), s.weight("w", 3, 2, 1, 1))
    s.add("GlobalAveragePool", "p", "c")
    s.add("Flatten", "f", "p")
    s.add("Gemm", "g", "f", s.weight("v", 3, 5))
    network = s.load("g")
    assert reads(network, network.operators[1])["p", "matrix"].need == Need.whole(4)
    assert work(network.operators[0]) == [("p", "reduce", 48), ("f", "view", 3)]


def test_pooling_work_is_outputs_times_window(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Conv", "c", s.input("x", 1, 2, 8, 8), s.weight("w", 3, 2, 1, 1))
    s.add("MaxPool", "p", "c", kernel_shape=[2, 2], strides=[2, 2])
    assert work(s.load("p").operators[0]) == [("p", "pool", 3 * 16 * 4)]


def test_names_are_made_unique(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Relu", "n", s.input("x", 2, 4), outputs=["a"])
    s.add("MatMul", "n", "a", s.weight("w", 4, 4), outputs=["b"])
    s.add("Relu", "", "b", outputs=["c"])
    network = s.load("c")
    assert [o.nodes for o in network.operators] == [("n",), ("MatMul_1", "Relu_2")]


def test_nodes_out_of_order_are_sorted(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 2, 4)
    s.add("MatMul", "second", "first", s.weight("w", 4, 4))
    s.add("MatMul", "first", "x", "w")
    assert [o.name for o in s.load("second").operators] == ["first", "second"]


def test_dead_nodes_do_not_matter(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "used", s.input("x", 2, 4), s.weight("w", 4, 4))
    s.add("NonZero", "unused", "used")
    network = s.load("used")
    assert network.node_count == 2
    assert [o.nodes for o in network.operators] == [("used",)]


def test_shape_chain_folds(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "m", s.input("x", "batch", 6, 4), s.weight("w", 4, 8))
    s.add("Shape", "shape", "m")
    s.add("Gather", "first", "shape", s.ints("zero", 0), axis=0)
    s.add("Concat", "target", "first", s.ints("rest", -1, 4), axis=0)
    s.add("Reshape", "r", "m", "target")
    s.add("MatMul", "n", "r", s.weight("v", 4, 5))
    network = s.load("n", batch=3)
    assert product(network, 1) == MatrixProduct(36, 4, 5, 1, "v")
    assert network.operators[0].nodes == ("m", "r")


def test_dimensions_bind_by_name_batch_and_seq(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "m", s.input("x", "N", "tokens", "width"), s.weight("w", 4, 4))
    network = s.load("m", batch=2, seq=5, dims={"width": 4})
    assert product(network).rows == 10
    assert product(load_network(s.path, dims={"N": 3, "tokens": 7, "width": 4})).rows == 21


def test_external_data_is_not_needed(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "m", s.input("x", 2, 4), s.external_weight("w", 4, 4, location="not-there.bin"))
    assert product(s.load("m")).weights == 16


def test_dynamic_operand_waits_for_everything(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 1, 8, 4)
    s.add("MatMul", "q", "x", s.weight("w", 4, 4))
    s.add("MatMul", "k", "x", s.weight("v", 4, 4))
    s.add("Transpose", "kt", "k", perm=[0, 2, 1])
    s.add("MatMul", "qk", "q", "kt")
    s.add("Softmax", "soft", "qk", axis=-1)
    network = s.load("soft")
    found = reads(network, network.operators[2])
    assert found["q", "matrix"].need == Need(1, 1, 1, 1)
    assert found["kt", "operand"].need == Need.whole(8)
    assert product(network, 2).dynamic
    assert not network.operators[2].vector[0].columnwise


def test_convolution_by_an_activation_is_dynamic(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Conv", "c", s.input("x", 1, 2, 4, 4), s.input("kernel", 3, 2, 3, 3))
    network = s.load("c")
    assert product(network) == MatrixProduct(4, 18, 3, 1, None)
    assert set(reads(network, network.operators[0])) == {("x", "matrix"), ("kernel", "operand")}
