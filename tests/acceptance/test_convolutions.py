"""Convolutions as exporters write them: dynamic batches, groups, paddings, other ranks, normalisation after them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cmswitch.cli import main
from cmswitch.errors import InputError
from cmswitch.graph import MatrixProduct, Network
from tests.compiled import compiled, off_arrays, on_arrays
from tests.sketch import Sketch


def convolution(folder: Path, data: tuple[int | str, ...], weight: tuple[int, ...], **attributes: Any) -> Sketch:
    """A file whose only node is the convolution ``conv``."""
    s = Sketch(folder)
    s.add("Conv", "conv", s.input("x", *data), s.weight("w", *weight), **attributes)
    return s


def only(network: Network) -> MatrixProduct:
    """The product of a network of one operator on the arrays, with nothing on the vector unit or the host."""
    (operator,) = network.operators
    assert operator.product is not None
    assert (on_arrays(network), off_arrays(network), network.host_nodes) == ({operator.nodes[0]}, set(), ())
    return operator.product


@pytest.mark.parametrize("options", [{"batch": 3}, {"dims": {"images": 3}}])
def test_dynamic_batch_that_is_bound(tmp_path: Path, options: dict[str, object]) -> None:
    network = convolution(tmp_path, ("images", 4, 10, 12), (8, 4, 3, 3), pads=[1] * 4).load("conv", **options)
    assert only(network) == MatrixProduct(rows=3 * 10 * 12, inner=4 * 9, columns=8, weight="w")
    assert network.macs == 3 * 10 * 12 * 8 * 4 * 9
    assert [t.elements for t in network.tensors] == [3 * 4 * 10 * 12, 3 * 8 * 10 * 12]
    compiled(network)


def test_dynamic_batch_that_is_not_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = convolution(tmp_path, ("images", 4, 10, 12), (8, 4, 3, 3)).save("conv")
    assert main(["solve", str(path), "--hw", "dynaplasia"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "1 dimension without a size: images; give `--dim images=VALUE`" in err


@pytest.mark.parametrize(("groups", "columns"), [(2, 6), (8, 1), (8, 3)], ids=["two", "depthwise", "multiplied"])
def test_groups(tmp_path: Path, groups: int, columns: int) -> None:
    weight = (groups * columns, 8 // groups, 3, 3)
    network = convolution(tmp_path, (1, 8, 7, 5), weight, group=groups, pads=[1] * 4).load("conv")
    assert only(network) == MatrixProduct(7 * 5, 8 // groups * 9, columns, groups, "w")
    assert network.macs == 7 * 5 * groups * columns * (8 // groups) * 9
    compiled(network)


def test_three_groups_of_four_channels(tmp_path: Path) -> None:
    s = convolution(tmp_path, (1, 4, 6, 6), (6, 1, 3, 3), group=3)
    with pytest.raises(InputError) as caught:
        s.load("conv")
    assert "conv: Conv (ai.onnx 17) [1x4x6x6, 6x1x3x3]" in str(caught.value)
    assert "`group` 3 does not divide 4 input channels" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "attributes", "outputs"),
    [
        ((7, 5), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (4, 3)),
        ((7, 5), {"pads": [1, 0, 1, 0], "strides": [2, 2]}, (4, 2)),
        ((2, 2), {"pads": [1, 1, 1, 1]}, (2, 2)),
        ((7, 5), {"auto_pad": "VALID", "strides": [2, 2]}, (3, 2)),
        ((9, 9), {"dilations": [2, 2], "pads": [2, 2, 2, 2]}, (9, 9)),
    ],
    ids=["same_upper", "asymmetric", "map_smaller_than_kernel", "valid", "dilated"],
)
def test_paddings(
    tmp_path: Path, data: tuple[int, int], attributes: dict[str, str | list[int]], outputs: tuple[int, int]
) -> None:
    height, width = outputs
    network = convolution(tmp_path, (1, 3, *data), (5, 3, 3, 3), **attributes).load("conv")
    assert only(network) == MatrixProduct(height * width, 27, 5, 1, "w")
    assert network.macs == height * width * 5 * 27
    assert network.tensors[-1].elements == 5 * height * width
    assert network.operators[0].chunks == height
    compiled(network)


def test_kernel_that_does_not_fit_its_map(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="conv"):
        convolution(tmp_path, (1, 3, 2, 2), (5, 3, 3, 3)).load("conv")


def test_one_dimension_with_a_kernel_of_128_in_16_groups(tmp_path: Path) -> None:
    network = convolution(tmp_path, (1, 768, 50), (768, 48, 128), group=16, pads=[64, 64]).load("conv")
    assert only(network) == MatrixProduct(rows=51, inner=48 * 128, columns=48, groups=16, weight="w")
    assert network.macs == 51 * 768 * 48 * 128 == 240_648_192
    assert network.weight_elements == 768 * 48 * 128
    compiled(network)


def test_three_dimensions(tmp_path: Path) -> None:
    s = convolution(tmp_path, (2, 3, 8, 10, 12), (6, 3, 3, 3, 3), strides=[1, 2, 2], pads=[1] * 6)
    network = s.load("conv")
    assert only(network) == MatrixProduct(rows=2 * 8 * 5 * 6, inner=81, columns=6, weight="w")
    assert network.macs == 2 * 8 * 5 * 6 * 6 * 81
    compiled(network)


def test_normalisation_is_folded_into_a_convolution_that_nothing_else_reads(tmp_path: Path) -> None:
    def sketch(*layers: str) -> Sketch:
        s = convolution(tmp_path, (1, 8, 16, 16), (8, 8, 3, 3), pads=[1] * 4)
        parameters = [s.weight(name, 8) for name in ("scale", "shift", "mean", "variance")]
        if "normalise" in layers:
            s.add("BatchNormalization", "normal", "conv", *parameters)
        if "add" in layers:
            s.add("Add", "sum", "normal" if "normalise" in layers else "conv", "conv")
        return s

    alone, one = sketch().load("conv"), sketch("normalise").load("normal")
    assert one.operators[0].nodes == ("conv", "normal")
    assert (off_arrays(one), one.host_nodes) == (set(), ())
    assert compiled(one).certificate.objective_cycles == compiled(alone).certificate.objective_cycles

    two, without = sketch("normalise", "add").load("sum"), sketch("add").load("sum")
    assert (off_arrays(two), two.host_nodes) == ({"normal", "sum"}, ())
    assert [(v.node, v.elements) for v in two.operators[0].vector] == [("normal", 8 * 256), ("sum", 8 * 256)]
    assert one.macs == two.macs == 256 * 8 * 72
    assert compiled(two).certificate.objective_cycles > compiled(without).certificate.objective_cycles
