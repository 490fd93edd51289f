"""The packages load together in either order, and ``formulations`` and ``solvers`` need nothing of the compiler."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from solvers import is_installed, solver_names

ROOT = Path(__file__).parents[2]

REFUSE = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {refused!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Refuse())
"""

SOLVE_A_SEGMENT = """
import formulations, solvers
from formulations import Placement, SegmentProblem, StageData, Use
from formulations import bound_times, build_segment_allocation, evaluate, read_segment_allocation, solve_segment
stage = StageData(2, 8, 3, 4, 4, (1, 2), 10, 20)
problem = SegmentProblem((stage,), (), (), (Use(0, "fetch", "main", 12),), 6, 6, 6, 0, 2, 50)
model = build_segment_allocation(problem)
bound_times(model, 1000)
exact = solve_segment(problem).cost.total
result = solvers.solve(model, {solver!r}, isolated={isolated})
assert evaluate(problem, read_segment_allocation(model, problem)).total == exact, result
print(result.status)
"""


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "order", [("highspy", "ortools.sat.python.cp_model"), ("ortools.sat.python.cp_model", "highspy")]
)
def test_either_order_of_import(order: tuple[str, str]) -> None:
    both = "solvers.solve(knapsack(), 'highs').objective, solvers.solve(knapsack(), 'cp-sat').objective"
    script = (
        f"import {order[0]}\nimport {order[1]}\nimport solvers\n"
        f"from tests.solver_contract.test_contract import knapsack\nprint(*({both}))"
    )
    assert run(script) == "14.0 14.0"


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("solver", [name for name in solver_names() if is_installed(name)])
def test_solves_without_the_packages_of_the_compiler(solver: str, isolated: bool) -> None:
    refused = ("onnx", "onnxruntime", "pydantic", "simpy", "networkx", "ruamel", "tqdm", "cmswitch", "hw")
    script = REFUSE.format(refused=refused) + SOLVE_A_SEGMENT.format(solver=solver, isolated=isolated)
    assert run(script) == "optimal"


@pytest.mark.parametrize(("refused", "solver"), [("ortools", "cp-sat"), ("ortools", "scip"), ("highspy", "highs")])
def test_a_backend_without_its_package_says_what_to_install(refused: str, solver: str) -> None:
    script = (
        "import importlib.util\nfind = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *rest: None if name == {refused!r} else find(name, *rest)\n"
        f"import solvers\nprint(solvers.is_installed({solver!r}))\n"
        f"try: solvers.get_solver({solver!r})\nexcept solvers.SolverUnavailable as error: print(error)"
    )
    assert run(script) == f"False\nsolver {solver!r} needs the package {refused}: pip install {refused}"


def test_the_small_distribution_asks_for_a_part_of_the_large_one() -> None:
    large, small = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        for folder in (".", "packaging/solvers")
    )
    assert set(small["dependencies"]) < set(large["dependencies"])
    assert not {"onnx", "pydantic", "simpy"} & {d.split(">")[0] for d in small["dependencies"]}
