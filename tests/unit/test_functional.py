"""The parts of the functional machine by themselves: formats, cells, converters, geometry, memory, and the nodes around them."""

from __future__ import annotations

import numpy as np
import pytest

import hw
from cmswitch.functional import layout
from cmswitch.functional.cells import Grid, cells_of_tile, digits_of, multiply
from cmswitch.functional.compare import agreement, cosine, difference
from cmswitch.functional.description import Call, Convolution, Multiplication, PositionProduct, Product
from cmswitch.functional.errors import ExecutionError, UnsupportedNode
from cmswitch.functional.formats import Format, Raw, per_channel, symmetric, value_range
from cmswitch.functional.memory import Memory
from cmswitch.functional.reference import reference_product
from cmswitch.functional.vector import Evaluator
from cmswitch.program.program import Allocate, Buffer, MemoryArrays

DYNAPLASIA = hw.load_chip("dynaplasia")
RANDOM = np.random.default_rng(7)


# --- formats ----------------------------------------------------------------------------------------------------------


def test_symmetric_format_is_signed_only_where_something_is_negative() -> None:
    signed, unsigned = symmetric(8, -2.0, 1.0), symmetric(8, 0.0, 5.1)
    assert (int(signed.zero), float(signed.scale)) == (128, 2 / 127)
    assert (int(unsigned.zero), float(unsigned.scale)) == (0, 5.1 / 255)
    assert signed.codes(np.array([-2.0, 0.0, 2.0, 9.0])).tolist() == [1, 128, 255, 255]


def test_values_of_codes_are_within_half_a_step() -> None:
    values = RANDOM.uniform(-3, 3, 500)
    form = symmetric(6, -3.0, 3.0)
    assert np.abs(form.values(form.codes(values)) - values).max() <= float(form.scale) / 2 + 1e-12


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 7, 8, 12])
def test_packing_is_a_round_trip_of_as_few_bytes_as_there_are_bits(bits: int) -> None:
    form = Format(bits, np.array(1.0), np.array(0))
    codes = RANDOM.integers(0, 2**bits, 37)
    data = form.pack(codes)
    assert data.dtype == np.uint8
    assert data.size == -(-37 * bits // 8)
    assert form.unpack(data, 37).tolist() == codes.tolist()


def test_a_channel_has_its_own_scale() -> None:
    form = per_channel(np.array([[1.0, -2.0], [100.0, 50.0], [0.0, 0.0]], np.float32), 4, [0])
    assert form.scale.reshape(-1).tolist() == [2 / 7, 100 / 7, 1.0]


def test_percentile_leaves_outliers_out() -> None:
    values = np.append(RANDOM.uniform(-1, 1, 100_000), 1000.0)
    assert value_range(values, "minmax")[1] == 1000.0
    assert value_range(values, "percentile")[1] < 1.0
    assert value_range(np.abs(values), "percentile")[0] == 0.0


# --- arrays -----------------------------------------------------------------------------------------------------------


def chip(**changes: object) -> hw.Chip:
    small = {"array.rows": 12, "array.columns": 24, "array.max_active_rows": 5, "array.adc_bits": 24}
    return DYNAPLASIA.with_changes(**{**small, **changes})


@pytest.mark.parametrize("binding", ["columns", "arrays"])
@pytest.mark.parametrize("cell_bits", [1, 2, 3, 4])
@pytest.mark.parametrize("dac_bits", [1, 2, 3, 8])
def test_digits_give_the_product_of_the_codes(binding: str, cell_bits: int, dac_bits: int) -> None:
    this = chip(**{"array.binding": binding, "array.bits_per_cell": cell_bits, "array.dac_bits": dac_bits})
    grid = Grid.of(this, 12, 3, 1, 8)
    weights, inputs = RANDOM.integers(0, 256, (1, 12, 3)), RANDOM.integers(0, 256, (5, 12))
    for adc in ("off", "clip"):
        total = np.zeros((5, 3), np.int64)
        for bit in range(grid.slices):
            cells = cells_of_tile(this, weights, grid, bit, 12, 3)
            assert cells.max() < 2**cell_bits
            total += multiply(this, inputs, cells, grid, bit, adc)
        assert total.tolist() == (inputs @ weights[0]).tolist()


def test_packed_groups_lie_along_the_diagonal() -> None:
    this = chip(**{"array.bits_per_cell": 8, "array.dac_bits": 8})
    grid = Grid.of(this, 3, 2, 6, 8)
    assert (grid.packed, grid.blocks(6)) == (4, [(0, 0), (4, 0)])
    cells = cells_of_tile(this, np.ones((4, 3, 2), np.int64), grid, 0, 12, 8)
    assert cells.tolist() == np.kron(np.eye(4, dtype=int), np.ones((3, 2), int)).tolist()


def test_grid_of_a_large_product() -> None:
    assert Grid.of(DYNAPLASIA, 700, 90, 1, 8) == Grid(1, 3, 3, 40, 1, 8)


def test_a_narrow_converter_clips_or_rounds() -> None:
    this = chip(**{"array.adc_bits": 2, "array.max_active_rows": 12, "array.bits_per_cell": 1})
    grid = Grid.of(this, 12, 1, 1, 1)
    cells = np.ones((12, 1), np.int64)
    inputs = np.tri(13, 12, -1, dtype=np.int64)  # row n drives n word lines
    assert multiply(this, inputs, cells, grid, 0, "off")[:, 0].tolist() == list(range(13))
    assert multiply(this, inputs, cells, grid, 0, "clip")[:, 0].tolist() == [0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]
    rounded = multiply(this, inputs, cells, grid, 0, "round")[:, 0].tolist()
    assert rounded == [0, 0, 0, 4, 4, 4, 8, 8, 8, 8, 8, 12, 12]  # levels 0, 4, 8, 12; halves to even


def test_digits_are_least_significant_first() -> None:
    assert [int(d) for d in digits_of(np.array(0b110110), 2, 3)] == [2, 1, 3]


# --- geometry ---------------------------------------------------------------------------------------------------------


def product(
    geometry: Convolution | PositionProduct | Multiplication, shape: tuple[int, ...], **given: object
) -> Product:
    """A product of which only the layout matters."""
    fixed = {"matrix": "x", "operand": "w", "constant": True, "output": "y", "channels": (), "inner": given["total"]}
    return Product(geometry=geometry, shape=shape, **{**fixed, **given})  # type: ignore[arg-type]


CASES = {
    "strided convolution": (
        product(
            Convolution(1, (2, 1), (1, 2), (1, 0)), (2, 3, 3, 3), rows=18, columns=3, groups=1, total=24, kernel=(3, 2)
        ),
        (2, 4, 5, 5),
        (3, 4, 3, 2),
    ),
    "grouped convolution, channels last": (
        product(
            Convolution(2, (1,), (1,), (1,), last=True), (1, 6, 4), rows=6, columns=2, groups=2, total=6, kernel=(3,)
        ),
        (1, 6, 4),
        (4, 2, 3),
    ),
    "positions": (
        product(PositionProduct(2), (2, 12, 3), rows=6, columns=6, groups=2, total=2),
        (2, 4, 3),
        (4, 3, 2),
    ),
    "transposed right": (
        product(Multiplication(transpose_right=True), (5, 7), rows=5, columns=7, groups=1, total=4),
        (5, 4),
        (7, 4),
    ),
    "held left": (
        product(Multiplication(swapped=True), (3, 2, 5), rows=15, columns=2, groups=1, total=4, batch=(3,)),
        (3, 4, 5),
        (2, 4),
    ),
    "batched, one axis shared": (
        product(Multiplication(), (2, 3, 5, 6), rows=10, columns=6, groups=3, total=4, batch=(2, 3), separate=(1,)),
        (2, 3, 5, 4),
        (3, 4, 6),
    ),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layout_gives_what_the_reference_gives(case: str) -> None:
    this, matrix_shape, operand_shape = CASES[case]
    matrix, operand = RANDOM.integers(0, 50, matrix_shape), RANDOM.integers(-9, 9, operand_shape)
    zero = 20
    inputs = layout.matrix(this, matrix, zero) - zero
    found = layout.result(this, inputs @ layout.operand(this, operand))
    assert found.shape == this.shape
    assert found.tolist() == reference_product(this, matrix - zero, operand).tolist()


# --- memory -----------------------------------------------------------------------------------------------------------

BYTES = Format(8, np.array(1.0), np.array(0))


def memory() -> Memory:
    forms: dict[str, Format | Raw] = {"a": BYTES, "b": BYTES, "indices": Raw(np.dtype(np.int64))}
    return Memory(DYNAPLASIA, forms, {"a": (2, 3), "b": (6,), "indices": (6,)})


def test_tensors_share_the_bytes_of_the_buffer() -> None:
    this = memory()
    this.allocate(Allocate("a", Buffer(((8, 4), (0, 2)))))
    this.write("a", "resident", np.arange(1, 7).reshape(2, 3))
    assert this.read("a", "resident").tolist() == [[1, 2, 3], [4, 5, 6]]
    this.allocate(Allocate("b", Buffer(((6, 6),))))
    assert this.read("b", "resident").tolist() == [0, 0, 1, 2, 3, 4]  # what lies there already
    this.write("b", "resident", np.full(6, 9))
    assert this.read("a", "resident").tolist() == [[9, 9, 9], [9, 5, 6]]


def test_memory_arrays_interleave_and_lose_their_bytes_with_their_mode() -> None:
    this = memory()
    this.allocate(Allocate("a", MemoryArrays((3, 5))))
    this.write("a", "resident", np.arange(1, 7))
    this.switch(5, to_compute=True)
    assert this.read("a", "resident").reshape(-1).tolist() == [1, 0, 3, 0, 5, 0]
    this.switch(5, to_compute=False)
    assert this.read("a", "resident").reshape(-1).tolist() == [1, 0, 3, 0, 5, 0]


def test_what_nobody_wrote_cannot_be_read() -> None:
    with pytest.raises(ExecutionError, match="'a' is read from main memory before"):
        memory().read("a", "main")
    with pytest.raises(ExecutionError, match="'a' has no place on chip"):
        memory().read("a", "resident")


def test_wide_integers_are_kept_apart() -> None:
    this = memory()
    this.allocate(Allocate("indices", Buffer(((0, 6),))))
    with pytest.raises(ExecutionError, match="before anything wrote it there"):
        this.read("indices", "resident")
    this.write("indices", "resident", np.arange(6) * 10**9)
    assert this.read("indices", "resident")[-1] == 5 * 10**9


def test_a_stored_tensor_is_in_main_memory() -> None:
    this = memory()
    this.allocate(Allocate("a", Buffer(((0, 6),))))
    this.write("a", "resident", np.arange(6))
    this.store("a")
    assert this.read("a", "main").reshape(-1).tolist() == list(range(6))
    assert this.place_of("a") == "main"


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_overlap_add_undoes_its_product() -> None:
    """Together the two parts are the transposed convolution that onnxruntime computes."""
    data, weight = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 3, 3), (4, 2, 3, 2)))
    run = Evaluator({})
    setting = {"kernel_shape": [3, 2], "strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 0, 1]}
    parts = Call("p", "TransposedProduct", "cmswitch", 1, {"group": 2}, ("x", "w"), ("p",))
    added = Call("o", "OverlapAdd", "cmswitch", 1, setting, ("p",), ("y",))
    whole = Call("t", "ConvTranspose", "", 21, {**setting, "group": 2}, ("x", "w"), ("y",))
    given = {"x": data, "w": weight}
    found = run(added, run(parts, given))["y"]
    np.testing.assert_allclose(found, run(whole, given)["y"], rtol=1e-5, atol=1e-5)


def test_a_node_without_an_evaluator_is_named() -> None:
    run = Evaluator({})
    with pytest.raises(UnsupportedNode, match="n1: FinalCell has no ONNX operator"):
        run(Call("n1", "FinalCell", "cmswitch", 1, {}, ("x",), ("y",)), {"x": np.zeros(1)})
    with pytest.raises(UnsupportedNode, match="n2: Wrong cannot be run"):
        run(Call("n2", "Wrong", "", 21, {}, ("x",), ("y",)), {"x": np.zeros(1)})
    with pytest.raises(ExecutionError, match="'n3' needs 'x', which was not loaded"):
        run(Call("n3", "Relu", "", 21, {}, ("x",), ("y",)), {})


def test_differences() -> None:
    found = difference(np.array([1.0, 2.0, 5.0]), np.array([1.0, 3.0, np.inf]))
    assert (found.largest, found.mean) == (1.0, 0.5)
    assert found.sqnr_db == pytest.approx(10.0)
    assert difference(np.ones(2), np.ones(2)).sqnr_db is None
    assert cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(0.5**0.5)
    logits = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    assert agreement(np.array([[9.0, 1.0, 0.0], [0.0, 9.0, 8.0]]), logits, 1) == 0.5
    assert agreement(np.array([[9.0, 1.0, 0.0], [0.0, 9.0, 8.0]]), logits, 2) == 1.0
    assert agreement(logits, logits, 5) is None
