"""Matrix products in all the forms in which files write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cmswitch.graph import MatrixProduct, Network
from tests.compiled import compiled, off_arrays, on_arrays
from tests.sketch import Sketch


def plain(s: Sketch) -> None:
    s.add("Gemm", "y", s.input("x", 24, 64), s.weight("w", 64, 96))


def weight_transposed(s: Sketch) -> None:
    s.add("Gemm", "y", s.input("x", 24, 64), s.weight("w", 96, 64), transB=1)


def data_transposed(s: Sketch) -> None:
    s.add("Gemm", "y", s.input("x", 64, 24), s.weight("w", 64, 96), transA=1)


def scaled(s: Sketch) -> None:
    s.add("Gemm", "y", s.input("x", 24, 64), s.weight("w", 64, 96), alpha=0.5)


def scalar_bias(s: Sketch) -> None:
    s.add("Gemm", "y", s.input("x", 24, 64), s.weight("w", 64, 96), s.weight("c"), beta=2.0)


def row_bias(s: Sketch) -> None:
    s.add("Gemm", "y", s.input("x", 24, 64), s.weight("w", 64, 96), s.weight("c", 96))


def everything(s: Sketch) -> None:
    inputs = s.input("x", 64, 24), s.weight("w", 96, 64), s.weight("c", 1, 96)
    s.add("Gemm", "y", *inputs, transA=1, transB=1, alpha=0.5, beta=2.0)


def matmul(s: Sketch) -> None:
    s.add("MatMul", "y", s.input("x", 24, 64), s.weight("w", 64, 96))


@pytest.fixture(scope="module")
def plain_cycles(tmp_path_factory: pytest.TempPathFactory) -> int:
    s = Sketch(tmp_path_factory.mktemp("plain"))
    plain(s)
    return compiled(s.load("y")).certificate.objective_cycles


@pytest.mark.parametrize(
    "form", [weight_transposed, data_transposed, scaled, scalar_bias, row_bias, everything, matmul]
)
def test_equivalent_forms_cost_the_same(tmp_path: Path, form: Callable[[Sketch], None], plain_cycles: int) -> None:
    s = Sketch(tmp_path)
    form(s)
    network = s.load("y")
    assert [o.product for o in network.operators] == [MatrixProduct(24, 64, 96, 1, "w")]
    assert network.macs == 24 * 64 * 96
    assert (off_arrays(network), network.host_nodes) == (set(), ())
    assert compiled(network).certificate.objective_cycles == plain_cycles


def test_constant_on_the_left(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "y", s.weight("w", 80, 64), s.input("x", 2, 64, 10))
    network = s.load("y")
    assert [o.product for o in network.operators] == [MatrixProduct(2 * 10, 64, 80, 1, "w")]
    assert network.macs == 2 * 80 * 64 * 10
    assert network.weight_elements == 80 * 64
    compiled(network)


def einsum(folder: Path, equation: str) -> Network:
    s = Sketch(folder)
    s.add("Einsum", "scores", s.input("q", 2, 3, 7, 16), s.input("k", 2, 3, 11, 16), equation=equation)
    return s.load("scores")


@pytest.mark.parametrize("equation", ["bhid,bhjd->bhij", "...id,...jd->...ij", "bhid, bhjd -> bhij"])
def test_einsum(tmp_path: Path, equation: str) -> None:
    network = einsum(tmp_path, equation)
    (product,) = [o.product for o in network.operators if o.product]
    assert (product.groups, product.inner, {product.rows, product.columns}) == (2 * 3, 16, {7, 11})
    assert product.dynamic
    assert network.macs == 2 * 3 * 7 * 11 * 16
    assert network.tensors[-1].elements == 2 * 3 * 7 * 11
    assert (on_arrays(network), network.host_nodes) == ({"scores"}, ())
    written_out = einsum(tmp_path, "bhid,bhjd->bhij")
    assert compiled(network).certificate.objective_cycles == compiled(written_out).certificate.objective_cycles


def test_weights_through_constant_and_transpose(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Constant", "stored", value_floats=[0.0] * 12)
    s.add("Reshape", "matrix", "stored", s.ints("shape", 3, 4))
    s.add("Transpose", "turned", "matrix", perm=[1, 0])
    s.add("MatMul", "y", s.input("x", 5, 4), "turned")
    network = s.load("y")
    assert [o.product for o in network.operators] == [MatrixProduct(5, 4, 3, 1, "stored")]
    assert network.macs == 5 * 4 * 3
    assert (on_arrays(network), off_arrays(network), network.host_nodes) == ({"y"}, set(), ())
    compiled(network)


def test_file_of_version_3_that_lists_its_weights_as_inputs(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opset=8, ir_version=3)
    s.add("Conv", "conv", s.input("x", 1, 3, 6, 6), s.weight("w", 4, 3, 3, 3), s.weight("b", 4))
    s.input("w", 4, 3, 3, 3), s.input("b", 4)
    network = s.load("conv")
    assert [o.product for o in network.operators] == [MatrixProduct(16, 27, 4, 1, "w")]
    assert [t.name for t in network.tensors] == ["x", "conv"]
    assert network.macs == 16 * 27 * 4
    compiled(network)


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "up", s.input("x", 6, 64), s.weight("w", 64, 96))
    s.add("Relu", "act", "up")
    s.add("Gemm", "down", "act", "w", transB=1)
    network = s.load("down")
    assert [o.product.weight for o in network.operators if o.product] == ["w", "w"]
    assert network.weight_elements == 64 * 96
    assert network.macs == 2 * 6 * 64 * 96
    compiled(network)


def test_bias_that_is_added_by_broadcasting(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "product", s.input("x", 2, 6, 32), s.weight("w", 32, 48))
    s.add("Add", "bias", s.weight("b", 48), "product")
    network = s.load("bias")
    (operator,) = network.operators
    assert operator.nodes == ("product", "bias")
    assert [(v.node, v.elements) for v in operator.vector] == [("bias", 2 * 6 * 48)]
    assert (network.macs, network.host_nodes) == (2 * 6 * 32 * 48, ())
    assert [t.name for t in network.tensors] == ["x", "bias"]
    compiled(network)
