"""Copies and places together, by hand: what deciding one after the other loses, on every backend; and what a choice violates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from formulations.duplication import DuplicatedStage, build_duplication
from formulations.joint import (
    JointProblem,
    Places,
    build_joint,
    copies_alone,
    evaluate_joint,
    joint_start,
    read_joint,
    solve_in_turn,
)
from formulations.mapping import mesh
from solvers import Termination, is_installed, solve, solver_names

BACKENDS = [name for name in solver_names() if is_installed(name)]

FAR = JointProblem(
    (DuplicatedStage(8, 10, 1), DuplicatedStage(4, 10, 1)), (2, 1), traffic=((0, 1, 200),), hops=mesh(1, 2), hop_rate=1
)
"""Two stages on a core of two arrays and one of one array, a hop away."""

FRAGMENTED = JointProblem((DuplicatedStage(8, 10, 3),), (4, 4, 4), traffic=(), hops=mesh(1, 3), hop_rate=1)
"""Copies of three arrays on cores of four: 12 arrays, but room for three copies only."""


@pytest.mark.parametrize("backend", BACKENDS)
def test_far_copies_cost_more_than_they_save(backend: str) -> None:
    # copies alone: (2, 1) in 40 cycles, which fill both cores, so that half of the 200 bytes or all of them move a hop
    places = solve_in_turn(FAR, lambda model: solve(model, backend))
    assert places == ((0, 1), (0,)) and evaluate_joint(FAR, places) == 100
    # together: one copy of each on core 0 in 80 cycles, without traffic
    model = build_joint(FAR)
    assert solve(model, backend).objective == pytest.approx(80)
    assert read_joint(model, FAR) == ((0,), (0,)) and evaluate_joint(FAR, ((0,), (0,))) == 80
    # a network that is fast enough: nothing is lost
    fast = replace(FAR, hop_rate=5)
    assert solve(build_joint(fast), backend).objective == pytest.approx(40)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_copy_sends_to_every_copy(backend: str) -> None:
    # two copies of each stage take 40 cycles; one of each on either core, half of the bytes still move a hop
    stages = (FAR.stages[0], FAR.stages[0])
    problem = replace(FAR, stages=stages, cores=(2, 2), traffic=((0, 1, 120),))
    model = build_joint(problem)
    assert solve(model, backend).objective == pytest.approx(60)
    assert read_joint(model, problem) == ((0, 1), (0, 1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_that_are_there_in_pieces_only(backend: str) -> None:
    # copies alone: four of them, two items each; no cores hold those
    assert solve(build_duplication(copies_alone(FRAGMENTED)), backend).objective == pytest.approx(20)
    assert solve_in_turn(FRAGMENTED, lambda model: solve(model, backend)) is None
    model = build_joint(FRAGMENTED)
    assert solve(model, backend).objective == pytest.approx(30)
    assert read_joint(model, FRAGMENTED) == ((0, 1, 2),)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "problem",
    [
        replace(FAR, cores=(1, 0)),  # the arrays do not suffice
        replace(FRAGMENTED, stages=(DuplicatedStage(8, 10, 5),)),  # no core holds a copy
    ],
)
def test_what_does_not_fit(backend: str, problem: JointProblem) -> None:
    model = build_joint(problem)
    assert solve(model, backend).termination is Termination.INFEASIBLE
    with pytest.raises(ValueError, match="holds no solution"):
        read_joint(model, problem)
    assert solve_in_turn(problem, lambda own: solve(own, backend)) is None


def test_shares_ports_and_stages_one_after_another() -> None:
    # three copies, two of them on core 0, send two thirds of the bytes to core 1
    assert evaluate_joint(replace(FAR, cores=(2, 2)), ((0, 0, 1), (1,))) == pytest.approx(200 * 2 / 3)
    series = replace(FAR, traffic=(), pipelined=False)
    assert evaluate_joint(series, ((0, 1), (0,))) == 80
    assert solve(build_joint(series)).objective == pytest.approx(80)
    stages = (DuplicatedStage(8, 10, 1, traffic=30, copy_traffic=100), FAR.stages[1])
    assert evaluate_joint(replace(FAR, stages=stages, traffic=(), port_rate=2), ((0, 1), (0,))) == 115


def test_warm_start_from_the_two_in_turn() -> None:
    """The start decides everything that is whole, and costs in the program what its places cost."""
    places = solve_in_turn(FAR, solve)
    assert places is not None
    model, start = build_joint(FAR), joint_start(FAR, places)
    for variable in [*model.y.values(), *model.x.values()]:
        variable.fix(start[variable.name])
    assert solve(model).objective == pytest.approx(100)
    assert solve(build_joint(FAR), warm_start=start).objective == pytest.approx(80)


@pytest.mark.parametrize(
    ("problem", "places", "message"),
    [
        (FAR, ((0,), ()), r"\(1\): every stage has at least one copy"),
        (FAR, ((0,), (2,)), r"\(1\): every block is on one core"),
        (replace(FAR, stages=(FAR.stages[0], DuplicatedStage(4, 10, 0))), ((0,), (0, 1)), r"\(1\) stage 1 has no arr"),
        (FAR, ((0, 1), (1,)), r"\(2\) arrays of core 1: 2 used, 1 available"),
    ],
)
def test_a_violated_constraint_is_named(problem: JointProblem, places: Places, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate_joint(problem, places)


@pytest.mark.parametrize("use", [build_joint, lambda problem: solve_in_turn(problem, solve)])
@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (replace(FAR, traffic=((0, 2, 5),)), "blocks t < v"),
        (replace(FAR, hops=((0, 1), (2, 0))), "symmetric"),
        (replace(FAR, hop_rate=0), "hop_rate 0: a network moves at least one byte hop per cycle"),
    ],
)
def test_a_malformed_problem_is_refused(
    use: Callable[[JointProblem], Any], problem: JointProblem, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        use(problem)
