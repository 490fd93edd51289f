"""Every small program finds what an enumeration of its choices finds, and its solution costs what it says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import pyomo.environ as pyo
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.duplication import (
    DuplicatedStage,
    DuplicationProblem,
    build_duplication,
    copy_options,
    evaluate_duplication,
    read_duplication,
)
from formulations.mapping import MappingProblem, build_mapping, evaluate_mapping, mesh, read_mapping
from formulations.pipelining import (
    PipelinedStage,
    PipeliningPlan,
    PipeliningProblem,
    Stream,
    build_pipelining,
    evaluate_pipelining,
    read_pipelining,
)
from formulations.remapping import ColumnGroup, RemappingProblem, build_remapping, evaluate_remapping, read_remapping
from formulations.staggering import (
    Batch,
    StaggeringProblem,
    build_staggering,
    deadline,
    evaluate_staggering,
    read_staggering,
)
from solvers import Termination, solve


def agree(
    problem: Any,
    candidates: Iterable[Any],
    build: Callable[[Any], pyo.ConcreteModel],
    read: Callable[[pyo.ConcreteModel, Any], Any],
    evaluate: Callable[[Any, Any], Fraction | int],
) -> None:
    """The program's optimum, re-costed exactly, is the least cost of all candidates that are feasible."""
    costs = []
    for candidate in candidates:
        try:
            costs.append(evaluate(problem, candidate))
        except ValueError:
            continue
    model = build(problem)
    result = solve(model)
    if not costs:
        assert result.termination is Termination.INFEASIBLE
        return
    assert evaluate(problem, read(model, problem)) == min(costs)
    assert result.objective is not None and abs(result.objective - float(min(costs))) <= 1e-6 * float(min(costs)) + 1e-6


@st.composite
def duplications(draw: st.DrawFn) -> DuplicationProblem:
    numbers = st.tuples(
        st.integers(1, 30), st.integers(1, 20), st.integers(0, 4), st.integers(0, 60), st.integers(0, 20)
    )
    stages = draw(st.lists(numbers.map(lambda own: DuplicatedStage(*own)), min_size=1, max_size=3))
    rate = draw(st.none() | st.integers(1, 5))
    return DuplicationProblem(
        tuple(stages), draw(st.integers(1, 10)), draw(st.integers(1, 4)), rate, draw(st.booleans())
    )


@settings(max_examples=60)
@given(duplications())
def test_duplication(problem: DuplicationProblem) -> None:
    options = [copy_options(problem, i) for i in range(len(problem.stages))]
    agree(problem, itertools.product(*options), build_duplication, read_duplication, evaluate_duplication)


@settings(max_examples=60)
@given(duplications())
def test_no_other_number_of_copies_is_better(problem: DuplicationProblem) -> None:
    everything = itertools.product(range(1, 12), repeat=len(problem.stages))
    options = [copy_options(problem, i) for i in range(len(problem.stages))]
    best: list[Fraction | None] = []
    for candidates in (everything, itertools.product(*options)):
        costs = []
        for copies in candidates:
            try:
                costs.append(evaluate_duplication(problem, copies))
            except ValueError:
                continue
        best.append(min(costs, default=None))
    assert best[0] is None or (best[1] is not None and best[1] <= best[0])


@st.composite
def pipelines(draw: st.DrawFn) -> PipeliningProblem:
    count = draw(st.integers(1, 4))
    stages = [
        PipelinedStage(draw(st.integers(1, 9)), draw(st.integers(1, 3)), (draw(st.integers(0, 3)),))
        for _ in range(count)
    ]
    streams = list[Stream]()
    for k, j in itertools.combinations(range(count), 2):
        if len(streams) < 4 and draw(st.booleans()):
            windows = tuple(sorted(draw(st.sets(st.integers(1, 5), min_size=1, max_size=3))))
            streams.append(Stream(k, j, draw(st.integers(0, 4)), windows))
    return PipeliningProblem(tuple(stages), tuple(streams), draw(st.integers(0, 40)), draw(st.integers(1, 20)))


@settings(max_examples=60)
@given(pipelines())
def test_pipelining(problem: PipeliningProblem) -> None:
    longest = 1 + sum(stage.cycles + sum(stage.port_cycles) for stage in problem.stages)
    candidates = (
        PipeliningPlan(windows, interval)
        for windows in itertools.product(*(stream.windows for stream in problem.streams))
        for interval in range(1, longest + 1)
    )
    agree(problem, candidates, build_pipelining, read_pipelining, evaluate_pipelining)


@st.composite
def mappings(draw: st.DrawFn) -> MappingProblem:
    hops = draw(st.sampled_from([mesh(1, 2), mesh(2, 2), mesh(1, 3), mesh(2, 3), ((0, 1, 1), (1, 0, 1), (1, 1, 0))]))
    blocks = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    cores = draw(st.lists(st.sampled_from([2, 4]), min_size=len(hops), max_size=len(hops)))
    if draw(st.booleans()):
        cores = [cores[0]] * len(hops)
    pairs = [pair for pair in itertools.combinations(range(len(blocks)), 2) if draw(st.booleans())]
    alike = draw(st.booleans())
    return MappingProblem(
        blocks, tuple(cores), tuple((t, v, 1 if alike else draw(st.integers(1, 9))) for t, v in pairs), hops
    )


@settings(max_examples=100)
@given(mappings())
def test_mapping(problem: MappingProblem) -> None:
    """Breaking symmetry loses no optimum."""
    candidates = itertools.product(range(len(problem.cores)), repeat=len(problem.blocks))
    agree(problem, candidates, build_mapping, read_mapping, evaluate_mapping)


@st.composite
def staggerings(draw: st.DrawFn) -> StaggeringProblem:
    unit, batches = draw(st.integers(1, 3)), list[Batch]()
    for g in range(draw(st.integers(1, 2))):
        count, arrays, cycles = draw(st.integers(1, 3)), draw(st.integers(1, 3)), unit * draw(st.integers(1, 2))
        inputs = (0,) if g and draw(st.booleans()) else ()
        batches.append(Batch(count, arrays, cycles, unit * draw(st.integers(0, 1)), inputs))
    period = draw(st.none() | st.integers(1, 4).map(lambda n: n * unit))
    return StaggeringProblem(tuple(batches), draw(st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1)])), period)


@settings(max_examples=60)
@given(staggerings())
def test_staggering(problem: StaggeringProblem) -> None:
    """Against all starts in whole cycles, although the program has slots."""
    cycles = range(deadline(problem))
    own = [itertools.combinations_with_replacement(cycles, batch.count) for batch in problem.batches]
    agree(problem, itertools.product(*own), build_staggering, read_staggering, evaluate_staggering)


@st.composite
def remappings(draw: st.DrawFn) -> RemappingProblem:
    slices = st.sets(st.integers(0, 2), min_size=1, max_size=3).map(lambda own: tuple(sorted(own)))
    groups = draw(
        st.lists(st.builds(ColumnGroup, slices, st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=3)
    )
    return RemappingProblem(tuple(groups), draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3)))


@settings(max_examples=60)
@given(remappings())
def test_remapping(problem: RemappingProblem) -> None:
    passes = range(1, problem.passes + 1)
    own = [list(itertools.product(passes, repeat=len(group.slices))) for group in problem.groups]
    agree(problem, itertools.product(*own), build_remapping, read_remapping, evaluate_remapping)
