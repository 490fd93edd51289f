"""Copies and places together find what an enumeration that shares nothing with the programs finds, on every backend."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from solvers import Status, Termination, is_installed, solve, solver_names


@st.composite
def joint_problems(draw: st.DrawFn, least_stages: int = 1, most_stages: int = 3) -> JointProblem:
    """Small ones, in which stages, network and port take about the same time."""
    hops = draw(st.sampled_from([mesh(1, 2), mesh(1, 3), ((0, 1, 5), (1, 0, 2), (5, 2, 0))]))
    cores = tuple(draw(st.sampled_from([2, 1, 2, 0])) for _ in hops)
    numbers = (
        st.sampled_from([4, 2, 3, 1]),
        st.integers(1, 9),
        st.sampled_from([1, 1, 1, 2, 0]),
        st.integers(0, 9),
        st.just(3),
    )
    own = st.builds(DuplicatedStage, *numbers)
    stages = tuple(draw(st.lists(own, min_size=least_stages, max_size=most_stages)))
    pairs = [pair for pair in itertools.combinations(range(len(stages)), 2) if draw(st.booleans())]
    traffic = tuple((i, j, draw(st.integers(5, 60))) for i, j in pairs)
    rate, port = draw(st.integers(1, 2)), draw(st.sampled_from([None, None, 2, 4]))
    return JointProblem(stages, cores, traffic, hops, rate, port, draw(st.booleans()))


def feasible(problem: JointProblem) -> Iterator[Places]:
    """All copies, of any number up to the items, on all cores that hold them."""
    own = [
        [
            places
            for copies in range(1, (stage.items if stage.arrays else 1) + 1)
            for places in itertools.combinations_with_replacement(range(len(problem.cores)), copies)
            if copies * stage.arrays <= sum(problem.cores)
        ]
        for stage in problem.stages
    ]
    for choice in itertools.product(*own):
        room = list(problem.cores)
        for stage, places in zip(problem.stages, choice, strict=True):
            for core in places:
                room[core] -= stage.arrays
        if min(room) >= 0:
            yield choice


def cost(problem: JointProblem, places: Places) -> Fraction:
    """Stages by their slowest copy, the port, and every pair of copies at its distance."""
    busy = [-(-stage.items // len(own)) * stage.item_cycles for stage, own in zip(problem.stages, places, strict=True)]
    times = [Fraction(max(busy) if problem.pipelined else sum(busy))]
    if problem.port_rate is not None:
        units = [s.traffic + s.copy_traffic * len(own) for s, own in zip(problem.stages, places, strict=True)]
        times.append(Fraction(sum(units), problem.port_rate))
    moved = [
        Fraction(size * problem.hops[k][m], len(places[i]) * len(places[j]))
        for i, j, size in problem.traffic
        for k in places[i]
        for m in places[j]
    ]
    return max(*times, sum(moved, Fraction(0)) / problem.hop_rate)


def least(problem: JointProblem) -> Fraction | None:
    """Cycles of the best choice; None if there is none."""
    return min((cost(problem, places) for places in feasible(problem)), default=None)


@pytest.mark.parametrize("backend", [name for name in solver_names() if is_installed(name) and name != "brute-force"])
@settings(max_examples=60)
@given(problem=joint_problems(least_stages=2))
def test_agrees_with_enumeration(backend: str, problem: JointProblem) -> None:
    check(problem, backend)


@settings(max_examples=25)
@given(problem=joint_problems(most_stages=1))
def test_agrees_with_enumeration_by_the_brute_force_backend(problem: JointProblem) -> None:
    check(problem, "brute-force")


def check(problem: JointProblem, backend: str) -> None:
    """Objective and exact cost of what the program finds are the least cost."""
    best, model = least(problem), build_joint(problem)
    result = solve(model, backend)
    if best is None:
        assert result.termination is Termination.INFEASIBLE
        return
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(float(best), rel=1e-5, abs=1e-5)
    assert evaluate_joint(problem, read_joint(model, problem)) == best


@settings(max_examples=60)
@given(joint_problems())
def test_the_exact_cost_is_that_of_the_enumeration(problem: JointProblem) -> None:
    for places in itertools.islice(feasible(problem), 0, None, 29):
        assert evaluate_joint(problem, places) == cost(problem, places)


@settings(max_examples=60)
@given(joint_problems())
def test_between_the_coarser_level_and_the_two_in_turn(problem: JointProblem) -> None:
    best, coarse = least(problem), build_duplication(copies_alone(problem))
    bound = solve(coarse).objective
    assert best is None or (bound is not None and bound <= best + Fraction(1, 1000))
    places = solve_in_turn(problem, solve)
    if places is None:
        return
    in_turn = cost(problem, places)
    assert best is not None and best <= in_turn
    model, start = build_joint(problem), joint_start(problem, places)
    for variable in [*model.y.values(), *model.x.values()]:
        variable.fix(start[variable.name])
    assert solve(model).objective == pytest.approx(float(in_turn), rel=1e-5, abs=1e-5)
