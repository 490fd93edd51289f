"""Operators without a rule are expanded by ONNX's own definition of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper

from cmswitch.graph import load_network
from cmswitch.graph.expand import EXPANSIONS, function_parts
from cmswitch.graph.ir import Node, Value
from cmswitch.graph.rules import RULES
from tests.expanded import backend_cases
from tests.sketch import Sketch
from tests.unit.test_import import work


def test_a_fixed_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, ("", "MeanVarianceNormalization"))
    s = Sketch(tmp_path)
    s.add("Conv", "c", s.input("x", 1, 2, 4, 4), s.weight("w", 3, 2, 1, 1))
    s.add("MeanVarianceNormalization", "n", "c")
    (operator,) = s.load("n").operators
    elements = 3 * 4 * 4
    assert [kind for _, kind, n in work(operator) if n == elements] == [
        *(
            "reduce",
            "elementwise",
            "reduce",
            "add",
            "elementwise",
        )  # the mean, the square and its mean, the shift, the scale
    ]
    assert ("elementwise", 3) in [
        (kind, n) for _, kind, n in work(operator)
    ]  # one mean per channel: axes are 0, 2, 3 if not given
    assert all(node.startswith("n#") for node, _, _ in work(operator))


def test_definitions_that_depend_on_attributes_and_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX's definition of Attention multiplies as much as ours; it copies shared keys where ours adds rows."""
    cases = [case for case in backend_cases("Attention") if case.model.opset_import[0].version == 23]
    assert len(cases) > 20
    ours = [load_network(case.save(tmp_path)).macs for case in cases]
    monkeypatch.delitem(EXPANSIONS, ("", "Attention"))
    assert [load_network(case.save(tmp_path)).macs for case in cases] == ours


def test_branches_read_the_values_of_their_own_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, ("", "AffineGrid"))
    proto = helper.make_node("AffineGrid", ["theta", "size"], ["grid"], "n")
    values = {"theta": Value((2, 2, 3)), "size": Value((4,)), "grid": Value((2, 5, 6, 2))}
    node = Node("n", "AffineGrid", "", 20, {}, ("theta", "size"), ("grid",), values)
    parts = function_parts(node, proto, {})
    assert parts is not None
    known = {"theta", "size", *(value for part in parts for value in part.proto.output)}
    assert all(value == "grid" or value.startswith("n#") for value in known - {"theta", "size"})
    branches = [a.g for part in parts for a in part.proto.attribute if a.HasField("g")]
    assert len(branches) >= 6
    for branch in branches:
        made = {value for inner in branch.node for value in inner.output}
        assert {value for inner in branch.node for value in inner.input} <= known | made


def test_a_piece_without_elements_needs_nothing(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "m", s.input("x", 2, 6), s.weight("w", 6, 4))
    s.add("Split", "parts", "m", s.ints("sizes", 4, 0), outputs=["all", "nothing"], axis=1)
    s.add("Concat", "joined", "all", "nothing", axis=1)
    network = s.load("joined")
    assert [t.elements for t in network.tensors] == [12, 8]
