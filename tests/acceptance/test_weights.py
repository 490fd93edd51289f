"""Weights that the file only refers to: their shapes are all that matters, and nothing outside the folder is touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cmswitch.cli import main
from tests.compiled import compiled
from tests.sketch import Sketch

SIDE = 32_768
MOST_BYTES = 2**30
"""A quarter of the weight; the libraries themselves take a part of it."""

ROOT = Path(__file__).parents[2]
COMPILE = f"""
import json, resource, sys
import cmswitch, hw
chip = hw.load_chip("dynaplasia").with_changes(**{{"array.rows": {SIDE // 8}, "array.columns": {SIDE}}})
network = cmswitch.load_network(sys.argv[1])
result = cmswitch.compile_network(network, chip)
kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([network.macs, network.weight_elements, result.timing.total_cycles, kilobytes]))
"""


def test_four_gigabytes_by_reference(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add("MatMul", "y", s.input("x", 3, SIDE), s.external_weight("w", SIDE, SIDE, location="weights.bin"))
    path = s.save("y")
    assert path.stat().st_size < 1000
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(path)], capture_output=True, text=True, cwd=ROOT, check=True, timeout=120
    )
    macs, weights, cycles, kilobytes = json.loads(done.stdout)
    assert (macs, weights) == (3 * SIDE**2, SIDE**2)
    assert weights * 4 == 4 * 2**30
    assert cycles >= SIDE**2 / 102.4  # the weights cross the main-memory port at least once
    assert kilobytes * 1024 < MOST_BYTES


def test_missing_data_is_not_missed(tmp_path: Path) -> None:
    """Latency needs no values, so a file without its data compiles, as the same file with its data does."""
    s = Sketch(tmp_path)
    s.add("MatMul", "y", s.input("x", 3, 64), s.external_weight("w", 64, 96, location="weights.bin"))
    network = s.load("y")
    assert network.macs == 3 * 64 * 96
    without = compiled(network)
    (tmp_path / "weights.bin").write_bytes(bytes(4 * 64 * 96))
    assert compiled(network).program == without.program
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sketch.onnx", "weights.bin"]


@pytest.mark.parametrize("command", [("solve", "--hw", "dynaplasia"), ("inspect",)])
def test_data_outside_the_folder(tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(4 * 64 * 96))
    s = Sketch(folder)
    s.add("MatMul", "y", s.input("x", 3, 64), s.external_weight("w", 64, 96, location="../weights.bin"))
    assert main([command[0], str(s.save("y")), *command[1:]]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "the data of 'w' is at '../weights.bin', outside the model's folder" in err
