"""Networks and chips at the edge: they compile, their programs are legal, and the checker agrees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cmswitch
import hw
from cmswitch.graph import Network
from cmswitch.pipeline import Options
from tests.compiled import compiled


def grouped_conv(folder: Path, channels: int, weight: tuple[int, ...], group: int, size: int) -> Network:
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=group, name="conv")
    graph = helper.make_graph(
        [node],
        "grouped",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, weight, np.ones(weight, dtype=np.float32).ravel())],
    )
    return saved(folder, graph)


def fan_out(folder: Path, branches: int) -> Network:
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"a{i}"], name=f"branch{i}") for i in range(branches)]
    nodes.append(helper.make_node("Sum", [f"a{i}" for i in range(branches)], ["y"], name="sum"))
    ones = np.ones(64 * 64, dtype=np.float32)
    graph = helper.make_graph(
        nodes,
        "fan_out",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 64])],
        [helper.make_tensor(f"w{i}", TensorProto.FLOAT, (64, 64), ones) for i in range(branches)],
    )
    return saved(folder, graph)


def saved(folder: Path, graph: onnx.GraphProto) -> Network:
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return cmswitch.load_network(str(path))


def small(arrays: int, columns: int) -> hw.Chip:
    return hw.load_chip("dynaplasia").with_changes(
        **{"arrays_per_core": arrays, "array.rows": 8, "array.columns": columns, "array.max_active_rows": 8}
    )


def test_a_piece_may_hold_fewer_packed_groups_than_the_others(tmp_path: Path) -> None:
    compiled(grouped_conv(tmp_path, 9, (9, 1, 1, 1), 9, 1), small(1, 64))


def test_a_piece_may_begin_and_end_inside_a_group(tmp_path: Path) -> None:
    compiled(grouped_conv(tmp_path, 8, (10, 4, 1, 1), 2, 2), small(3, 8))


@pytest.mark.parametrize("schedule", ["dual-mode", "all-compute", "static"])
def test_a_chip_that_cannot_switch_pays_for_no_switch(tmp_path: Path, schedule: str) -> None:
    chip = hw.Chip.from_mapping({**hw.load_chip("dynaplasia").to_mapping(), "modes": {"switchable": False}})
    result = compiled(grouped_conv(tmp_path, 8, (10, 4, 1, 1), 2, 2), chip, Options(schedule=schedule))
    assert [segment.switch for segment in result.plan.segments] == [0] * len(result.plan.segments)
    assert result.timing.switch_cycles == 0


def test_many_tensors_to_keep_end_at_the_time_limit_with_an_honest_gap(tmp_path: Path) -> None:
    chip = hw.load_chip("dynaplasia").with_changes(**{"main_memory.bandwidth": 4})
    result = compiled(fan_out(tmp_path, 24), chip, Options(time_limit=2))
    assert result.certificate.bound_cycles <= result.certificate.objective_cycles
    assert (result.certificate.status == "optimal") == (result.certificate.gap <= Options().gap)


def test_sorting_takes_the_host_its_time(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
        helper.make_node("Resize", ["a", "", "scales"], ["b"], name="up", mode="linear"),
        helper.make_node("Conv", ["b", "w"], ["c"], name="second"),
        helper.make_node("TopK", ["c", "k"], ["y", "places"], name="best"),
    ]
    constants = [
        helper.make_tensor("w", TensorProto.FLOAT, (8, 8, 1, 1), np.ones(64, dtype=np.float32)),
        helper.make_tensor("scales", TensorProto.FLOAT, (4,), [1, 1, 2, 2]),
        helper.make_tensor("k", TensorProto.INT64, (1,), [3]),
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("y", "places")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 8, 8])]
    network = saved(tmp_path, helper.make_graph(nodes, "detector", inputs, outputs, constants))
    assert network.host_nodes == ("best",)
    chip = hw.load_chip("dynaplasia")
    steps = 8 * 16 * 16 * 4
    assert compiled(network, chip).timing.total_cycles > steps
    quick = chip.with_changes(**{"vector.host_elements_per_cycle": 100})
    assert compiled(network, quick).timing.total_cycles < steps
