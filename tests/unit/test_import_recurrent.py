"""LSTM, GRU and RNN: one product of all steps, one step after another, and what the vector unit does in between."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.case import node as backend
from onnx.reference.op_run import OpRun

from cmswitch.errors import InputError
from cmswitch.graph import load_network
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator
from cmswitch.graph.table import INTERNAL
from tests.sketch import Sketch
from tests.subgraphs import agree
from tests.unit.test_import import product, reads, work

STEPS, BATCH, INPUTS, HIDDEN = 5, 2, 3, 4
STATE = STEPS * BATCH * HIDDEN
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def layer(
    folder: Path, operator: str, *further: str, outputs: tuple[str, ...] = ("Y",), shape: Any = None, **attributes: Any
) -> Sketch:
    """One layer with constant weights and bias; ``further`` inputs are dynamic but for those called ``constant...``."""
    s = Sketch(folder, opset=21)
    count = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[operator] * HIDDEN
    s.input("x", *(shape or (STEPS, BATCH, INPUTS)))
    s.weight("w", count, rows, INPUTS), s.weight("r", count, rows, HIDDEN), s.weight("b", count, 2 * rows)
    s.add(operator, "layer", "x", "w", "r", "b", *further, outputs=outputs, hidden_size=HIDDEN, **attributes)
    return s


def spent(operator: Operator, node: str) -> dict[str, int]:
    """Elements of vector work of ``node`` by kind."""
    return {kind: elements for name, kind, elements in work(operator) if name == node}


def recurrences(network: Network) -> list[Operator]:
    return [o for o in network.operators if o.product and o.product.recurrent]


def test_lstm_is_a_product_of_all_steps_and_a_recurrent_one(tmp_path: Path) -> None:
    network = layer(tmp_path, "LSTM").load("Y")
    first, second = network.operators
    assert first.product == MatrixProduct(STEPS * BATCH, INPUTS, 16, 1, "w")
    assert second.product == MatrixProduct(STEPS * BATCH, HIDDEN, 16, 1, "r", recurrent=True)
    assert (first.chunks, second.chunks) == (10, STEPS)
    assert network.macs == 10 * 3 * 16 + 10 * 4 * 16 == 1120
    assert network.weight_elements == 16 * 3 + 16 * 4
    (read,) = second.reads
    assert (read.role, read.elements) == ("matrix", 10 * 16)
    assert [read.need.chunks(step, 10) for step in range(STEPS)] == [2, 4, 6, 8, 10]
    assert spent(second, second.name) == {"add": 5 * STATE, "elementwise": 8 * STATE, "copy": STATE}
    assert not any(v.columnwise for v in second.vector if v.node == second.name)
    assert [(t.name, t.elements, t.is_output) for t in network.tensors[1:]] == [
        (read_name(network, second), 160, False),
        (network.tensors[2].name, STATE, True),
    ]


def read_name(network: Network, operator: Operator) -> str:
    return network.tensors[operator.reads[0].tensor].name


@pytest.mark.parametrize(
    ("operator", "further", "attributes", "add", "elementwise"),
    [
        # per element: pre-activations of the gates, then what the equations add and multiply
        ("LSTM", (), {}, 4 + 1, 5 + 3),
        ("LSTM", (), {"activations": ["HardSigmoid", "Relu", "Tanh"]}, 5, 8),
        ("LSTM", (), {"clip": 3.0}, 5, 8 + 5),
        ("LSTM", (), {"input_forget": 1}, 5 + 1, 8 - 1),
        ("LSTM", ("", "", "", "p"), {}, 5 + 3, 8 + 3),
        ("LSTM", ("lengths",), {}, 5, 8 + 3),
        ("GRU", (), {}, 3 + 2, 3 + 3),
        ("GRU", (), {"linear_before_reset": 1}, 3 + 2, 3 + 3),
        ("GRU", ("lengths",), {"clip": 1.0}, 5, 6 + 3 + 2),
        ("RNN", (), {}, 1, 1),
        ("RNN", ("lengths",), {"clip": 1.0}, 1, 1 + 1 + 2),
    ],
)
def test_work_per_element_follows_the_equations(
    tmp_path: Path, operator: str, further: tuple[str, ...], attributes: dict[str, Any], add: int, elementwise: int
) -> None:
    s = layer(tmp_path, operator, *further, **attributes)
    s.weight("p", 1, 3 * HIDDEN)
    s.graph.input.append(onnx.helper.make_tensor_value_info("lengths", onnx.TensorProto.INT32, [BATCH]))
    (found,) = recurrences(s.load("Y"))
    assert spent(found, found.name) == {"add": add * STATE, "elementwise": elementwise * STATE, "copy": STATE}
    columns = GATES[operator] * HIDDEN
    assert (found.product, found.chunks) == (MatrixProduct(10, HIDDEN, columns, 1, "r", recurrent=True), STEPS)


@pytest.mark.parametrize(("lengths", "masks"), [((STEPS, STEPS), 0), ((STEPS, 2), 3)])
def test_constant_lengths_mask_only_if_they_are_shorter(tmp_path: Path, lengths: tuple[int, ...], masks: int) -> None:
    s = layer(tmp_path, "LSTM", "constant_lengths")
    s.graph.initializer.append(onnx.helper.make_tensor("constant_lengths", onnx.TensorProto.INT32, [BATCH], lengths))
    (found,) = recurrences(s.load("Y"))
    assert spent(found, found.name)["elementwise"] == (8 + masks) * STATE


def test_initial_states_are_read_whole_before_the_first_step(tmp_path: Path) -> None:
    s = layer(tmp_path, "LSTM", "", "h", "c")
    s.input("h", 1, BATCH, HIDDEN), s.input("c", 1, BATCH, HIDDEN)
    network = s.load("Y")
    (found,) = recurrences(network)
    given = reads(network, found)
    assert {key: read.elements for key, read in given.items() if key[1] == "side"} == {
        ("h", "side"): 8,
        ("c", "side"): 8,
    }
    assert spent(found, found.name) == {"add": 5 * STATE, "elementwise": 8 * STATE, "copy": STATE}  # read, not added


def test_a_state_from_an_operator_is_awaited(tmp_path: Path) -> None:
    s = layer(tmp_path, "RNN", "", "h")
    s.add("MatMul", "made", s.input("seed", 1, BATCH, 6), s.weight("v", 6, HIDDEN), outputs=["h"])
    network = s.load("Y")
    (found,) = recurrences(network)
    assert reads(network, found)["h", "side"].need == Need.whole(2)


def test_reverse_waits_for_the_whole_sequence(tmp_path: Path) -> None:
    s = layer(tmp_path, "GRU", outputs=("Y", "Y_h"), direction="reverse")
    s.add("MatMul", "next", "Y", s.weight("v", HIDDEN, 6))
    network = s.load("next", "Y_h")
    _, found, last = network.operators
    assert [read.need for read in found.reads] == [Need.whole(10)]
    assert [read.need for read in last.reads] == [Need.whole(STEPS)]


def test_forward_states_stream_to_the_next_layer(tmp_path: Path) -> None:
    s = layer(tmp_path, "GRU")
    s.add("MatMul", "next", "Y", s.weight("v", HIDDEN, 6))
    network = s.load("next")
    last = network.operators[-1]
    assert last.chunks == 10
    assert [last.reads[0].need.chunks(c, STEPS) for c in range(10)] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_both_directions_have_their_own_weights(tmp_path: Path) -> None:
    network = layer(tmp_path, "LSTM", direction="bidirectional").load("Y")
    assert [o.chunks for o in network.operators] == [10, STEPS, 10, STEPS]
    assert network.macs == 2 * 1120
    assert network.weight_elements == 2 * 16 * (INPUTS + HIDDEN)
    forward, backward = recurrences(network)
    assert backward.reads[0].need == Need.whole(10) != forward.reads[0].need
    joined = [(kind, elements) for _, kind, elements in work(backward) if elements == 2 * STATE]
    assert joined == [("copy", 2 * STATE)]
    assert network.tensors[-1].elements == 2 * STATE


def test_final_states_are_moved_once(tmp_path: Path) -> None:
    network = layer(tmp_path, "LSTM", outputs=("", "Y_h", "Y_c")).load("Y_h", "Y_c")
    (found,) = recurrences(network)
    moves = [(kind, elements) for name, kind, elements in work(found) if name != found.name and kind != "view"]
    assert moves == [("copy", BATCH * HIDDEN)] * 2
    assert [t.elements for t in network.tensors if t.is_output] == [BATCH * HIDDEN] * 2


def test_batch_first_layout(tmp_path: Path) -> None:
    s = layer(tmp_path, "LSTM", "", "h", outputs=("Y", "Y_h"), shape=(BATCH, STEPS, INPUTS), layout=1)
    s.input("h", BATCH, 1, HIDDEN)
    network = s.load("Y", "Y_h")
    assert [o.product and o.product.rows for o in network.operators] == [None, 10, 10]
    assert work(network.operators[0])[0][1:] == ("copy", STEPS * BATCH * INPUTS)
    (found,) = recurrences(network)
    assert (found.chunks, reads(network, found)["h", "side"].elements) == (STEPS, 8)
    assert ("copy", STATE) in [w[1:] for w in work(found) if w[0] != found.name]  # Y back to batch first


def test_batch_first_shapes_are_what_onnx_says(tmp_path: Path) -> None:
    s = layer(tmp_path, "GRU", outputs=("Y", "Y_h"), shape=(BATCH, STEPS, INPUTS), layout=1, direction="bidirectional")
    s.add("MatMul", "steps", "Y", s.weight("v", BATCH, STEPS, HIDDEN, 6))  # Y: batch, steps, directions, hidden
    s.add("MatMul", "last", "Y_h", s.weight("u", BATCH, HIDDEN, 6))  # Y_h: batch, directions, hidden
    network = s.load("steps", "last")
    assert product(network, -2) == MatrixProduct(2, HIDDEN, 6, BATCH * STEPS, "v")
    assert product(network, -1) == MatrixProduct(2, HIDDEN, 6, BATCH, "u")


class Recurrence(OpRun):
    """The recurrent half of an RNN."""

    op_domain = INTERNAL

    def _run(
        self, gates: Any, weights: Any, bias: Any, lengths: Any, state: Any, backwards: int, **settings: Any
    ) -> tuple[Any]:
        states = np.empty_like(gates)
        for step in range(len(gates))[:: -1 if backwards else 1]:
            states[step] = state = np.tanh(gates[step] + state @ weights.T)
        return (states,)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_each_direction_gets_its_share_of_weights_and_states(tmp_path: Path, direction: str, layout: int) -> None:
    s = Sketch(tmp_path, opset=21)
    count = 2 if direction == "bidirectional" else 1
    shape = (BATCH, count, HIDDEN) if layout else (count, BATCH, HIDDEN)
    names = [s.input("x", *((BATCH, STEPS, INPUTS) if layout else (STEPS, BATCH, INPUTS)))]
    names += [s.input("w", count, HIDDEN, INPUTS), s.input("r", count, HIDDEN, HIDDEN), s.input("b", count, 2 * HIDDEN)]
    names += ["", s.input("h", *shape)]
    s.add("RNN", "rnn", *names, outputs=["Y", "Y_h"], hidden_size=HIDDEN, direction=direction, layout=layout)

    def expected(**given: Any) -> list[Any]:
        data, initial = given["x"], given["h"]
        if layout:
            data, initial = data.swapaxes(0, 1), initial.swapaxes(0, 1)
        states, last = np.empty((STEPS, count, BATCH, HIDDEN)), initial.copy()
        for d in range(count):
            bias = given["b"][d, :HIDDEN] + given["b"][d, HIDDEN:]
            backwards = direction == "reverse" or d == 1
            for step in range(STEPS)[:: -1 if backwards else 1]:
                last[d] = np.tanh(data[step] @ given["w"][d].T + last[d] @ given["r"][d].T + bias)
                states[step, d] = last[d]
        return [states.transpose(2, 0, 1, 3), last.swapaxes(0, 1)] if layout else [states, last]

    agree(s, "Y", "Y_h", expected=expected, operators=[Recurrence])


@pytest.mark.parametrize("operator", GATES)
def test_weights_that_are_activations(tmp_path: Path, operator: str) -> None:
    s = Sketch(tmp_path, opset=21)
    rows = GATES[operator] * HIDDEN
    names = [s.input("x", STEPS, BATCH, INPUTS), s.input("w", 1, rows, INPUTS), s.input("r", 1, rows, HIDDEN)]
    s.add(operator, "layer", *names, s.input("b", 1, 2 * rows), outputs=["Y"], hidden_size=HIDDEN)
    network = s.load("Y")
    _, first, second = network.operators
    assert first.product == MatrixProduct(10, INPUTS, rows, 1, None)
    assert second.product == MatrixProduct(10, HIDDEN, rows, 1, None, recurrent=True)
    assert reads(network, second)["r", "operand"].elements == rows * HIDDEN
    assert [w[1:] for w in work(first)] == [("add", 10 * rows)]  # the bias is no constant


def test_one_step_of_one_state(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opset=21)
    s.input("x", 1, 1, 6), s.weight("w", 1, 4, 6), s.weight("r", 1, 4, 1)
    s.add("LSTM", "layer", "x", "w", "r", outputs=["", "Y_h", "Y_c"], hidden_size=1)
    network = s.load("Y_h", "Y_c")
    assert [(o.product, o.chunks) for o in network.operators] == [
        (MatrixProduct(1, 6, 4, 1, "w"), 1),
        (MatrixProduct(1, 1, 4, 1, "r", recurrent=True), 1),
    ]


def test_layers_that_share_weights_store_them_once(tmp_path: Path) -> None:
    s = layer(tmp_path, "RNN")
    s.add("RNN", "again", "x", "w", "r", outputs=["Z"], hidden_size=HIDDEN)
    network = s.load("Y", "Z")
    assert len(network.operators) == 4
    assert network.weight_elements == HIDDEN * (INPUTS + HIDDEN)


def test_weights_that_contradict_the_direction_are_refused(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opset=21)
    s.input("x", STEPS, BATCH, INPUTS), s.weight("w", 1, 16, INPUTS), s.weight("r", 1, 16, HIDDEN)
    s.add("LSTM", "layer", "x", "w", "r", outputs=["Y"], hidden_size=HIDDEN, direction="bidirectional")
    with pytest.raises(InputError, match=r"layer: LSTM .* no 2 x 16 x N for 2 direction"):
        s.load("Y")


@pytest.mark.parametrize("operator", GATES)
def test_every_example_of_onnx_is_imported(tmp_path: Path, operator: str) -> None:
    importlib.import_module(f"onnx.backend.test.case.node.{operator.lower()}")
    cases = [case for case in backend._NodeTestCases if case.model and case.model.graph.node[0].op_type == operator]
    assert len(cases) >= 6
    for case in cases:
        path = tmp_path / f"{case.name}.onnx"
        onnx.save(case.model, path)
        network = load_network(path)
        weights = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in case.model.graph.input}
        steps_and_batch = weights["X"][0] * weights["X"][1]
        _, rows, inputs = weights["W"]
        assert network.macs == steps_and_batch * rows * (inputs + weights["R"][2]) * weights["W"][0], case.name
        assert len(recurrences(network)) == weights["W"][0]
