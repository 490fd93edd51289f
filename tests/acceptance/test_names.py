"""Names that files leave out or use twice: every statement still says which node it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmswitch.errors import InputError
from cmswitch.graph import load_network
from tests.compiled import compiled, origins
from tests.sketch import Sketch


def unnamed(folder: Path) -> Sketch:
    """Six nodes: three without a name, two of one name, and one called like what another might be given."""
    s = Sketch(folder)
    s.add("Conv", "", s.input("x", 1, 4, 8, 8), s.weight("w0", 8, 4, 3, 3), outputs=["a"])
    s.add("Relu", "", "a", outputs=["b"])
    s.add("Conv", "same", "b", s.weight("w1", 8, 8, 3, 3), outputs=["c"])
    s.add("Relu", "same", "c", outputs=["d"])
    s.add("GlobalAveragePool", "Relu_1", "d", outputs=["e"])
    s.add("Flatten", "", "e", outputs=["f"])
    return s


def test_every_statement_traces_back_to_one_node(tmp_path: Path) -> None:
    network = unnamed(tmp_path).load("f")
    nodes = [node for operator in network.operators for node in operator.nodes]
    assert len(nodes) == len(set(nodes)) == network.node_count == 6
    assert {"same", "Relu_1"} <= set(nodes)
    assert "" not in nodes
    assert network.macs == 36 * 8 * 36 + 16 * 8 * 72
    assert set(origins(compiled(network))) == set(nodes)


def test_names_are_the_same_in_every_import(tmp_path: Path) -> None:
    path = unnamed(tmp_path).save("f")
    assert load_network(path) == load_network(path)


def test_names_of_earlier_nodes_do_not_depend_on_later_ones(tmp_path: Path) -> None:
    whole = unnamed(tmp_path).load("f")
    cut = unnamed(tmp_path)
    del cut.graph.node[3:]
    shorter = cut.load("c")
    assert [o.name for o in shorter.operators] == [o.name for o in whole.operators]


def test_tensor_that_is_listed_twice_as_output(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "y", s.input("x", 6, 64), s.weight("w", 64, 96))
    twice = s.load("y", "y")
    assert twice.macs == 6 * 64 * 96
    assert [(t.name, t.elements, t.is_output) for t in twice.tensors] == [("x", 6 * 64, False), ("y", 6 * 96, True)]
    result = compiled(twice)
    assert [d.name for d in result.program.tensors if d.kind == "output"] == ["y"]
    del s.graph.output[:]
    assert result.timing.total_cycles == compiled(s.load("y")).timing.total_cycles


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    """Protobuf hands such names out as bytes: wherever they stand, they are text, each the same everywhere."""
    s = Sketch(tmp_path)
    s.add("MatMul", "node?", s.input("in?", "dim?", 64), s.weight("held?", 64, 96), outputs=["mid?"])
    s.add("Relu", "next", "mid?", outputs=["out?"])
    s.graph.node[0].doc_string = "doc?"
    path = s.save("out?")
    path.write_bytes(path.read_bytes().replace(b"?", b"\xff"))
    network = load_network(path, {"dim\\xff": 6})
    assert network.macs == 6 * 64 * 96
    assert [operator.name for operator in network.operators] == ["node\\xff"]
    assert [tensor.name for tensor in network.tensors] == ["in\\xff", "out\\xff"]


def test_misspelt_names_that_are_no_utf_8(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("Add", "sum", s.input("x", 6), "one?")
    path = s.save("sum")
    path.write_bytes(path.read_bytes().replace(b"?", b"\xff"))
    with pytest.raises(InputError, match=r"node 'sum' reads 'one\\\\xff', which nothing before it produces"):
        load_network(path)
