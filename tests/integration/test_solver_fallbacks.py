"""A solver that crashes on every program changes neither the plan nor the exit code, and the report names it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from cmswitch import cli
from solvers import registry


def two_products(path: Path) -> Path:
    """x [4, 64] times two weights, one after the other."""
    weights = [helper.make_tensor(f"w{i}", TensorProto.FLOAT, [64, 64], [0.5] * 64 * 64) for i in range(2)]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h"], "first"),
        helper.make_node("MatMul", ["h", "w1"], ["y"], "second"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "two_products", values[:1], values[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_the_report_names_who_failed_and_who_took_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["solve", str(two_products(tmp_path / "net.onnx")), "--hw", "dynaplasia", "--json", "--solver"]
    assert cli.main([*command, "highs"]) == 0
    sound = json.loads(capsys.readouterr().out)
    assert sound["solve"]["fallbacks"] == [] and sound["solve"]["programs_solved"] > 0
    crashing = registry.Backend("tests.solver_contract.faulty", "Segfaults", ())
    monkeypatch.setitem(registry.BACKENDS, "scip", crashing)
    assert cli.main([*command, "scip"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    (fallback,) = report["solve"]["fallbacks"]
    assert (fallback["solver"], fallback["used"]) == ("scip", "highs")
    assert fallback["programs"] == sound["solve"]["programs_solved"]
    assert fallback["reason"] == "its process was killed by SIGSEGV"
    assert report["segments"] == sound["segments"] and report["latency"] == sound["latency"]
    assert "warning: solver 'scip' failed and highs took over (programs: " in captured.err
