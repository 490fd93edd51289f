"""What operators that are no matrix product cost and where they run, against sizes counted by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import hw
from cmswitch.errors import InputError
from cmswitch.graph.assemble import assemble
from cmswitch.graph.infer import infer
from cmswitch.graph.network import Network
from cmswitch.listing import network_table

Arrays = Mapping[str, Any]
INT, TEXT, BOOL, DOUBLE = TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL, TensorProto.DOUBLE


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def network(
    operator: str,
    inputs: Mapping[str, tuple[int, ...]],
    constants: Arrays | None = None,
    outputs: int = 1,
    domain: str = "",
    types: Mapping[str, int] | None = None,
    order: str = "",
    opset: int = 21,
    **attributes: Any,
) -> Network:
    """One node called ``node``; ``order`` names its inputs by their letters (default: the inputs, then the constants)."""
    constants = constants or {}
    names = list(order) if order else [*inputs, *constants]
    made = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(operator, names, made, "node", domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "sketch",
        [
            helper.make_tensor_value_info(name, (types or {}).get(name, TensorProto.FLOAT), shape)
            for name, shape in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in made],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 5 if operator == "TreeEnsemble" else 3)]
    return assemble(infer(helper.make_model(graph, opset_imports=opsets, ir_version=9), "sketch"))


def work(found: Network) -> list[tuple[str, int]]:
    return [(each.kind, each.elements) for operator in found.operators for each in operator.vector]


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        network(*arguments, **options)
    return str(caught.value)


def test_resize_counts_the_elements_of_each_weighted_sum() -> None:
    data, scales = {"x": (1, 3, 4, 6)}, {"r": floats(), "s": floats(1, 1, 2, 3)}
    out = 3 * 8 * 18
    assert work(network("Resize", data, scales, mode="nearest")) == [("copy", out)]
    assert work(network("Resize", data, scales, mode="linear")) == [("pool", out * 4)]
    assert work(network("Resize", data, scales, mode="cubic")) == [("pool", out * 16)]
    smaller = {"r": floats(), "s": floats(1, 1, 0.5, 1)}
    assert work(network("Resize", data, smaller, mode="linear", antialias=1)) == [("pool", 3 * 2 * 6 * 2 * 2)]


def test_data_movement_counts_what_is_written() -> None:
    data = {"x": (2, 4, 6, 6)}
    assert work(network("Pad", data, {"p": ints(0, 0, 1, 2, 0, 0, 1, 0)})) == [("copy", 2 * 4 * 8 * 8)]
    assert work(network("Tile", data, {"r": ints(1, 2, 1, 3)})) == [("copy", 2 * 8 * 6 * 18)]
    assert work(network("CenterCropPad", data, {"s": ints(4, 8)}, axes=[2, 3])) == [("copy", 2 * 4 * 4 * 8)]
    assert work(network("GatherElements", data, {"i": np.zeros((1, 4, 6, 2), np.int64)}, axis=3)) == [("gather", 48)]
    scattered = network("ScatterElements", {"x": (4, 6), "u": (2, 3)}, {"i": np.zeros((2, 3), np.int64)}, order="xiu")
    assert work(scattered) == [("gather", 4 * 6 + 2 * 3)]
    selected = network("Compress", {"x": (4, 6)}, {"c": np.array([True, False, True, True])}, axis=0)
    assert work(selected) == [("gather", 3 * 6)]


def test_a_sorted_row_takes_n_log_n_steps_on_the_host() -> None:
    found = network("TopK", {"x": (3, 100)}, {"k": ints(5)}, outputs=2)
    assert work(found) == [("host", 3 * 100 * 7)]
    assert found.host_nodes == ("node",)
    table = network_table(found)
    assert " (arrays: 0, vector unit: 0, data movement: 0, metadata: 0, host: 1); 0 MACs, 0 weights\n" in table
    assert table.endswith("\n  host: node\n")


def test_suppression_is_priced_at_the_most_boxes_it_may_keep() -> None:
    boxes = {"b": (1, 50, 4), "s": (1, 2, 50)}
    found = network("NonMaxSuppression", boxes, {"m": ints(10)})
    assert found.tensors[-1].elements == 2 * 10 * 3
    assert work(found) == [("host", 2 * 50 * 6 + 2 * 10 * 50)]
    assert "its output size depends on its data; make what decides the size a constant" in refused(
        "NonMaxSuppression", {**boxes, "m": (1,)}, types={"m": INT}
    )


def test_a_fourier_transform_takes_the_sum_of_the_prime_factors() -> None:
    found = network("DFT", {"x": (2, 12, 1)}, {"a": np.int64(1)}, order="x", opset=19, axis=1)
    assert work(found) == [("elementwise", 2 * 12 * 2 * (2 + 2 + 3) * 2)]
    prime = network("DFT", {"x": (1, 7, 2)}, order="x", opset=19, axis=1)
    assert work(prime) == [("elementwise", 7 * 2 * 7 * 2)]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (TensorProto.FLOAT, TensorProto.FLOAT16, "nothing"),
        (TensorProto.FLOAT, TensorProto.BFLOAT16, "nothing"),
        (INT, TensorProto.INT32, "nothing"),
        (TensorProto.FLOAT, INT, "elementwise"),
        (BOOL, TensorProto.FLOAT, "elementwise"),
        (DOUBLE, TEXT, "host"),
        (TEXT, TensorProto.FLOAT, "host"),
    ],
)
def test_a_conversion_costs_what_it_changes(source: int, target: int, expected: str) -> None:
    if expected == "nothing":
        assert "its outputs are inputs in another shape; there is nothing to map" in refused(
            "Cast", {"x": (3, 5)}, types={"x": source}, to=target
        )
    else:
        assert work(network("Cast", {"x": (3, 5)}, types={"x": source}, to=target)) == [(expected, 15)]


def test_text_is_handled_on_the_host() -> None:
    found = network("Equal", {"a": (4, 2), "b": (4, 2)}, types={"a": TEXT, "b": TEXT})
    assert work(found) == [("host", 8)]


def test_dropout_chooses_at_random_in_training_only() -> None:
    ratio = {"r": np.float32(0.5)}
    assert work(network("Dropout", {"x": (4, 5)}, {**ratio, "t": np.bool_(True)})) == [("host", 20)]
    assert work(network("Dropout", {"x": (4, 5)}, ratio, outputs=2)) == [("copy", 40)]
    assert "nothing to map" in refused("Dropout", {"x": (4, 5)}, {**ratio, "t": np.bool_(False)})


def test_batch_normalization_in_training_needs_the_whole_batch() -> None:
    data = {"x": (2, 3, 4, 4), **dict.fromkeys("sbmv", (3,))}
    found = network("BatchNormalization", data, outputs=3, training_mode=1)
    assert work(found) == [("normalization", 2 * 3 * 16)]
    assert work(network("BatchNormalization", data)) == [("elementwise", 2 * 3 * 16)]


def test_trees_take_their_longest_path() -> None:
    # one tree of three levels and one of a single leaf
    found = network(
        "TreeEnsembleRegressor",
        {"x": (10, 4)},
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0, 0, 0, 1],
        nodes_nodeids=[0, 1, 2, 3, 4, 0],
        nodes_featureids=[0] * 6,
        nodes_values=[0.5] * 6,
        nodes_modes=["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 3, 0, 0, 0],
        nodes_falsenodeids=[2, 0, 4, 0, 0, 0],
        target_treeids=[0],
        target_nodeids=[1],
        target_ids=[0],
        target_weights=[1.0],
    )
    assert work(found) == [("host", 10 * (3 + 1) + 10)]


def test_a_linear_model_is_a_product() -> None:
    options: dict[str, Any] = {"domain": "ai.onnx.ml", "coefficients": [0.5] * 18, "intercepts": [0.0] * 3}
    found = network("LinearRegressor", {"x": (5, 6)}, **options)
    assert found.macs == 5 * 6 * 3
    scored = network(
        "LinearClassifier", {"x": (5, 6)}, outputs=2, classlabels_ints=[3, 4, 5], post_transform="SOFTMAX", **options
    )
    assert scored.macs == 5 * 6 * 3
    assert work(scored) == [("softmax", 15), ("reduce", 15), ("gather", 5)]
    named = network("LinearClassifier", {"x": (5, 6)}, outputs=2, classlabels_strings=["a", "b", "c"], **options)
    assert work(named) == [("reduce", 15), ("host", 5)]


def test_what_has_no_meaning_here_is_refused() -> None:
    assert "maps have no shape; export the model with tensors" in refused(
        "ZipMap", {"x": (2, 3)}, domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]
    )
    assert "its output size depends on its data" in refused("NonZero", {"x": (2, 3)})
    assert "its output size depends on its data" in refused("Tile", {"x": (2, 3), "r": (2,)}, types={"r": INT})


def test_the_host_has_a_rate_of_its_own() -> None:
    chip = hw.load_chip("dynaplasia")
    for lanes, rate, cycles in ((32, 1, 1000), (64, 1, 1000), (32, 4, 250), (32, 64, 16)):
        changed = chip.with_changes(**{"vector.lanes": lanes, "vector.host_elements_per_cycle": rate})
        assert changed.vector_cycles(changed.vector_work("host", 1000)) == cycles
    with pytest.raises(hw.ChipError, match="a section without the key 'host'"):
        chip.with_changes(**{"vector.passes.host": 3})
