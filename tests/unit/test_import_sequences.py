"""Sequences of known structure vanish: whoever reads an element reads the value itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto

from tests.subgraphs import agree, body, constant, macs, node, refusal, sketch, typed_input


def test_sequences_of_known_length_vanish(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.add("SplitToSequence", "parts", s.input("x", 5, 4), constant(s, "two", 2, np.int64), axis=0)
    s.add("SequenceAt", "last", "parts", constant(s, "minus", -1, np.int64))
    s.add("SequenceErase", "fewer", "parts", "minus")
    s.add("SequenceInsert", "turned", "fewer", "last", constant(s, "zero", 0, np.int64))
    s.add("Identity", "same", "turned")
    s.add("ConcatFromSequence", "joined", "same", axis=0)
    s.add("SequenceLength", "count", "same")
    s.add("Cast", "number", "count", to=TensorProto.FLOAT)
    s.add("Mul", "scaled", "joined", "number")
    graph = agree(s, "scaled")
    assert [n.operator for n in graph.nodes if n.operator not in ("Slice", "Identity")] == ["Concat", "Mul"]


def test_a_loop_may_collect_a_sequence(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    inner = body(
        [
            node("Cast", "i", "number", to=TensorProto.FLOAT),
            node("Mul", "x number", "scaled"),
            node("SequenceInsert", "found scaled", "more"),
        ],
        "going more",
        "i going found",
    )
    s.input("x", 2, 2)
    s.add("SequenceEmpty", "none")
    s.add(
        "Loop",
        "loop",
        constant(s, "n", 3, np.int64),
        constant(s, "c", True, np.bool_),
        "none",
        outputs=["found"],
        body=inner,
    )
    s.add("ConcatFromSequence", "stacked", "found", axis=0, new_axis=1)
    graph = agree(s, "stacked")
    assert graph.values["stacked"].shape == (3, 2, 2)


def test_a_map_over_a_sequence(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.add("SequenceConstruct", "items", s.input("x", 2, 4), s.input("y", 3, 4))
    inner = body([node("MatMul", "item w", "m", name="m")], "m", "item", {"w": np.ones((4, 5), np.float32)})
    s.add("SequenceMap", "map", "items", outputs=["made"], body=inner)
    s.add("ConcatFromSequence", "joined", "made", axis=0)
    network = s.load("joined")
    assert macs(network) == [2 * 4 * 5, 3 * 4 * 5]
    assert network.weight_elements == 20


def test_a_sequence_may_be_the_output(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.add("Relu", "r", s.input("x", 2, 4))
    s.add("Neg", "n", "x")
    s.add("SequenceConstruct", "both", "r", "n")
    assert [t.name for t in s.load("both").tensors if t.is_output] == ["r", "n"]


def test_a_place_in_a_sequence_that_data_decide_is_refused(tmp_path: Path) -> None:
    s = sketch(tmp_path)
    s.add("SequenceConstruct", "items", s.input("x", 2, 4), s.input("y", 2, 4))
    s.add("SequenceAt", "picked", "items", typed_input(s, "which", TensorProto.INT64))
    assert "picked: SequenceAt" in refusal(s, "picked")
    assert "its input 'which' (position) is computed at run time" in refusal(s)
