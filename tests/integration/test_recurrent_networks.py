"""A recurrent network behind control flow, from the command line to the check of its plan."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cmswitch.cli import main


def save(path: Path) -> None:
    """An LSTM of 6 steps whose size an If takes from the input `rate`: 8 states if it is 2, else 4."""

    def layer(states: int) -> onnx.GraphProto:
        shapes = {"w": (1, 4 * states, 5), "r": (1, 4 * states, states)}
        stored = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items()]
        node = helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], "lstm", hidden_size=states)
        return helper.make_graph([node], "layer", [], [helper.make_tensor_value_info("h", 1, None)], stored)

    nodes = [
        helper.make_node("Equal", ["rate", "two"], ["fast"]),
        helper.make_node("If", ["fast"], ["last"], "if", then_branch=layer(8), else_branch=layer(4)),
    ]
    inputs = [
        helper.make_tensor_value_info("x", 1, [6, "batch", 5]),
        helper.make_tensor_value_info("rate", TensorProto.INT64, []),
    ]
    outputs = [helper.make_tensor_value_info("last", 1, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(np.array(2), "two")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_solve_and_check_with_a_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "m.onnx", tmp_path / "out"
    save(model)
    sizes = ["--dim", "batch=1"]
    assert main(["solve", str(model), "--hw", "dynaplasia", *sizes, "--value", "rate=2", "--out", str(out)]) == 0
    report = json.loads((out / "report.json").read_text())
    assert report["options"]["values"] == {"rate": 2}
    assert report["model"]["macs"] == 6 * 32 * (5 + 8)
    assert main(["check", str(out / "plan.json")]) == 0
    assert main(["check", str(out / "plan.json"), "--model", str(model), *sizes, "--value", "rate=2"]) == 0
    capsys.readouterr()
    assert main(["check", str(out / "plan.json"), "--model", str(model), *sizes, "--value", "rate=3"]) != 0
    assert main(["inspect", str(model), *sizes]) == 2
    assert "give `--value rate=V`" in capsys.readouterr().err
