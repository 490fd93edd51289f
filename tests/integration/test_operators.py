"""Every single-operator test of the onnx package is placed or refused with a reason, and the page that says so is current."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import pytest

from benchmarks import operators
from benchmarks.operators import OperatorCase, find_cases, judge, judge_all, page
from benchmarks.record import Row

SECONDS = 30


@pytest.fixture(scope="module")
def rows() -> Sequence[Row]:
    return judge_all(find_cases(), SECONDS)


def test_none_crashes_hangs_or_is_free(rows: Sequence[Row]) -> None:
    assert len(rows) > 1000
    assert [(row["case"], row["failure"]) for row in rows if row["failure"]] == []


def test_each_is_placed_or_refused_with_a_reason(rows: Sequence[Row]) -> None:
    assert [row["case"] for row in rows if bool(row["places"]) == bool(row["refused"])] == []


def test_what_no_lane_can_do_is_on_the_host(rows: Sequence[Row]) -> None:
    places = {row["case"]: row["places"] for row in rows}
    for name in ("top_k", "det_2d", "string_concat", "bernoulli", "training_dropout", "nonmaxsuppression_two_batches"):
        assert places[f"test_{name}"] == ["host"], name
    assert places["test_relu"] == ["vector unit"]
    assert places["test_matmul_2d"] == ["arrays"]
    assert places["test_gather_0"] == places["test_scatternd"] == ["data movement"]
    assert places["test_flatten_axis1"] == ["metadata"]
    assert places["test_shape"] == ["folded"]


def test_the_page_is_current(rows: Sequence[Row]) -> None:
    committed = operators.PAGE.read_text(encoding="utf-8")
    if f"tests of onnx {onnx.__version__}:" not in committed:
        pytest.skip(f"the page is of another version of onnx than {onnx.__version__}")
    assert page(rows) == committed, "run: python -m benchmarks operators"


def case(operator: str) -> OperatorCase:
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node(operator, ["x"], ["y"])], "g", values[:1], values[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    return OperatorCase(f"test_{operator}", model, {}, operator, "", 14, body=False)


@pytest.mark.parametrize("error", [RuntimeError("no"), RecursionError("deep")])
def test_a_crash_is_a_failure(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise error

    monkeypatch.setattr(operators, "assemble", crash)
    assert judge(case("Relu"), SECONDS).failure == f"{type(error).__name__}: {error}"


def test_a_case_that_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(operators, "assemble", hang)
    assert judge(case("Relu"), 0.1).failure == "takes more than 0.1 s"


def test_work_that_costs_nothing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "FREE", frozenset({"Reshape"}))
    assert judge(case("Identity"), SECONDS).failure == "Identity: no cost"
    assert judge(case("Relu"), SECONDS).failure is None
