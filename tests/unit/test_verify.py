"""Networks verified end to end: what is exact, what is taken as the file has it, what is refused, and what is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hw
from cmswitch.cli import main
from cmswitch.functional.compare import Difference
from cmswitch.functional.formats import Format
from cmswitch.options import ModelOptions
from cmswitch.verification.numeric import Numeric
from cmswitch.verification.report import to_text
from cmswitch.verification.results import Checked, Verification
from tests.numeric import Case, Drawing, compiled_case

DYNAPLASIA = hw.load_chip("dynaplasia")
TINY = DYNAPLASIA.with_changes(
    **{"arrays_per_core": 6, "array.rows": 4, "array.max_active_rows": 4, "array.columns": 32}
)


def assert_exact(found: Verification, products: int) -> None:
    assert found.error is None
    assert [(o.name, o.status) for o in found.operators if o.status != "exact"] == []
    assert sum(o.product for o in found.operators) == products
    assert found.exact
    assert found.first_deviation is None
    assert found.float_error is not None and found.float_error < 1e-4


def dense(inputs: int = 8, outputs: int = 6) -> Drawing:
    drawing = Drawing(3)
    data = drawing.input("x", 5, inputs)
    drawing.node("MatMul", data, drawing.weight(inputs, outputs))
    return drawing


def test_cut_along_columns_and_along_rows() -> None:
    """40 rows need 10 row blocks on a chip of 6 arrays, and 30 columns 8 blocks of 4."""
    case = compiled_case(dense(40, 30).model("MatMul0"), TINY)
    names = [stage.operator for segment in case.result.program.segments for stage in segment.stages]
    assert len({name.split(".n")[1][0] for name in names}) == 2
    assert any("[" in name for name in names)
    assert_exact(case.verify(), 1)


def recurrent(operator: str, drawing: Drawing, gates: int, outputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    """A recurrent layer of 3 states over 6 steps of 2 sequences, with biases; all of its outputs."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    data = drawing.input("x", 6, 2, 5)
    given = [
        drawing.constant(np.float32(0.5) * drawing.random.standard_normal((directions, gates * 3, n), np.float32))
        for n in (5, 3)
    ]
    given += [drawing.weight(directions, 2 * gates * 3), "", drawing.input("h", directions, 2, 3)]
    made = drawing.nodes(operator, outputs, data, *given, hidden_size=3, **attributes)
    return drawing.model(*made)


RECURRENT: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "lstm": ("LSTM", 4, 1, {}),
    "final cell state": ("LSTM", 4, 3, {"direction": "bidirectional"}),
    "chosen functions": ("LSTM", 4, 3, {"activations": ["HardSigmoid", "Relu", "Tanh"], "activation_alpha": [0.3]}),
    "gru": ("GRU", 3, 2, {"direction": "bidirectional"}),
    "gru that resets the product": ("GRU", 3, 2, {"linear_before_reset": 1, "direction": "bidirectional"}),
    "gru with chosen functions": ("GRU", 3, 2, {"activations": ["HardSigmoid", "Softsign"], "activation_alpha": [0.3]}),
    "rnn": ("RNN", 1, 2, {"direction": "reverse"}),
    "rnn with relu": ("RNN", 1, 2, {"activations": ["Relu"]}),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layer(name: str) -> None:
    """States, and the last states that are outputs of their own."""
    operator, gates, outputs, attributes = RECURRENT[name]
    case = compiled_case(recurrent(operator, Drawing(4), gates, outputs, **attributes), DYNAPLASIA)
    found = case.verify()
    assert_exact(found, 4 if attributes.get("direction") == "bidirectional" else 2)
    assert len(found.outputs) == outputs
    assert min(o.cosine for o in found.outputs) > 0.99


@pytest.mark.parametrize("linear_before_reset", [0, 1])
def test_each_row_of_a_gru_depends_on_its_own_state(linear_before_reset: int) -> None:
    """On a chip of two copies, whose arrays hold different rows of the batch."""
    model = recurrent("GRU", Drawing(9), 3, 2, linear_before_reset=linear_before_reset)
    assert_exact(compiled_case(model, TINY.with_changes(arrays_per_core=40)).verify(adc="off"), 2)


def test_static_leaves_out_splits_that_cannot_hold_a_recurrent_layer() -> None:
    """Its 12 columns take 3 of the 6 arrays at once; splits of 1 and 2 arrays for computing hold no more than the rest."""
    assert_exact(compiled_case(recurrent("LSTM", Drawing(4), 4), TINY, "static").verify(), 2)


def test_a_constant_may_be_called_like_a_part_of_a_step() -> None:
    """A state is not taken for the constant of that name, though both are the same at the first step."""
    model = recurrent("LSTM", Drawing(4), 4)
    for part in ("state", "gates", "cell", "bias"):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1, 2, 3), np.float32), part))
        model.graph.node.append(onnx.helper.make_node("Identity", [part], [f"{part} again"], part))
        model.graph.output.append(onnx.helper.make_tensor_value_info(f"{part} again", 1, [1, 2, 3]))
    assert_exact(compiled_case(model, DYNAPLASIA).verify(), 2)


@pytest.mark.parametrize("operator", ["MatMulNBits", "MatMulBnb4"])
def test_weight_packed_into_bytes(operator: str) -> None:
    """Its scales differ along the rows, so that the arrays hold it quantised anew, with the bits of the file."""
    drawing = Drawing(7)
    data = drawing.input("x", 5, 64)
    packed = drawing.random.integers(0, 256, (10, 2, 16)).astype(np.uint8)
    scales = drawing.constant(drawing.random.uniform(0.05, 0.1, 20).astype(np.float32))
    settings = {"K": 64, "N": 10, "block_size": 32, **({"bits": 4} if operator == "MatMulNBits" else {"quant_type": 0})}
    weight = drawing.constant(packed if operator == "MatMulNBits" else packed.reshape(-1))
    case = compiled_case(
        drawing.model(drawing.node(operator, data, weight, scales, domain="com.microsoft", **settings)), DYNAPLASIA
    )
    found = case.verify()
    assert_exact(found, 1)
    assert case.numeric.network.operators[0].product is not None
    assert case.numeric.network.operators[0].product.weight_bits == 4
    assert found.outputs[0].cosine > 0.97


def test_what_is_not_executed_is_named_and_the_rest_goes_on() -> None:
    drawing = Drawing(4)
    data, lengths = drawing.input("x", 6, 2, 5), drawing.constant(np.array([6, 4], np.int32))
    given = [drawing.weight(1, 9, 5), drawing.weight(1, 9, 3), "", lengths]
    states = drawing.node("GRU", data, *given, hidden_size=3)
    case = compiled_case(drawing.model(drawing.node("MatMul", states, drawing.weight(3, 4))), DYNAPLASIA)
    found = case.verify()
    status = {o.name.split("#")[-1].rstrip("0123456789_"): o for o in found.operators}
    assert status["Recurrence"].status == "not executed"
    assert "a GRU over sequences of different lengths is only executed as a whole" in str(status["Recurrence"].reason)
    assert [o.status for o in found.operators if o is not status["Recurrence"]] == ["exact", "exact"]
    assert found.outputs[0].cosine > 0.99


def quantised() -> onnx.ModelProto:
    """A dense layer between the quantisation nodes of the file, with zero points."""
    drawing = Drawing(5)
    data = drawing.input("x", 3, 8)
    settings = [drawing.constant(np.array(0.05, np.float32)), drawing.constant(np.array(100, np.uint8))]
    taken = drawing.node("DequantizeLinear", drawing.node("QuantizeLinear", data, *settings), *settings)
    stored = drawing.constant(drawing.random.integers(-128, 128, (8, 4)).astype(np.int8))
    scales = drawing.constant(np.array([0.01, 0.02, 0.03, 0.04], np.float32))
    zeros = drawing.constant(np.array([0, 3, -5, 7], np.int8))
    weight = drawing.node("DequantizeLinear", stored, scales, zeros, axis=1)
    return drawing.model(drawing.node("MatMul", taken, weight))


def test_quantised_network_is_taken_as_it_is() -> None:
    """No number is quantised anew, so that only the last quantisation of the output is between it and onnxruntime."""
    case = compiled_case(quantised(), DYNAPLASIA.with_changes(**{"precision.weight_bits": 4}))
    found = case.verify()
    assert_exact(found, 1)
    assert case.numeric.network.operators[-1].product is not None
    reach = max(abs(float(np.abs(a).max())) for a in (case.numeric.float_outputs(_sample(case)) or {}).values())
    assert found.outputs[0].largest <= 0.51 * reach / 127


def _sample(case: Case) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    from cmswitch.verification.inputs import generated

    return dict(generated(case.numeric.graph, 0)[0])


def test_stored_weight_keeps_its_integers() -> None:
    numeric = compiled_case(quantised(), DYNAPLASIA).numeric
    stored = numeric.constants.stored_weight("DequantizeLinear2", 8)
    assert stored is not None
    codes, form = stored
    assert isinstance(form, Format)
    assert form.zero[0].tolist() == [128, 131, 123, 135]
    assert codes.min() >= 0
    np.testing.assert_allclose(form.values(codes), numeric.constants["DequantizeLinear2"], rtol=1e-6)


def test_narrow_converter_shows_loss_and_the_operator_that_causes_it() -> None:
    """Of two layers only the first has many rows, so that only its sums exceed a converter of 4 bits."""
    drawing = Drawing(6)
    data = drawing.input("x", 4, 60)
    first = drawing.node("Relu", drawing.node("MatMul", data, drawing.weight(60, 6)))
    model = drawing.model(drawing.node("MatMul", first, drawing.weight(6, 5)))
    case = compiled_case(model, DYNAPLASIA.with_changes(**{"array.adc_bits": 4}))
    exact, clipped = case.verify(), case.verify(adc="clip")
    assert_exact(exact, 2)
    assert not clipped.exact
    assert clipped.first_deviation == clipped.worst == "MatMul0"
    assert [o.own.largest > 0 for o in clipped.operators if o.own is not None] == [True, False]
    assert clipped.outputs[0].cosine < exact.outputs[0].cosine


def test_first_layers_alone() -> None:
    drawing = Drawing(6)
    data = drawing.input("x", 4, 8)
    first = drawing.node("Relu", drawing.node("MatMul", data, drawing.weight(8, 8)))
    case = compiled_case(drawing.model(drawing.node("MatMul", first, drawing.weight(8, 8))), DYNAPLASIA)
    found = case.verify(layers=1)
    assert [o.name for o in found.operators] == ["MatMul0"]
    assert found.exact and not found.outputs


def test_a_sample_of_rows() -> None:
    """Each product on inputs from the network on floats: no outputs to compare, and nothing of what is no product."""
    drawing = Drawing(6)
    data = drawing.input("x", 40, 8)
    first = drawing.node("Softmax", drawing.node("MatMul", data, drawing.weight(8, 8)))
    case = compiled_case(drawing.model(drawing.node("MatMul", first, drawing.weight(8, 8))), DYNAPLASIA)
    found = case.verify(sample=5)
    assert [(o.name, o.status) for o in found.operators if o.product] == [("MatMul0", "exact"), ("MatMul2", "exact")]
    assert found.exact and not found.outputs and not found.whole


@pytest.mark.parametrize("calibration", ["minmax", "percentile"])
def test_given_inputs_calibrate_and_the_first_is_executed(tmp_path: Path, calibration: str) -> None:
    case = compiled_case(dense().model("MatMul0"), DYNAPLASIA)
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.random.default_rng(0).standard_normal((3, 5, 8)).astype(np.float32))
    assert_exact(case.verify(inputs=path, calibration=calibration), 1)


def test_weights_of_the_zoo_depend_on_the_seed_alone() -> None:
    first, again, other = (Numeric(ModelOptions("zoo:resnet18"), seed).constants["stem.weight"] for seed in (1, 1, 2))
    assert first.std() == pytest.approx(np.sqrt(2 / 147), rel=0.05)
    assert (first == again).all()
    assert not (first == other).any()


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "dense.onnx"
    onnx.save(dense().model("MatMul0"), str(path))
    return str(path)


def test_command_prints_a_summary(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", model, "--hw", "dynaplasia"]) == 0
    text = capsys.readouterr().out
    assert "exact: 1 of 1 products equal the integer reference" in text
    assert "MatMul0" in text


def test_command_prints_json_which_is_the_same_again(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for _ in range(2):
        assert main(["verify", model, "--hw", "dynaplasia", "--json", "--seed", "3"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    found = json.loads(texts[0])
    assert (found["schema"], found["exact"], found["seed"]) == (1, True, 3)
    (operator,) = found["operators"]
    assert (operator["name"], operator["status"], operator["integers"]) == ("MatMul0", "exact", None)
    assert operator["floats"]["sqnr_db"] > 20
    assert found["outputs"][0]["cosine"] > 0.99


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "there is no array 'x'; the network has the inputs x"),
        ({"y": np.zeros((5, 8))}, "the network has no input 'y'"),
        ({"x": np.zeros((4, 8))}, "'x' has the shape [4, 8], not [5, 8]"),
        ({"x": np.zeros((0, 5, 8))}, "'x' has the shape [0, 5, 8], not [5, 8]"),
    ],
    ids=["none", "unknown", "shape", "empty"],
)
def test_inputs_that_do_not_fit(
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]],
    message: str,
) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    assert main(["verify", model, "--hw", "dynaplasia", "--inputs", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_inputs_that_cannot_be_read(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "none.npz", Path(model)):
        assert main(["verify", model, "--hw", "dynaplasia", "--inputs", str(path)]) == 2
        assert "cannot be read as .npz" in capsys.readouterr().err


def test_columns_stand_below_their_heads_whatever_the_names() -> None:
    found = Difference(largest=0.5, mean=0.25, sqnr_db=12.5)
    for name in ("y", "a-name-longer-than-its-head"):
        verification = Verification((Checked(name, True, "exact", floats=found),), (), None, True, None)
        head, row = to_text(verification, "title", operators=True).splitlines()[-2:]
        for label, shown in (("SQNR dB", "12.5"), ("max error", "0.5"), ("mean error", "0.25")):
            assert head.index(label) + len(label) == row.index(f" {shown}") + 1 + len(shown)
        assert head.index("status") == row.index("exact")
