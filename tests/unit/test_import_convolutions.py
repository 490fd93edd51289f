"""Transposed, deformable and sampled convolutions, and blocks that overlap: sizes, work and needs computed by hand."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cmswitch.errors import InputError
from cmswitch.graph import load_network
from cmswitch.graph.network import MatrixProduct
from tests.expanded import BackendCase, backend_cases, check_numbers, numbered
from tests.sketch import Sketch
from tests.unit.test_import import product, reads, work


def test_transposed_convolution_multiplies_every_input_position_by_the_kernel(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 2, 8, 5, 7)
    s.add("ConvTranspose", "c", "x", s.weight("w", 8, 3, 4, 4), group=2, strides=[2, 2], pads=[1, 1, 1, 1])
    network = s.load("c")
    (operator,) = network.operators
    assert operator.product == MatrixProduct(rows=2 * 5 * 7, inner=4, columns=3 * 16, groups=2, weight="w")
    assert network.macs == 2 * 5 * 7 * 8 * 3 * 16
    assert operator.chunks == 2 * 5
    assert [(kind, n) for _, kind, n in work(operator)] == [("add", 2 * 5 * 7 * 6 * 16)]
    assert [(t.elements, t.is_output) for t in network.tensors] == [(2 * 8 * 5 * 7, False), (2 * 6 * 10 * 14, True)]
    assert reads(network, operator)["x", "matrix"].expanded_elements == 2 * 5 * 7 * 8


def test_windows_that_do_not_overlap_are_copied(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("ConvTranspose", "c", s.input("x", 1, 2, 4, 4), s.weight("w", 2, 3, 2, 2), strides=[2, 2])
    (operator,) = s.load("c").operators
    assert [(kind, n) for _, kind, n in work(operator)] == [("copy", 16 * 3 * 4)]


@pytest.mark.parametrize(
    ("attributes", "needs"),
    [
        # output row o is complete after input row floor((o + pad) / 2)
        ({"pads": [1, 0, 1, 0]}, [1, 2, 2, 3, 3, 4, 4, 4]),
        ({"pads": [2, 0, 0, 0]}, [2, 2, 3, 3, 4, 4, 4, 4]),
        ({"output_shape": [8, 1], "auto_pad": "SAME_UPPER"}, [1, 2, 2, 3, 3, 4, 4, 4]),
        ({"output_shape": [7, 1], "auto_pad": "SAME_UPPER"}, [1, 2, 2, 3, 3, 4, 4]),  # 3 cut off: 1 and 2
        ({"output_shape": [7, 1], "auto_pad": "SAME_LOWER"}, [2, 2, 3, 3, 4, 4, 4]),  # 2 and 1
        ({"output_shape": [7, 1]}, [2, 2, 3, 3, 4, 4, 4]),
        ({"pads": [1, 0, 1, 0], "output_padding": [1, 0]}, [1, 2, 2, 3, 3, 4, 4, 4, 4]),
    ],
)
def test_output_rows_wait_for_the_input_rows_over_them(
    tmp_path: Path, attributes: dict[str, Any], needs: list[int]
) -> None:
    s = Sketch(tmp_path)
    weight = s.weight("w", 2, 3, 4, 1)
    s.add("ConvTranspose", "up", s.input("x", 1, 2, 4, 1), weight, strides=[2, 1], **attributes)
    s.add("Conv", "c", "up", s.weight("v", 2, 3, 1, 1))
    network = s.load("c")
    (read,) = network.operators[1].reads
    assert network.operators[1].chunks == len(needs)
    assert [read.need.chunks(row, 4) for row in range(len(needs))] == needs
    assert read.need.span == 2


def test_normalization_and_constant_bias_cost_nothing_after_a_transposed_convolution(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    parameters = [s.weight(name, 3) for name in ("scale", "shift", "mean", "variance")]
    s.add("ConvTranspose", "c", s.input("x", 1, 2, 4, 4), s.weight("w", 2, 3, 2, 2), s.weight("b", 3))
    s.add("BatchNormalization", "n", "c", *parameters)
    (operator,) = s.load("n").operators
    assert [kind for _, kind, _ in work(operator)] == ["add"]
    assert operator.nodes[-1] == "n"


def test_bias_that_is_an_activation_is_added(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("ConvTranspose", "c", s.input("x", 1, 2, 4, 4), s.weight("w", 2, 3, 2, 2), s.input("b", 3))
    (operator,) = s.load("c").operators
    assert [(kind, n) for _, kind, n in work(operator) if kind == "add"] == [("add", 16 * 12), ("add", 75)]


def test_a_weight_for_other_channels_is_refused(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("ConvTranspose", "c", s.input("x", 1, 4, 4, 4), s.weight("w", 6, 3, 2, 2), group=2)
    with pytest.raises(InputError, match="`group` 2 does not divide 4 input channels, of which the weight has 6"):
        s.load("c")


@pytest.mark.parametrize("case", backend_cases("ConvTranspose"), ids=lambda case: str(case.name))
def test_transposed_cases_of_onnx(case: BackendCase, tmp_path: Path) -> None:
    network = load_network(case.save(tmp_path))
    data, weight = case.shape(0), case.shape(1)
    assert network.macs == prod(data) * prod(weight[1:])
    assert product(network).dynamic
    assert sum(t.elements for t in network.tensors if t.is_output) == case.wanted[0].size


@pytest.mark.parametrize("case", backend_cases("DeformConv"), ids=lambda case: str(case.name))
def test_deformable_convolution_samples_then_multiplies(case: BackendCase, tmp_path: Path) -> None:
    network = load_network(case.save(tmp_path))
    sampled, multiplied = network.operators
    weight, out = case.shape(1), case.wanted[0].shape
    rows, taps = out[0] * prod(out[2:]), prod(weight[2:])
    assert multiplied.product == MatrixProduct(rows, weight[1] * taps, weight[0], 1)
    corners = 4 + ("mask" in case.given)
    assert [(k, n) for _, k, n in work(sampled) if k != "view"] == [
        ("gather", rows * case.shape(0)[1] * taps * corners)
    ]


def test_deformable_convolution_keeps_its_weight(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opset=19)
    s.input("x", 1, 4, 6, 6), s.input("offset", 1, 2 * 9, 6, 6)
    s.add("DeformConv", "c", "x", s.weight("w", 6, 2, 3, 3), "offset", group=2, pads=[1, 1, 1, 1])
    network = s.load("c")
    assert product(network, 1) == MatrixProduct(rows=36, inner=18, columns=3, groups=2, weight="w")


APART = ("test_col2im", "test_col2im_5d")
"""Blocks of one row that are as wide as the image."""


@pytest.mark.parametrize("case", backend_cases("Col2Im"), ids=lambda case: str(case.name))
def test_blocks_that_overlap_are_added(case: BackendCase, tmp_path: Path) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for name in ("image_shape", "block_shape"):
        model.graph.initializer.append(numpy_helper.from_array(case.given[name], name))
    network = load_network(BackendCase(case.name, model, case.given, case.wanted).save(tmp_path))
    ((_, kind, elements),) = work(network.operators[0])
    assert (kind, elements) == ("copy" if case.name in APART else "add", case.given["input"].size)


def test_sampling_reads_the_corners_of_every_place(tmp_path: Path) -> None:
    cases = {case.name: case for case in backend_cases("GridSample")}
    for name, corners in (("bilinear", 4), ("nearest", 1), ("bicubic", 16), ("volumetric_bilinear_align_corners_0", 8)):
        case = cases[f"test_gridsample_{name}"]
        ((_, kind, elements),) = work(load_network(case.save(tmp_path)).operators[0])
        assert (kind, elements) == ("gather", case.wanted[0].size * corners), name


def test_sampling_waits_for_the_whole_image_and_for_its_own_places(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opset=20)
    s.add("Conv", "image", s.input("x", 2, 3, 8, 8), s.weight("w", 4, 3, 1, 1))
    s.add("MatMul", "grid", s.input("z", 2, 6, 5, 7), s.weight("v", 7, 2))
    s.add("GridSample", "y", "image", "grid")
    network = s.load("y")
    image, grid = network.operators
    need = reads(network, grid)["image", "side"].need
    assert grid.chunks == 60 and image.chunks == 16
    assert need.chunks(0, 16) == 8 and need.chunks(29, 16) >= 8 and need.chunks(59, 16) == 16
    (output,) = [t for t in network.tensors if t.is_output]
    assert output.elements == 2 * 4 * 6 * 5


def shapes_of(seed: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that can be multiplied: 1-D, or with up to two batch axes that broadcast."""
    random = np.random.default_rng(seed)
    rows, inner, columns = (int(n) for n in random.integers(2, 6, 3))
    batch = [int(n) for n in random.integers(2, 5, 2)]

    def side(matrix: tuple[int, int], vector: tuple[int]) -> tuple[int, ...]:
        if random.random() < 0.2:
            return vector
        kept = [n if random.random() < 0.7 else 1 for n in batch][int(random.integers(0, 3)) :]
        return (*kept, *matrix)

    return side((rows, inner), (inner,)), side((inner, columns), (inner,))


@pytest.mark.parametrize("constant", ["none", "left", "right"])
@pytest.mark.parametrize("seed", range(12))
def test_every_form_of_matmul(seed: int, constant: str, tmp_path: Path) -> None:
    left, right = shapes_of(seed)
    s = Sketch(tmp_path)
    names = [
        s.weight(n, *shape) if constant == n else s.input(n, *shape) for n, shape in (("left", left), ("right", right))
    ]
    s.add("MatMul", "m", *names)
    network = s.load("m")
    found = product(network)
    out = np.matmul(np.zeros(left), np.zeros(right))
    assert found.macs == out.size * left[-1] and found.inner == left[-1]
    held = left if constant == "left" else right
    assert found.weights == prod(held)
    assert found.weight == (None if constant == "none" else constant)
    roles = {
        role: network.tensors[read.tensor].name for (_, role), read in reads(network, network.operators[0]).items()
    }
    streamed = "right" if constant == "left" else "left"
    assert roles == {"matrix": streamed, **({"operand": "right"} if constant == "none" else {})}


def test_a_product_of_constants_is_a_weight(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "w", s.weight("a", 4, 3), s.weight("b", 3, 5))
    s.add("MatMul", "m", s.input("x", 2, 4), "w")
    network = s.load("m")
    assert product(network) == MatrixProduct(2, 4, 5, 1, "w")


def test_gemm_of_activations_pays_for_what_constants_are_stored_with(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 3, 4), s.input("z", 5, 4), s.input("y", 4, 5), s.input("c", 5)
    s.add("Gemm", "plain", "x", "y")
    s.add("Gemm", "stored", "x", s.weight("w", 5, 4), transB=1, alpha=0.5)
    s.add("Gemm", "turned", "x", "z", "c", transB=1, alpha=0.5, beta=2.0)
    network = s.load("plain", "stored", "turned")
    prelude, *products = network.operators
    assert [(kind, n) for _, kind, n in work(prelude)] == [("elementwise", 12), ("copy", 20), ("elementwise", 5)]
    assert [o.product for o in products] == [MatrixProduct(3, 4, 5, 1, weight) for weight in (None, "w", None)]


def test_gemm_parts_compute_the_same() -> None:
    random = np.random.default_rng(5)
    names, given = numbered(*(random.normal(size=shape).astype(np.float32) for shape in ((4, 6), (5, 4), (5,))))
    attributes: dict[str, Any] = {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 3.0}
    check_numbers(helper.make_node("Gemm", names, ["y"], "n", **attributes), given)
