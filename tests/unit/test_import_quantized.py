"""Quantised networks: how many bits their weights have, and what they and quantisation itself cost."""

from __future__ import annotations

from pathlib import Path

import pytest

import hw
from cmswitch.allocation.content import SegmentKeys
from cmswitch.checker import check_plan
from cmswitch.costs.footprint import footprint
from cmswitch.costs.workload import build_workload
from cmswitch.errors import InfeasibleError
from cmswitch.graph import MatrixProduct, Network
from cmswitch.pipeline import compile_network
from tests.model_texts import Files, products, work

CHIP = hw.load_chip("dynaplasia")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def arrays(network: Network) -> int:
    return sum(footprint(product, CHIP).arrays for product in products(network))


# -- the bits of a weight --------------------------------------------------------------------------------------------

BITS = {
    "int8": 8,
    "uint8": 8,
    "int4": 4,
    "uint4": 4,
    "int16": 16,
    "int2": 2,
    "float8e4m3fn": 8,
    "float8e5m2": 8,
    "float4e2m1": 4,
    "float": None,
    "float16": None,
    "bfloat16": None,
    "double": None,
    "int32": None,
    "int64": None,
}


@pytest.mark.parametrize("kind", BITS)
def test_bits_by_element_type_through_a_cast(files: Files, kind: str) -> None:
    text = "g (float[5,64] x) => (float[5,90] y) { c = Cast <to = 1> (w) y = MatMul (x, c) }"
    (product,) = products(files.load(text, w=f"{kind}[64,90]"))
    assert product == MatrixProduct(5, 64, 90, 1, "w", weight_bits=BITS[kind])


@pytest.mark.parametrize(
    ("body", "weight", "bits"),
    [
        ("c = DequantizeLinear (w, s, z)", "w", 8),
        ("c = DequantizeLinear <axis = 0> (w, rows, rows_z)", "w", 8),
        ("c = com.microsoft.DequantizeLinear (w, s, z)", "w", 8),
        ("a = Cast <to = 1> (w) c = Mul (a, s)", "w", 8),
        ("a = Cast <to = 1> (w) c = Mul (columns, a)", "w", 8),
        ("a = Cast <to = 1> (w) b = Cast <to = 1> (z) d = Sub (a, b) c = Mul (d, s)", "w", 8),
        ("a = DequantizeLinear (w, s) b = Transpose (a) c = Transpose (b)", "w", 8),
        (
            "a = Transpose (w) b = DequantizeLinear (a, s) d = Reshape (b, half) e = Reshape (d, turned) c = Transpose (e)",
            "w",
            8,
        ),
        ("q = QuantizeLinear (f, s, z) c = DequantizeLinear (q, s, z)", "f as INT8", 8),
        ("a = DequantizeLinear (w, s) q = QuantizeLinear (a, s, z4) c = DequantizeLinear (q, s, z4)", "w as INT4", 4),
        ("a = Cast <to = 22> (w) c = Cast <to = 1> (a)", "w as INT4", 4),
        ("c = Mul (f, s)", "f", None),
        ("c = Add (f, s)", "c", None),
        ("c = Mul (f, columns)", "c", None),
        ("a = Cast <to = 1> (w) c = Mul (a, f)", "c", None),
        ("a = Cast <to = 1> (w) c = MatMul (square, a)", "c", None),
        (
            "a, b = Split <axis = 1, num_outputs = 2> (w) d = Concat <axis = 1> (b, a) c = DequantizeLinear (d, s)",
            "d",
            8,
        ),
        ("a, b = Split <axis = 1, num_outputs = 2> (f) d = Concat <axis = 1> (b, a) c = Identity (d)", "d", None),
    ],
)
def test_what_constants_compute_remains_a_weight(files: Files, body: str, weight: str, bits: int | None) -> None:
    constants = {
        "w": "int8[64,90]", "f": "float[64,90]", "s": "float", "z": "int8", "z4": "int4", "rows": "float[64]",
        "rows_z": "int8[64]", "columns": "float[90]", "square": "float[64,64]",
    }  # fmt: skip
    shapes = "<int64[2] half = {45, 128}, int64[2] turned = {90, 64}>"
    text = f"g (float[5,64] x) => (float[5,90] y) {shapes} {{ {body} y = MatMul (x, c) }}"
    (product,) = products(files.load(text, **constants))
    assert (product.weight, product.weight_bits, product.macs) == (weight, bits, 5 * 64 * 90)


def test_tied_weights_are_stored_once(files: Files) -> None:
    network = files.load(
        "g (float[5,64] x) => (float[5,64] y)"
        "{ a = DequantizeLinear (w, s) h = MatMul (x, a) b = DequantizeLinear (w, s) t = Transpose (b) y = MatMul (h, t) }",
        w="int4[64,90]",
        s="float",
    )
    assert [product.weight for product in products(network)] == ["w", "w"]
    assert (network.weight_elements, network.weight_bytes(default_bits=8)) == (64 * 90, 64 * 90 // 2)


def test_weight_bytes_of_a_mixed_network(files: Files) -> None:
    network = files.load(
        "g (float[5,3] x) => (float[5,7] y) { a = Cast <to = 1> (w) h = MatMul (x, a) y = MatMul (h, v) }",
        w="int4[3,5]",
        v="float[5,7]",
    )
    assert network.weight_bytes(default_bits=8) == 8 + 35  # 60 and 280 bits
    assert network.weight_bytes(default_bits=3) == 21  # 60 and 105 bits, rounded up once


def test_a_dynamic_operand_has_no_bits_of_its_own(files: Files) -> None:
    (product,) = products(files.load("g (int8[4,6] x, int8[6,3] v) => (int32[4,3] y) { y = MatMulInteger (x, v) }"))
    assert product == MatrixProduct(4, 6, 3, 1, None, weight_bits=None)


# -- what they cost ----------------------------------------------------------------------------------------------------

QDQ_CONV = """g (float[1,16,8,8] x) => (float[1,80,8,8] y) {
    qx = QuantizeLinear (x, s, zx)
    dx = DequantizeLinear (qx, s, zx)
    dw = DequantizeLinear <axis = 0> (w, sw, zw)
    c = Conv <pads = [1, 1, 1, 1]> (dx, dw, b)
    r = Relu (c)
    qy = QuantizeLinear (r, s, zx)
    y = DequantizeLinear (qy, s, zx)
}"""
QDQ = {"s": "float", "zx": "uint8", "sw": "float[80]", "b": "float[80]"}


def test_arrays_of_a_convolution_between_quantise_nodes(files: Files) -> None:
    """Reduction of 144 in one row block of 320; 80 columns: 40 weights of 8 bits per row of 320 cells, or 80 of 4 bits."""
    plain = "g (float[1,16,8,8] x) => (float[1,80,8,8] y) { y = Conv <pads = [1, 1, 1, 1]> (x, w, b) }"
    floats = files.load(plain, w="float[80,16,3,3]", b="float[80]")
    eight = files.load(QDQ_CONV, w="int8[80,16,3,3]", zw="int8[80]", **QDQ)
    four = files.load(QDQ_CONV, w="int4[80,16,3,3]", zw="int4[80]", **QDQ)
    assert [products(n)[0].weight_bits for n in (floats, eight, four)] == [None, 8, 4]
    assert [n.macs for n in (floats, eight, four)] == [64 * 80 * 144] * 3
    assert [arrays(n) for n in (floats, eight, four)] == [2, 2, 1]
    grids = [footprint(products(n)[0], CHIP) for n in (floats, eight, four)]
    sizes = [[tile.bytes for tile in grid.tiles(0, grid.blocks)] for grid in grids]
    assert sizes == [[144 * 40] * 2, [144 * 40] * 2, [144 * 40]]


def test_compiled_plans_of_mixed_widths_are_legal(files: Files) -> None:
    text = """g (float[20,300] x) => (float[20,300] y) {
        a = DequantizeLinear (u, s) h = MatMul (x, a)
        b = DequantizeLinear (v, s) i = MatMul (h, b)
        y = MatMul (i, w)
    }"""
    network = files.load(text, u="int4[300,300]", v="int16[300,300]", w="float[300,300]", s="float")
    result = compile_network(network, CHIP)
    assert check_plan(result.plan, network, CHIP).violations == ()
    assert result.roofline_cycles <= result.timing.total_cycles
    read = sum(write.bytes for segment in result.program.segments for write in segment.writes)
    assert read == network.weight_bytes(8) == 300 * 300 // 2 + 300 * 300 * 2 + 300 * 300


def test_layers_that_differ_in_bits_only_are_priced_apart(files: Files) -> None:
    text = """g (float[5,20] x) => (float[5,20] y) {
        a = DequantizeLinear (p, s) b = DequantizeLinear (q, s) c = DequantizeLinear (r, s)
        h = MatMul (x, a) i = MatMul (h, a) j = MatMul (i, b) k = MatMul (j, c) y = MatMul (k, c)
    }"""
    # 20 columns of 4 or of 16 bits: one block of the 320 cells in a row either way
    network = files.load(text, p="int4[20,20]", q="int4[20,20]", r="int16[20,20]", s="float")
    keys = SegmentKeys(build_workload(network, CHIP))
    assert keys.key(1, 2, {}) == keys.key(2, 3, {}) != keys.key(3, 4, {})


def test_a_weight_wider_than_a_row_of_cells(files: Files) -> None:
    text = "g (float[5,64] x) => (float[5,90] y) { a = Cast <to = 1> (v) h = MatMul (x, a) y = MatMul (h, w) }"
    network = files.load(text, v="float[64,64]", w="float[64,90]")
    narrow = CHIP.with_changes(**{"array.columns": 12})
    assert build_workload(network, narrow).footprints[0] is not None
    network = files.load(text, v="int16[64,64]", w="float[64,90]")
    with pytest.raises(InfeasibleError, match=r"^operator 'MatMul_1': no feasible plan: one weight needs 16 columns"):
        build_workload(network, narrow)


# -- what quantising costs -----------------------------------------------------------------------------------------


def test_requantisation_of_a_product_is_no_vector_work(files: Files) -> None:
    network = files.load(QDQ_CONV, w="int8[80,16,3,3]", zw="int8[80]", **QDQ)
    assert [operator.product is None for operator in network.operators] == [True, False]
    assert [(v.kind, v.elements) for v in network.operators[0].vector] == [("elementwise", 1024), ("view", 1024)]
    assert [(v.kind, v.elements) for v in network.operators[1].vector] == [
        ("elementwise", 5120),  # Relu; quantising after it is the requantisation of the convolution
        ("view", 5120),
        ("elementwise", 5120),  # the output of the network is a float
    ]


@pytest.mark.parametrize(
    ("body", "elementwise"),
    [
        ("y = QuantizeLinear (c, s, z)", 0),
        ("r = Clip (c) m = MaxPool <kernel_shape = [1, 1]> (r) y = QuantizeLinear (m, s, z)", 100),
        ("r = Transpose <perm = [0, 2, 3, 1]> (c) y = QuantizeLinear (r, s, z)", 0),
        ("r = Sigmoid (c) y = QuantizeLinear (r, s, z)", 200),
        ("y = QuantizeLinear (c, t, z)", 100),
        ("y = QuantizeLinear (c, s, z) r = Relu (c)", 200),
    ],
)
def test_what_quantising_a_result_costs(files: Files, body: str, elementwise: int) -> None:
    outputs = "uint8 y, float r" if "r = Relu" in body else "uint8 y"
    head = f"g (float[1,4,5,5] x, float t) => ({outputs}) {{ c = Conv (x, w) {body} }}"
    network = files.load(head, w="float[4,4,1,1]", s="float", z="uint8")
    assert work(network).get("elementwise", 0) == elementwise


@pytest.mark.parametrize(
    ("body", "elementwise"),
    [
        ("y = Conv (d, w)", 0),
        ("m = MaxPool <kernel_shape = [1, 1]> (d) y = Conv (m, w)", 0),
        ("q = QuantizeLinear (d, r, z) e = DequantizeLinear (q, r, z) y = Conv (e, w)", 100),
        ("y = Sigmoid (d)", 200),
        ("c = Conv (d, w) y = Add (c, d)", 100),
        ("y = Conv <pads = [0, 0, 0, 0]> (d, w, b)", 0),
    ],
)
def test_what_dequantising_an_activation_costs(files: Files, body: str, elementwise: int) -> None:
    text = f"g (uint8[1,4,5,5] x) => (float[1,4,5,5] y) {{ d = DequantizeLinear (x, s, z) {body} }}"
    network = files.load(text, w="float[4,4,1,1]", b="float[4]", s="float", r="float", z="uint8")
    assert work(network).get("elementwise", 0) == elementwise


def test_dynamic_quantisation_needs_the_whole_tensor(files: Files) -> None:
    text = """g (float[1,4,8,8] x) => (float[1,6,8,8] y) {
        c = Conv (x, v)
        q, s, z = DynamicQuantizeLinear (c)
        i = ConvInteger <pads = [1, 1, 1, 1]> (q, w, z)
        f = Cast <to = 1> (i)
        y = Mul (f, s)
    }"""
    network = files.load(text, v="float[4,4,1,1]", w="int8[6,4,3,3]")
    first, second = network.operators
    assert [(v.kind, v.elements) for v in first.vector if v.kind != "view"] == [
        ("reduce", 2 * 256),  # smallest and largest
        ("elementwise", 1),  # the zero point becomes a byte
        ("elementwise", 256),  # quantised
        ("elementwise", 256),  # less the zero point, which is known at run time only
    ]
    assert second.product == MatrixProduct(64, 36, 6, 1, "w", weight_bits=8)
    matrix = next(read for read in second.reads if read.role == "matrix")
    assert first.chunks == 8
    assert matrix.need.chunks(0, first.chunks) == 8


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "double"])
def test_floats_of_other_widths_import_the_same(files: Files, kind: str) -> None:
    text = """g (float[1,4,9,9] x) => (float y) {
        c = Conv (x, w, b) n = BatchNormalization (c, b, b, b, b) r = Relu (n) m = Mul (r, s)
        f = Flatten (m) h = Gemm (f, v) y = Softmax (h)
    }"""
    constants = {"w": "float[6,4,3,3]", "b": "float[6]", "s": "float", "v": "float[294,10]"}
    plain = files.load(text, **constants)
    other = files.load(text.replace("float", kind), **{k: v.replace("float", kind) for k, v in constants.items()})
    assert other.operators == plain.operators
    assert other.tensors == plain.tensors


@pytest.mark.parametrize("kind", ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1"])
def test_activations_and_weights_of_small_floats(files: Files, kind: str) -> None:
    text = """g (float[5,64] x) => (float[5,90] y) {
        q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) e = DequantizeLinear (w, s, z) m = MatMul (d, e)
        p = QuantizeLinear (m, s, z) y = Cast <to = 1> (p)
    }"""
    network = files.load(text, w=f"{kind}[64,90]", s="float", z=kind)
    bits = 4 if kind == "float4e2m1" else 8
    assert products(network) == [MatrixProduct(5, 64, 90, 1, "w", weight_bits=bits)]
    assert work(network) == {"elementwise": 320}
