"""Quantised and fused operators: which product each is, and the vector work around it."""

from __future__ import annotations

from importlib import import_module
from math import prod
from pathlib import Path

import onnx
import pytest
from onnx.backend.test.case import node

from cmswitch.errors import InputError
from cmswitch.graph import MatrixProduct, load_network
from cmswitch.graph.expand import EXPANSIONS
from cmswitch.graph.ir import Node
from tests.compiled import off_arrays
from tests.model_texts import Files, products, work

NODE_CASES = (
    "convinteger", "dequantizelinear", "dynamicquantizelinear", "matmulinteger", "qlinearconv", "qlinearmatmul",
    "quantizelinear",
)  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


SCALES = {"s": "float", "z": "uint8"}
OPERATORS = {
    "QLinearConv": (
        "g (uint8[1,4,8,8] x) => (uint8 y) { y = QLinearConv <pads = [1, 1, 1, 1]> (x, s, z, w, sw, zw, s, z, b) }",
        {"w": "int8[6,4,3,3]", "sw": "float[6]", "zw": "int8[6]", "b": "int32[6]", **SCALES},
        MatrixProduct(64, 36, 6, 1, "w", weight_bits=8),
        {},
    ),
    "QLinearConv channels last": (
        "g (uint8[1,8,7,4] x) => (uint8 y)"
        "{ y = com.microsoft.QLinearConv <channels_last = 1, group = 2, strides = [2, 1]> (x, s, z, w, s, z, s, z) }",
        {"w": "uint8[6,2,3,3]", **SCALES},
        MatrixProduct(15, 18, 3, 2, "w", weight_bits=8),
        {},
    ),
    "QLinearMatMul": (
        "g (uint8[2,5,64] x) => (uint8 y) { y = QLinearMatMul (x, s, z, w, sw, zw, s, z) }",
        {"w": "int8[64,90]", "sw": "float[90]", "zw": "int8[90]", **SCALES},
        MatrixProduct(10, 64, 90, 1, "w", weight_bits=8),
        {},
    ),
    "ConvInteger": (
        "g (uint8[1,4,9] x) => (int32 y) { y = ConvInteger <strides = [2]> (x, w, z) }",
        {"w": "int8[6,4,3]", **SCALES},
        MatrixProduct(4, 12, 6, 1, "w", weight_bits=8),
        {},
    ),
    "MatMulInteger": (
        "g (uint8[5,64] x, uint8 zx) => (int32 y) { y = MatMulInteger (x, w, zx, z) }",
        {"w": "uint8[64,90]", **SCALES},
        MatrixProduct(5, 64, 90, 1, "w", weight_bits=8),
        {"elementwise": 5 * 64},
    ),
    "QGemm": (
        "g (uint8[64,5] x) => (uint8 y)"
        "{ y = com.microsoft.QGemm <transA = 1, transB = 1, alpha = 1.0> (x, s, z, w, sw, zw, b, s, z) }",
        {"w": "int8[90,64]", "sw": "float[90]", "zw": "int8[90]", "b": "int32[90]", **SCALES},
        MatrixProduct(5, 64, 90, 1, "w", weight_bits=8),
        {},
    ),
    "QGemm to float": (
        "g (uint8[5,64] x) => (float y) { y = com.microsoft.QGemm (x, s, z, w, s, zw) }",
        {"w": "int8[64,90]", "zw": "int8", **SCALES},
        MatrixProduct(5, 64, 90, 1, "w", weight_bits=8),
        {},
    ),
    "MatMulIntegerToFloat": (
        "g (uint8[5,64] x) => (float y) { y = com.microsoft.MatMulIntegerToFloat (x, w, s, s, z, zw, b) }",
        {"w": "int8[64,90]", "zw": "int8", "b": "float[90]", **SCALES},
        MatrixProduct(5, 64, 90, 1, "w", weight_bits=8),
        {"add": 450},
    ),
    "DynamicQuantizeMatMul": (
        "g (float[5,64] x) => (float y) { y = com.microsoft.DynamicQuantizeMatMul (x, w, s, zw, b) }",
        {"w": "int8[64,90]", "zw": "int8", "b": "float[90]", **SCALES},
        MatrixProduct(5, 64, 90, 1, "w", weight_bits=8),
        {"reduce": 640, "elementwise": 640 + 1, "add": 450},  # one: the zero point becomes a byte
    ),
    "MatMulNBits": (
        "g (float[2,5,64] x) => (float y)"
        "{ y = com.microsoft.MatMulNBits <K = 64, N = 90, bits = 4, block_size = 32> (x, w, s) }",
        {"w": "uint8[90,2,16]", "s": "float[180]"},
        MatrixProduct(10, 64, 90, 1, "w", weight_bits=4),
        {},
    ),
    "MatMulBnb4": (
        "g (float[5,64] x) => (float y)"
        "{ y = com.microsoft.MatMulBnb4 <K = 64, N = 90, quant_type = 1, block_size = 32> (x, w, s) }",
        {"w": "uint8[2880]", "s": "float[180]"},
        MatrixProduct(5, 64, 90, 1, "w", weight_bits=4),
        {},
    ),
    "FusedConv": (
        'g (float[1,4,8,8] x, float[1,6,8,8] r) => (float y)'
        '{ y = com.microsoft.FusedConv <pads = [1, 1, 1, 1], activation = "Relu"> (x, w, b, r) }',
        {"w": "float[6,4,3,3]", "b": "float[6]"},
        MatrixProduct(64, 36, 6, 1, "w"),
        {"add": 384, "elementwise": 384},
    ),
    "FusedConv clipped": (
        'g (float[1,4,8,8] x) => (float y)'
        '{ y = com.microsoft.FusedConv <activation = "Clip", activation_params = [0.0, 6.0]> (x, w) }',
        {"w": "float[6,4,3,3]"},
        MatrixProduct(36, 36, 6, 1, "w"),
        {"elementwise": 216},
    ),
    "FusedGemm": (
        'g (float[5,64] x) => (float y)'
        '{ y = com.microsoft.FusedGemm <transB = 1, activation = "LeakyRelu", activation_alpha = 0.1> (x, w, b) }',
        {"w": "float[90,64]", "b": "float[90]"},
        MatrixProduct(5, 64, 90, 1, "w"),
        {"elementwise": 450},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_products(files: Files, name: str) -> None:
    text, constants, product, expected = OPERATORS[name]
    network = files.load(text, **constants)
    assert products(network) == [product]
    assert work(network) == expected
    outputs = [tensor.elements for tensor in network.tensors if tensor.is_output]
    assert outputs == [prod(shape) for shape in files.shapes()]


ELEMENTWISE = {
    "QLinearAdd": ("y = com.microsoft.QLinearAdd (x, s, z, v, s, z, s, z)", {"add": 384, "elementwise": 1152}),
    "QLinearMul": ("y = com.microsoft.QLinearMul (x, s, z, k, s, z, s, z)", {"elementwise": 1152}),
    "QLinearSigmoid": ("y = com.microsoft.QLinearSigmoid (x, s, z, s, z)", {"elementwise": 1152}),
    "QLinearLeakyRelu": ("y = com.microsoft.QLinearLeakyRelu <alpha = 0.1> (x, s, z, s, z)", {"elementwise": 1152}),
    "QLinearSoftmax": (
        "y = com.microsoft.QLinearSoftmax <opset = 13, axis = 1> (x, s, z, s, z)",
        {"softmax": 384, "elementwise": 768},
    ),
    "QLinearConcat": (
        "y = com.microsoft.QLinearConcat <axis = 1> (s, z, x, s, z, v, s, z)",
        {"copy": 768, "elementwise": 1536},
    ),
    "QLinearGlobalAveragePool": (
        "y = com.microsoft.QLinearGlobalAveragePool (x, s, z, s, z)",
        {"reduce": 384, "elementwise": 390},
    ),
    "QLinearGlobalAveragePool channels last": (
        "y = com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (x, s, z, s, z)",
        {"reduce": 384, "elementwise": 392},
    ),
    "QLinearAveragePool": (
        "y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x, s, z, s, z)",
        {"pool": 384, "elementwise": 480},
    ),
    "QLinearReduceMean": (
        "y = com.microsoft.QLinearReduceMean <axes = [2, 3], keepdims = 0> (x, s, z, s, z)",
        {"reduce": 384, "elementwise": 390},
    ),
    "QLinearWhere": ("y = com.microsoft.QLinearWhere (t, x, s, z, v, s, z, s, z)", {"elementwise": 1536}),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_vector_operators(files: Files, name: str) -> None:
    """Dequantising each operand, the operator itself, and quantising its result: as in the notation with nodes for each."""
    body, expected = ELEMENTWISE[name]
    inputs = "uint8[1,6,8,8] x, uint8[1,6,8,8] v, bool[8,8] t"
    network = files.load(f"g ({inputs}) => (uint8 y) {{ {body} }}", k="uint8[8]", **SCALES)
    assert products(network) == []
    assert work(network) == expected
    if name in ("QLinearReduceMean",):  # ONNX Runtime has its schema and no kernel
        return
    assert [t.elements for t in network.tensors if t.is_output] == [prod(shape) for shape in files.shapes()]


@pytest.mark.parametrize("operator", ["NhwcConv", "NhwcFusedConv"])
def test_convolutions_with_channels_last(files: Files, operator: str) -> None:
    """The same products and dependences as with the channels first."""
    text = "g (%s x) => (float y) { h = %s (x, v) y = %s <strides = [2, 1]> (h, w) }"
    last = files.load(text % ("float[1,9,8,4]", f"com.microsoft.{operator}", f"com.microsoft.{operator}"), **KERNELS)
    first = files.load(text % ("float[1,4,9,8]", "Conv", "Conv"), **KERNELS)
    assert products(last) == products(first) == [MatrixProduct(42, 36, 6, 1, "v"), MatrixProduct(12, 54, 2, 1, "w")]
    for one, other in zip(last.operators, first.operators, strict=True):
        assert one.chunks == other.chunks
        assert [(r.role, r.elements, r.need) for r in one.reads] == [(r.role, r.elements, r.need) for r in other.reads]


KERNELS = {"v": "float[6,4,3,3]", "w": "float[2,6,3,3]"}


HALVES = {
    "MatMulNBits": ("MatMulNBits <K = 8, N = 6, bits = 2, block_size = 16> (x, p, s)", "uint8[6,1,4]", 2),
    "FusedConv": ('FusedConv <activation = "Clip", activation_params = [0.0, 6.0]> (x, p)', "float16[6,4,1,1]", None),
    "NhwcConv": ("NhwcConv (x, p)", "float16[6,8,1,1]", None),
}


@pytest.mark.parametrize("name", HALVES)
def test_half_precision_stays_what_it_is(files: Files, name: str) -> None:
    """A sum with a float16 constant would contradict any other type."""
    body, weight, bits = HALVES[name]
    text = f"g (float16[1,4,7,8] x) => (float16 y) {{ h = com.microsoft.{body} y = Add (h, s) }}"
    network = files.load(text, p=weight, s="float16")
    (product,) = products(network)
    assert (product.weight, product.weight_bits, product.columns) == ("p", bits, 6)
    assert work(network)["add"] == network.tensors[-1].elements


def test_operator_notation_costs_what_node_notation_does(files: Files) -> None:
    ends = "g (uint8[1,4,8,8] x) => (uint8 y) {"
    nodes = f"""{ends}
        d = DequantizeLinear (x, s, z)
        k = DequantizeLinear <axis = 0> (w, sw, zw)
        c = Conv (d, k, b)
        y = QuantizeLinear (c, s, z)
    }}"""
    operator = f"{ends} y = QLinearConv (x, s, z, w, sw, zw, s, z, b) }}"
    constants = {"w": "int8[6,4,3,3]", "sw": "float[6]", "zw": "int8[6]", **SCALES}
    one, other = files.load(nodes, b="float[6]", **constants), files.load(operator, b="int32[6]", **constants)
    assert products(one) == products(other)
    assert work(one) == work(other) == {}
    for first, second in zip(one.operators, other.operators, strict=True):
        assert (first.chunks, first.reads) == (second.chunks, second.reads)


def test_quantised_lstm_becomes_one_with_transposed_weights() -> None:
    inputs = ("x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz")
    composite = Node("n", "DynamicQuantizeLSTM", "com.microsoft", 1, {"hidden_size": 8}, inputs, ("y", "h", "c"), {})
    parts = EXPANSIONS["com.microsoft", "DynamicQuantizeLSTM"](composite)
    assert parts is not None
    *before, quantise, data, last = (part.proto for part in parts)
    assert [p.op_type for p in before] == ["DequantizeLinear", "Transpose"] * 2
    assert [list(p.input) for p in before[::2]] == [["w", "ws", "wz"], ["r", "rs", "rz"]]
    assert (quantise.op_type, list(quantise.input)) == ("DynamicQuantizeLinear", ["x"])
    assert list(data.input) == list(quantise.output)
    assert (last.op_type, list(last.output)) == ("LSTM", ["y", "h", "c"])
    assert list(last.input) == [data.output[0], before[1].output[0], before[3].output[0], "b", "", "", "", ""]


def _node_models() -> list[onnx.ModelProto]:
    """The models of ONNX's own tests of these operators, which importing a module collects (all modules take a minute)."""
    for operator in NODE_CASES:
        import_module(f"{node.__name__}.{operator}")
    cases = [case for case in node._NodeTestCases if any(operator in case.name for operator in NODE_CASES)]
    return [case.model for case in cases if case.model is not None]


def test_node_tests_of_onnx_import(tmp_path: Path) -> None:
    """In most of them the weight is an input of the network."""
    models = _node_models()
    assert len(models) >= 40
    for model in models:
        onnx.save(model, tmp_path / "node.onnx")
        network = load_network(tmp_path / "node.onnx")
        kinds = {proto.op_type for proto in model.graph.node}
        assert bool(network.macs) == any("Conv" in kind or "MatMul" in kind for kind in kinds), kinds
        assert off_arrays(network) or network.macs, kinds


# -- refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "y = com.microsoft.MatMulNBits <K = 64, N = 90, bits = 4, block_size = 32> (x, v, s)",
            "its packed weight is computed at run time; make it a constant of the file",
        ),
        (
            "y = com.microsoft.MatMulNBits <K = 64, N = 91, bits = 4, block_size = 32> (x, w, s)",
            "its packed weight has 2,880 bytes, too few for 5,824 weights of 4 bits; export the model again",
        ),
        (
            'y = com.microsoft.FusedGemm <activation = "Mish"> (x, b)',
            "no rule for its activation Mish; save the model before its nodes are fused",
        ),
    ],
)
def test_refusals(files: Files, body: str, reason: str) -> None:
    text = f"g (float[5,64] x, uint8[90,2,16] v) => (float y) {{ {body} }}"
    with pytest.raises(InputError) as caught:
        files.load(text, w="uint8[90,2,16]", s="float[180]", b="float[64,7]")
    assert str(caught.value).endswith(reason)
