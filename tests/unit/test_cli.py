"""The command line around a compiler that is replaced by a fake: outputs, exit codes, interruption, error policy."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import cmswitch
from cmswitch import cli, commands
from cmswitch.errors import InfeasibleError, SolverError
from cmswitch.graph.network import MatrixProduct, Network, Operator, VectorWork
from cmswitch.options import COST_MODELS, SOLVERS
from cmswitch.program.program import Program
from cmswitch.segmentation.plan import PlannedPiece, PlannedSegment
from cmswitch.simulator.timing import Busy, Energy, SegmentTiming, Timing
from cmswitch.version import __version__
from solvers import solver_names

NETWORK = Network(
    name="tiny",
    operators=(
        Operator("first", ("first",), MatrixProduct(4, 2, 3, weight="w"), 4, (), (), ()),
        Operator("pool", ("pool",), None, 4, (), (VectorWork("pool", "pool", 8),), ()),
    ),
    tensors=(),
    node_count=2,
)
SOLVE = ("solve", "zoo:tiny", "--hw", "dynaplasia")


@dataclass
class FakePipeline:
    """Stands for ``cmswitch.pipeline``; ``during`` runs in the middle of the compilation."""

    during: Callable[[], None] = lambda: None
    given: list[SimpleNamespace] = field(default_factory=list)
    stopped: bool = False
    predicted: int = 99
    suitable: str = "cold"
    Options = staticmethod(lambda **options: SimpleNamespace(**options))

    def compile_network(
        self, network: Network, chip: Any, options: SimpleNamespace, *, progress: Any, should_stop: Any
    ) -> Any:
        self.given.append(options)
        progress("dual-mode", float("inf"), 2.0)
        self.during()
        self.stopped = should_stop()
        segment = SegmentTiming(store_cycles=0, switch_cycles=2, reload_cycles=30, execute_cycles=68, stages=())
        pieces = (PlannedPiece(0, "first", 0, 1, 1), PlannedPiece(1, "pool", 0, 1, 0))
        planned = PlannedSegment(pieces, (), 1, 2, 1, execute="133/2", reload="30", switch=2)
        return SimpleNamespace(
            plan=SimpleNamespace(segments=(planned,), to_json=lambda: '{"plan": 1}\n'),
            program=Program("tiny", chip.name, chip.sha256, (), ()),
            timing=Timing(100, (segment,), Busy(), 5, 2, 2, 30, Energy({}, ("buffer",)), trace={"traceEvents": []}),
            certificate=SimpleNamespace(
                termination="interrupted" if self.stopped else "optimal",
                status="feasible" if self.stopped else "optimal",
                objective_cycles=self.predicted,
                bound_cycles=98,
                gap=1 / 99,
                segments_considered=3,
                programs_solved=1,
                cache_hits=2,
                fallbacks={},
            ),
            roofline_cycles=50,
            schedule_used="dual-mode",
            weights=options.weights or self.suitable,
            seconds={"build": 0.25},
            seconds_elsewhere=0.0,
            warnings=("this is a fake",),
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakePipeline:
    """The fake in place of the compiler, and an empty working folder."""
    pipeline = FakePipeline()
    module = ModuleType("cmswitch.pipeline")
    module.__dict__.update(Options=pipeline.Options, compile_network=pipeline.compile_network)
    monkeypatch.setitem(sys.modules, "cmswitch.pipeline", module)
    monkeypatch.setattr(cmswitch, "pipeline", module, raising=False)
    monkeypatch.setattr(commands, "load_network", lambda options: NETWORK)
    monkeypatch.chdir(tmp_path)
    return pipeline


def test_json_is_alone_on_stdout_and_follows_the_schema(fake: FakePipeline, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SOLVE, "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert list(report) == [
        "schema", "model", "chip", "options", "solve", "latency", "energy", "power", "modes", "segments", "warnings",
    ]  # fmt: skip
    assert report["schema"] == 1
    assert report["model"] == {
        "name": "tiny", "nodes": 2,
        "nodes_by_place": {"arrays": 1, "vector unit": 1, "data movement": 0, "metadata": 0, "host": 0},
        "cim_operators": 1, "macs": 24, "weight_elements": 6, "weight_bytes": 6,
    }  # fmt: skip
    assert report["latency"] == {
        "predicted_cycles": 99, "simulated_cycles": 100, "roofline_cycles": 50, "first_weight_write_cycles": 30,
        "interval_cycles": 68,
    }  # fmt: skip
    assert report["segments"] == [
        {
            "index": 0,
            "operators": ["first", "pool"],
            "compute_arrays": 1,
            "memory_arrays": 2,
            "cycles": {"execute": 68, "reload": 30, "write_back": 0, "switch": 2},
            "predicted_cycles": {"execute": 67, "reload": 30, "write_back": 0, "switch": 2},
            "copies": {"first": 1},
        }
    ]
    assert report["energy"] == {"total_pj": None, "by_component": {}, "not_modelled": ["buffer"]}
    assert report["modes"] == {"memory_fraction": round(2 / 96, 6), "switches": 2, "switch_cycles": 2}
    assert list(report["solve"]["seconds"]) == ["import", "build", "total"]
    assert report["solve"]["seconds"]["build"] == 0.25
    assert report["options"]["seed"] == 0
    assert report["options"]["versions"]["cmswitch"] == __version__
    assert err == "warning: this is a fake\n"
    assert os.listdir() == []


def test_solve_and_inspect_describe_the_network_in_the_same_words(
    fake: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "tiny: 2 nodes (arrays: 1, vector unit: 1, data movement: 0, metadata: 0, host: 0); 24 MACs, 6 weights"
    assert cli.main([*SOLVE, "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(f"model      {words} of 6 bytes\n")
    assert cli.main(["inspect", "zoo:tiny"]) == 0
    assert capsys.readouterr().out.startswith(f"{words}\n")


def test_options_reach_the_compiler(fake: FakePipeline) -> None:
    given = [
        "--schedule",
        "static",
        "--gap",
        "0",
        "--time-limit",
        "1.5",
        "--threads",
        "2",
        "--seed",
        "7",
        "--no-prefetch",
    ]
    assert cli.main([*SOLVE, *given, "--cost-model", "eq10", "--solver", "highs", "--weights", "resident"]) == 0
    assert vars(fake.given[0]) == {
        "cost_model": "eq10", "solver": "highs", "schedule": "static", "weights": "resident", "time_limit": 1.5, "gap": 0.0,
        "threads": 2, "seed": 7,
    }  # fmt: skip


def test_summary_and_files(fake: FakePipeline, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SOLVE, "--out", "new/folder", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "simulated" in out and "100 cycles" in out
    assert sorted(os.listdir("new/folder")) == sorted(commands.SOLVE_FILES)
    assert Path("new/folder/plan.json").read_text() == '{"plan": 1}\n'
    assert json.loads(Path("new/folder/report.json").read_text())["schema"] == 1
    assert json.loads(Path("new/folder/trace.json").read_text()) == {"traceEvents": []}


def test_the_summary_says_that_the_weights_are_not_written(
    fake: FakePipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "weights    resident, in the arrays beforehand: no cycles of writing them are counted; --weights cold counts them\n"
    assert cli.main([*SOLVE]) == 0
    assert "weights  " not in capsys.readouterr().out
    fake.suitable = "resident"
    assert cli.main([*SOLVE]) == 0
    assert line in capsys.readouterr().out
    assert cli.main([*SOLVE, "--weights", "cold"]) == 0
    assert "weights  " not in capsys.readouterr().out


@pytest.mark.parametrize(("predicted", "confirmed"), [(92, True), (91, False), (108, True), (109, False)])
def test_an_optimum_that_the_simulation_does_not_confirm(
    fake: FakePipeline, capsys: pytest.CaptureFixture[str], predicted: int, confirmed: bool
) -> None:
    warning = (
        f"the plan is optimal as predicted ({predicted} cycles), but the simulation takes 100 cycles, which differs by more than "
        "8 %; another plan may be faster in simulation"
    )
    fake.predicted = predicted
    assert cli.main([*SOLVE, "--out", "o"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(Path("o/report.json").read_text())["warnings"] == [
        "this is a fake",
        *([] if confirmed else [warning]),
    ]
    assert (f"warning: {warning}\n" in err) is not confirmed
    assert (" %, optimal as predicted only\n" in out) is not confirmed
    fake.during = lambda: signal.raise_signal(signal.SIGINT)
    assert cli.main([*SOLVE, "--quiet"]) == 130
    assert "optimal" not in capsys.readouterr().out


def test_interruption_writes_the_best_plan(fake: FakePipeline, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    fake.during = lambda: signal.raise_signal(signal.SIGINT)
    assert cli.main([*SOLVE, "--out", "o", "--quiet"]) == 130
    assert fake.stopped
    assert json.loads(Path("o/report.json").read_text())["solve"]["status"] == "feasible"
    assert capsys.readouterr().err == "cmswitch: interrupted; this is the best plan so far, it is in o\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_a_request_to_terminate_does_the_same(fake: FakePipeline) -> None:
    before = signal.getsignal(signal.SIGTERM)
    fake.during = lambda: signal.raise_signal(signal.SIGTERM)
    assert cli.main([*SOLVE, "--out", "o", "--quiet"]) == 143
    assert fake.stopped
    assert sorted(os.listdir("o")) == sorted(commands.SOLVE_FILES)
    assert signal.getsignal(signal.SIGTERM) is before


def test_second_interruption_ends_at_once(fake: FakePipeline, capsys: pytest.CaptureFixture[str]) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    fake.during = twice
    assert cli.main([*SOLVE, "--out", "o"]) == 130
    assert capsys.readouterr().err == "cmswitch: interrupted before there was a result\n"
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            InfeasibleError("arrays", 100, 96, "array", "use a chip with 100 arrays", "conv1"),
            1,
            "cmswitch: error: conv1: no feasible plan: arrays needs 100 arrays, the chip has 96 (short by 4); "
            "use a chip with 100 arrays\n",
        ),
        (SolverError("install it"), 3, "cmswitch: error: install it\n"),
        (
            ZeroDivisionError("by\nzero"),
            70,
            "cmswitch: internal error: ZeroDivisionError: by zero\n"
            "this is a defect of cmswitch; run again with -v and report the traceback\n",
        ),
    ],
)
def test_errors_of_the_compiler(
    fake: FakePipeline, capsys: pytest.CaptureFixture[str], error: Exception, code: int, message: str
) -> None:
    def fail() -> None:
        raise error

    fake.during = fail
    assert cli.main([*SOLVE, "--out", "o", "--json"]) == code
    assert capsys.readouterr() == ("", message)
    assert cli.main([*SOLVE, "-v"]) == code
    assert "Traceback" in capsys.readouterr().err
    assert os.listdir() == []


def test_long_tables_are_cut(fake: FakePipeline) -> None:
    from cmswitch.report import SUMMARY_ROWS, SegmentCycles, SegmentSection, _segment_table

    cycles = SegmentCycles(1, 2, 3, 4)
    segments = tuple(SegmentSection(i, ("op",), 1, 0, cycles, cycles, {"op": 1}) for i in range(SUMMARY_ROWS + 5))
    table = _segment_table(segments)
    assert len(table) == SUMMARY_ROWS + 1
    assert table[-1] == "... and 6 more segments, 60 cycles (all in report.json)"
    assert len(_segment_table(segments[:SUMMARY_ROWS])) == SUMMARY_ROWS + 1


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["solve", "--help"]) == 0
    assert "report.html is not in this version" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"cmswitch {__version__}\n"


def test_every_backend_can_be_named() -> None:
    assert set(solver_names()) <= set(SOLVERS)


def test_every_cost_model_can_be_chosen() -> None:
    from cmswitch.allocation.cost_models import COST_MODELS as implemented

    assert tuple(implemented) == COST_MODELS
