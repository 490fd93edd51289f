"""Networks and operators larger than the chip, and the same result from the same question."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import hw
from cmswitch.graph import MatrixProduct
from cmswitch.pipeline import Result
from tests.compiled import compiled
from tests.sketch import Sketch

ROOT = Path(__file__).parents[2]
CHIP = hw.load_chip("dynaplasia")
ROWS, WEIGHTS = CHIP.array.rows, CHIP.array.columns // CHIP.precision.weight_bits
"""Rows of an array, and weights of one-bit cells in one of its rows: 320 and 40."""


def blocks(result: Result) -> dict[int, list[int]]:
    """For each operator, the column blocks that the segments hold, in order."""
    held: dict[int, list[int]] = {}
    for segment in result.plan.segments:
        for piece in segment.pieces:
            held.setdefault(piece.operator, []).extend(range(piece.first_block, piece.last_block))
    return held


def test_stack_of_layers_three_times_larger_than_the_chip(tmp_path: Path) -> None:
    width, layers = 2 * ROWS, 9
    s = Sketch(tmp_path)
    value = s.input("x", 16, width)
    for i in range(layers):
        value = s.add("MatMul", f"layer{i}", value, s.weight(f"w{i}", width, width))
        value = s.add("Relu", f"relu{i}", value)
    network = s.load(value)
    one_layer = 2 * width // WEIGHTS
    assert layers * one_layer == 3 * CHIP.arrays
    assert network.macs == layers * 16 * width * width
    result = compiled(network)
    assert len(result.plan.segments) >= 3
    assert all(segment.compute_arrays + segment.memory_arrays <= CHIP.arrays for segment in result.plan.segments)
    assert blocks(result) == {i: list(range(width // WEIGHTS)) for i in range(layers)}
    assert result.timing.total_cycles >= network.weight_elements / CHIP.main_memory.bandwidth


def test_operator_with_more_columns_than_the_chip(tmp_path: Path) -> None:
    columns = 2 * CHIP.arrays * WEIGHTS + 1
    s = Sketch(tmp_path)
    s.add("MatMul", "wide", s.input("x", 8, ROWS), s.weight("w", ROWS, columns))
    s.add("Softmax", "soft", "wide", axis=-1)
    network = s.load("soft")
    assert network.macs == 8 * ROWS * columns
    result = compiled(network)
    assert len(result.plan.segments) >= 3
    assert blocks(result) == {0: list(range(2 * CHIP.arrays + 1))}
    assert [t.name for t in network.tensors] == ["x", "soft"]


def test_operator_with_a_longer_sum_than_the_chip(tmp_path: Path) -> None:
    inner = 2 * CHIP.arrays * ROWS + 1
    s = Sketch(tmp_path)
    s.add("MatMul", "long", s.input("x", 8, inner), s.weight("w", inner, WEIGHTS))
    s.add("Relu", "act", "long")
    network = s.load("act")
    assert [o.product for o in network.operators] == [MatrixProduct(8, inner, WEIGHTS, 1, "w")]
    result = compiled(network)
    parts = [o.product for o in result.workload.network.operators if o.product]
    assert len(parts) == 3
    assert sum(part.inner for part in parts) == inner
    assert {(part.rows, part.columns) for part in parts} == {(8, WEIGHTS)}
    assert sum(part.macs for part in parts) == network.macs == 8 * inner * WEIGHTS
    accumulators = [t for t in result.workload.network.tensors if t not in network.tensors and not t.is_output]
    assert [CHIP.activation_bytes(t.elements) for t in accumulators] == [CHIP.accumulator_bytes(8 * WEIGHTS)] * 2
    assert set(result.workload.network.operators[-1].nodes) == {"long", "act"}


def test_same_bytes_from_two_runs_of_a_hard_search(tmp_path: Path) -> None:
    """Slow main memory makes kept tensors worth it, which multiplies the states; the gap ends the search, no clock does."""
    chip = tmp_path / "chip.yaml"
    chip.write_text(CHIP.with_changes(**{"main_memory.bandwidth": 8}).to_json(), encoding="utf-8")
    made = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        command = ["solve", "zoo:resnet18", "--hw", str(chip), "--gap", "0.02", "--quiet", "--out", str(out)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-m", "cmswitch", *command], cwd=ROOT, env=environment, check=True, capture_output=True
        )
        made.append([(out / name).read_bytes() for name in ("plan.json", "program.mop")])
    assert made[0] == made[1]
    assert all(made[0])
