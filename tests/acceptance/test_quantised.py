"""Quantised forms: what is a product of integers is a product, and scales travel with the weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from cmswitch.errors import InputError
from cmswitch.graph import Network
from tests.compiled import compiled, off_arrays, on_arrays, sources
from tests.sketch import Sketch

UINT8 = int(TensorProto.UINT8)


def products(network: Network) -> list[tuple[int, int, int, int, str | None]]:
    """Rows, inner, columns, groups and weight of every product."""
    found = (operator.product for operator in network.operators if operator.product)
    return [(p.rows, p.inner, p.columns, p.groups, p.weight) for p in found]


def test_convolution_between_quantise_and_dequantise_nodes(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 1, 4, 8, 8)
    s.weight("scale"), s.weight("zero", dtype=np.int8)
    s.weight("w", 6, 4, 3, 3, dtype=np.int8), s.weight("scales", 6), s.weight("zeros", 6, dtype=np.int8)
    s.add("QuantizeLinear", "quantised", "x", "scale", "zero")
    s.add("DequantizeLinear", "data", "quantised", "scale", "zero")
    s.add("DequantizeLinear", "weights", "w", "scales", "zeros", axis=0)
    s.add("Conv", "conv", "data", "weights", pads=[1] * 4)
    s.add("QuantizeLinear", "q_out", "conv", "scale", "zero")
    s.add("DequantizeLinear", "y", "q_out", "scale", "zero")
    network = s.load("y")
    assert products(network) == [(64, 36, 6, 1, "w")]
    assert network.macs == 8 * 8 * 6 * 4 * 9
    assert network.weight_elements == 6 * 36
    assert (on_arrays(network), network.host_nodes) == ({"conv"}, ())
    assert sources(n for o in network.operators for n in o.nodes) == {"quantised", "data", "conv", "q_out", "y"}
    compiled(network)


def test_product_of_integers(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.input("x", 5, 64, dtype=UINT8)
    s.add("MatMulInteger", "product", "x", s.weight("w", 64, 96, dtype=np.int8), s.weight("zero", dtype=np.uint8))
    s.add("Cast", "y", "product", to=TensorProto.FLOAT)
    network = s.load("y")
    assert products(network) == [(5, 64, 96, 1, "w")]
    assert network.macs == 5 * 64 * 96
    assert (on_arrays(network), network.host_nodes) == ({"product"}, ())
    compiled(network)


def test_integers_from_floats_and_back(tmp_path: Path) -> None:
    """What dynamic quantisation writes: ranges at run time, an integer product, and its scale afterwards."""
    s = Sketch(tmp_path)
    s.add("DynamicQuantizeLinear", "quantise", s.input("x", 5, 64), outputs=("q", "scale", "zero"))
    s.add("MatMulInteger", "product", "q", s.weight("w", 64, 96, dtype=np.int8), "zero")
    s.add("Cast", "wide", "product", to=TensorProto.FLOAT)
    s.add("Mul", "scales", "scale", s.weight("w_scale"))
    s.add("Mul", "y", "wide", "scales")
    network = s.load("y")
    assert products(network) == [(5, 64, 96, 1, "w")]
    assert network.macs == 5 * 64 * 96
    assert network.host_nodes == ()
    assert {"quantise", "y"} <= sources(off_arrays(network))
    compiled(network)


def test_operator_of_a_foreign_domain(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opsets={"acme.vision": 3})
    s.add("Conv", "conv", s.input("x", 1, 4, 8, 8), s.weight("w", 6, 4, 3, 3))
    s.add("Conv", "same_name", "conv", s.weight("v", 6, 6, 1, 1), domain="acme.vision")
    with pytest.raises(InputError) as caught:
        s.load("same_name")
    first, line = str(caught.value).splitlines()
    assert first == "sketch: 1 node cannot be mapped"
    assert line.startswith("  same_name: Conv (acme.vision 3) [1x6x6x6, 6x6x1x1] -> [?]: ")
