"""Every bad file through the real command: exit code, message, nothing on stdout, nothing written, no traceback."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import onnx

import hw
from cmswitch.segmentation.plan import Plan

Run = Callable[..., tuple[int, str]]


def save_model(
    path: Path, nodes: list[onnx.NodeProto], weights: dict[str, list[int]], shapes: dict[str, list[int | str]]
) -> None:
    """Write a network that reads ``x`` and gives ``y``."""
    real = onnx.TensorProto.FLOAT
    values = [onnx.helper.make_tensor(name, real, shape, [0.0] * math.prod(shape)) for name, shape in weights.items()]
    ends = {name: onnx.helper.make_tensor_value_info(name, real, shape) for name, shape in shapes.items()}
    graph = onnx.helper.make_graph(nodes, "g", [ends["x"]], [ends["y"]], values)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def product(path: Path) -> None:
    """Write one matrix product with two symbolic dimensions."""
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    save_model(path, [node], {"w": [8, 4]}, {"x": ["batch", "length", 8], "y": ["batch", "length", 4]})


def test_unreadable_models(refused: Run, tmp_path: Path) -> None:
    product(tmp_path / "whole.onnx")
    (tmp_path / "cut.onnx").write_bytes((tmp_path / "whole.onnx").read_bytes()[:60])
    (tmp_path / "text.onnx").write_text("hello\n")
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "m.onnx").write_bytes(b"")
    advice = "give the path of an ONNX file or `zoo:NAME`"
    for name, message in {
        "cut.onnx": "cut.onnx: not an ONNX model, or cut off (60 bytes); export or copy it again",
        "text.onnx": "text.onnx: not an ONNX model, or cut off (6 bytes); export or copy it again",
        "empty.onnx": "empty.onnx: the file is empty; export or copy the model again",
        "folder.onnx": f"folder.onnx: cannot be read (Is a directory); {advice}",
        "absent.onnx": f"absent.onnx: cannot be read (No such file or directory); {advice}",
        "full": f"full: cannot be read (Is a directory); {advice.replace(' or', ', as full/m.onnx, or')}",
        "resnet18": f"resnet18: cannot be read (No such file or directory); {advice} (did you mean `zoo:resnet18`?)",
        "d/Bert.onnx": f"d/Bert.onnx: cannot be read (No such file or directory); {advice} (did you mean `zoo:bert-large`?)",
        "whole.onnx": "whole.onnx: 2 dimensions without a size: batch, length; give `--dim batch=VALUE --dim length=VALUE`",
    }.items():
        assert refused("solve", name, "--hw", "dynaplasia", "--out", "o") == (2, f"cmswitch: error: {message}\n")
        assert refused("inspect", name) == (2, f"cmswitch: error: {message}\n")


def test_dimension_that_the_model_does_not_have(refused: Run, tmp_path: Path) -> None:
    product(tmp_path / "m.onnx")
    code, err = refused("inspect", "m.onnx", "--dim", "btch=1")
    assert (code, "did you mean 'batch'?" in err) == (2, True)


def test_nodes_that_cannot_be_mapped(refused: Run, tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["h"], name="first", group=3),
        onnx.helper.make_node("NonZero", ["h"], ["y"], name="second"),
    ]
    save_model(tmp_path / "m.onnx", nodes, {"w": [6, 2, 3, 3]}, {"x": [1, 8, 4, 4], "y": [1, 6]})
    code, err = refused("solve", "m.onnx", "--hw", "dynaplasia", "--json")
    assert code == 2
    assert "`group` 3 does not divide 8 input channels" in err
    assert "second: NonZero (ai.onnx 17)" in err


def test_data_outside_the_folder(refused: Run, tmp_path: Path) -> None:
    product(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    weight = model.graph.initializer[0]
    weight.ClearField("float_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../secret.bin")
    onnx.save(model, tmp_path / "m.onnx")
    assert refused("solve", "m.onnx", "--hw", "dynaplasia") == (
        2,
        "cmswitch: error: m.onnx: the data of 'w' is at '../secret.bin', outside the model's folder; "
        "move it next to the model\n",
    )


def test_unknown_names(refused: Run) -> None:
    code, err = refused("solve", "zoo:resnet81", "--hw", "dynaplasia")
    assert code == 2
    assert err.startswith("cmswitch: error: zoo:resnet81: no such network (did you mean `zoo:resnet18`?); there are ")
    assert refused("solve", "zoo:resnet18", "--hw", "dynaplasa") == (
        2,
        "cmswitch: error: dynaplasa: no preset and no file of this name; nearest preset: dynaplasia; "
        "presets: dynaplasia, prime\n",
    )


def chip_file(path: Path, *edits: tuple[str, str]) -> None:
    """Write the preset ``dynaplasia`` with the first line that starts with a key replaced."""
    lines = (Path(hw.__file__).parent / "presets" / "dynaplasia.yaml").read_text(encoding="utf-8").splitlines()
    for start, new in edits:
        lines[next(i for i, line in enumerate(lines) if line.startswith(start))] = new
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_chip_files(refused: Run, tmp_path: Path) -> None:
    chip_file(tmp_path / "c.yaml", ("arrays_per_core:", "arrays_per_core: -2"), ("  columns:", "  colums: 320"))
    for command in (("solve", "zoo:resnet18", "--hw", "c.yaml"), ("hw", "validate", "c.yaml")):
        code, err = refused(*command)
        assert code == 2
        assert "arrays_per_core: expected a whole number of at least 1, got -2" in err
        assert "array.colums: expected a key of array, got 'colums'; nearest key: columns" in err


def test_chips_that_cannot_hold_the_network(refused: Run, tmp_path: Path) -> None:
    chip_file(tmp_path / "narrow.yaml", ("  columns:", "  columns: 4"))
    assert refused("solve", "zoo:resnet18", "--hw", "narrow.yaml", "--out", "o") == (
        1,
        "cmswitch: error: operator 'stem': no feasible plan: one weight needs 8 columns, the chip has 4 (short by 4); "
        "use at least 8 columns, more bits per cell, fewer weight bits or binding 'arrays'\n",
    )
    chip_file(tmp_path / "few.yaml", ("arrays_per_core:", "arrays_per_core: 2"), ("cut_inner:", "cut_inner: false"))
    assert refused("solve", "zoo:resnet18", "--hw", "few.yaml", "--out", "o") == (
        1,
        "cmswitch: error: operator 'stage2.0.conv2': no feasible plan: one column block needs 4 arrays, the chip has 2 "
        "(short by 2); allow cut_inner in the chip file or use arrays with more rows\n",
    )


def test_a_program_for_another_chip(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "p.mop").write_text('program "n" chip "mine" sha256 "0123456789abcdef" weights cold')
    prime = hw.load_chip("prime").sha256[:12]
    found = (
        "cmswitch: error: o/p.mop: compiled for chip 'mine' of sha256 0123456789ab, but --hw prime describes 'prime' of sha256 "
        f"{prime}; give the description that it was compiled for, as it was then{{}}, or compile the network again with "
        "`cmswitch solve MODEL --hw prime --out DIR`\n"
    )
    assert refused("simulate", "o/p.mop", "--hw", "prime") == (2, found.format(""))
    options: dict[str, object] = {
        "model": "m.onnx",
        "hw": "mine.yaml",
        "dims": {},
        "batch": None,
        "seq": None,
        "values": {},
    }
    (tmp_path / "o" / "report.json").write_text(json.dumps({"options": options}))
    assert refused("simulate", "o/p.mop", "--hw", "prime") == (
        2,
        found.format(" (o/report.json says --hw mine.yaml)"),
    )


def test_what_a_plan_is_not_for(refused: Run, tmp_path: Path) -> None:
    chip = hw.load_chip("prime")
    plan = Plan("resnet18", "prime", chip.sha256, "all-compute", True, chip.arrays, 0, 1, 1, ())
    (tmp_path / "plan.json").write_text(plan.to_json())
    chip_file(tmp_path / "mine.yaml", ("name:", "name: prime"))
    mine = hw.load_chip(tmp_path / "mine.yaml")
    assert refused("check", "plan.json", "--model", "zoo:resnet18", "--hw", "mine.yaml") == (
        2,
        f"cmswitch: error: plan.json: compiled for chip 'prime' of sha256 {chip.sha256[:12]}, but --hw mine.yaml describes "
        f"'prime' of sha256 {mine.sha256[:12]}; give the description that it was compiled for, as it was then, or compile the "
        "network again with `cmswitch solve MODEL --hw mine.yaml --out DIR`\n",
    )
    assert refused("check", "plan.json", "--model", "zoo:resnet50", "--hw", "prime") == (
        2,
        "cmswitch: error: plan.json: compiled from network 'resnet18', not 'resnet50'; give --model the file or zoo:NAME it was "
        "compiled from\n",
    )


def test_one_result_in_place_of_another(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    check, simulate = ("check", "--model", "zoo:resnet18", "--hw", "prime"), ("simulate", "--hw", "prime")
    writes = "`cmswitch solve MODEL --hw CHIP --out DIR` writes DIR/"
    assert refused(*check, "out")[1] == f"cmswitch: error: out: cannot read: Is a directory; {writes}plan.json\n"
    for name in ("plan.json", "program.mop"):
        (tmp_path / "out" / name).write_text("nonsense\n")
    for command, given, other in ((check, "program.mop", "plan.json"), (simulate, "plan.json", "program.mop")):
        for path, problem in (
            ("out", "cannot read: Is a directory"),
            ("out/none", "cannot read: No such file or directory"),
        ):
            assert refused(*command, path) == (2, f"cmswitch: error: {path}: {problem}; give out/{other} instead\n")
        code, err = refused(*command, f"out/{given}")
        assert (code, err.endswith(f"; give out/{other} instead\n")) == (2, True)
        assert "instead" not in refused(*command, f"out/{other}")[1]


def test_programs_and_plans(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("nonsense\n")
    (tmp_path / "b").write_bytes(b"\xff\xfe")
    for command in (("simulate", "p", "--hw", "prime"), ("check", "p", "--model", "zoo:resnet18", "--hw", "prime")):
        code, err = refused(*command)
        assert (code, err.startswith("cmswitch: error: p: ")) == (2, True)
    assert refused("simulate", "b", "--hw", "prime") == (
        2,
        "cmswitch: error: b: not a text file (byte 0 is not UTF-8)\n",
    )
    assert refused("simulate", "none", "--hw", "prime") == (
        2,
        "cmswitch: error: none: cannot read: No such file or directory; `cmswitch solve MODEL --hw CHIP --out DIR` writes "
        "DIR/program.mop\n",
    )
    assert refused("check", "p") == (
        2,
        "cmswitch: error: p: there is no report.json beside it that names its network and chip; give --model and --hw\n",
    )
    (tmp_path / "report.json").write_text("{}")
    assert refused("check", "p") == (
        2,
        "cmswitch: error: report.json: not a report of cmswitch solve; give --model and --hw\n",
    )
    assert refused("check", "p", "--seq", "3") == (
        2,
        "cmswitch check: error: --dim, --value, --batch and --seq need --model\nsee 'cmswitch check --help'\n",
    )
