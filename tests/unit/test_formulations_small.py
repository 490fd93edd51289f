"""The small programs by hand: duplication, pipelining, mapping, staggering, remapping; and what a choice violates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from formulations import duplication, mapping, pipelining, remapping, staggering
from formulations.duplication import DuplicatedStage, DuplicationProblem
from formulations.mapping import MappingProblem, mesh
from formulations.pipelining import PipelinedStage, PipeliningPlan, PipeliningProblem, Stream
from formulations.remapping import ColumnGroup, RemappingProblem
from formulations.staggering import Batch, StaggeringProblem
from solvers import Termination, solve

TWO = DuplicationProblem((DuplicatedStage(12, 10, 2, 30, 5), DuplicatedStage(4, 10, 1)), cores=9)


def test_duplication_by_hand() -> None:
    # 12 items on 3 copies (6 cores) take 40 cycles, 4 items on one copy 40 as well
    model = duplication.build_duplication(TWO)
    assert solve(model).objective == pytest.approx(40)
    copies = duplication.read_duplication(model, TWO)
    assert copies[1] == 1 and duplication.evaluate_duplication(TWO, copies) == 40
    # one after another: (4, 1) 30 + 40, (3, 2) 40 + 20 (8 cores)
    series = replace(TWO, pipelined=False)
    assert solve(duplication.build_duplication(series)).objective == pytest.approx(60)
    assert duplication.evaluate_duplication(series, (3, 2)) == 60
    # the port moves 30 + 3 * 5 units at one per cycle
    narrow = replace(TWO, port_rate=1)
    assert duplication.evaluate_duplication(narrow, (3, 1)) == 45
    # cores of four arrays: a copy of two arrays each, so that three copies take two cores
    assert duplication.evaluate_duplication(replace(TWO, cores=3, core_arrays=4), (4, 4)) == 30


CHAIN = PipeliningProblem(
    (PipelinedStage(4, 2, (1,)), PipelinedStage(6, 2, (2,)), PipelinedStage(2, 1, (0,))),
    (Stream(0, 1, 8, (1, 2, 4)), Stream(1, 2, 8, (1, 2, 4)), Stream(0, 2, 4, (1, 2, 4))),
    buffer_bytes=64,
    items=10,
)


def test_pipelining_by_hand() -> None:
    # every 3 cycles (ports 3, servers 6/2) an item; stream 0 is held 10 cycles (4 items), stream 1 for 8 (4), stream 2 for 12 (4)
    wide = replace(CHAIN, buffer_bytes=80)
    assert pipelining.evaluate_pipelining(wide, PipeliningPlan((4, 4, 4), 3)) == 9 * 3 + 12
    assert solve(pipelining.build_pipelining(wide)).objective == pytest.approx(39)
    # 64 bytes: one of the windows of 8-byte items has 2 items at most, and 10 or 8 cycles need an interval of 5 or 4
    model = pipelining.build_pipelining(CHAIN)
    assert solve(model).objective == pytest.approx(9 * 4 + 12)
    plan = pipelining.read_pipelining(model, CHAIN)
    assert plan.interval == 4 and plan.windows[1] == 2
    assert pipelining.evaluate_pipelining(CHAIN, plan) == 48


LINE = MappingProblem((2, 2, 1, 1), (3, 3), ((0, 1, 5), (0, 2, 1), (1, 3, 1), (2, 3, 9)), mesh(1, 2))


def test_mapping_by_hand() -> None:
    # 2 + 1 arrays on each core: blocks 0 and 1 apart (5), and 2 and 3 too (9) unless they cross (1 + 1 more, and 9 all the same)
    model = mapping.build_mapping(LINE)
    assert solve(model).objective == pytest.approx(14)
    placed = mapping.read_mapping(model, LINE)
    assert placed[0] == 0 and placed[1] == 1 and mapping.evaluate_mapping(LINE, placed) == 14
    assert mesh(2, 2) == ((0, 1, 1, 2), (1, 0, 2, 1), (1, 2, 0, 1), (2, 1, 1, 0))


BURST = StaggeringProblem((Batch(4, 1, 10), Batch(2, 3, 10, 0, (0,))), slack=Fraction(1, 2))


def test_staggering_by_hand() -> None:
    # at once 4 arrays, then 6; the best makespan is 20, so 30 are allowed: three at 0, the last at 10
    # beside the first of the others, the second of which starts at 20
    assert staggering.earliest_starts(BURST) == ((0, 0, 0, 0), (10, 10)) and staggering.deadline(BURST) == 30
    model = staggering.build_staggering(BURST)
    assert solve(model).objective == pytest.approx(4)
    assert staggering.evaluate_staggering(BURST, staggering.read_staggering(model, BURST)) == 4
    starts = ((0, 0, 0, 10), (10, 20))
    assert staggering.evaluate_staggering(BURST, starts) == 4
    # if everything repeats every 20 cycles, what ends after that runs beside the start of the next round
    repeating = replace(BURST, period=20)
    assert staggering.evaluate_staggering(repeating, starts) == 3 + 3
    assert staggering.evaluate_staggering(replace(BURST, period=10), starts) == 4 + 6


GROUPS = RemappingProblem((ColumnGroup((0, 1)), ColumnGroup((0, 1)), ColumnGroup((2,), 0, 3)), 2, 3, 2)


def test_remapping_by_hand() -> None:
    # two row blocks per pass; group 2, of weight 3, runs in pass 1 beside one of group 0: 3 + (1 + 2) + (2 + 3). Whole groups
    # one after another, group 2 last: (1 + 1) + (2 + 2) + 3 * 3
    model = remapping.build_remapping(GROUPS)
    assert solve(model).objective == pytest.approx(11)
    passes = remapping.read_remapping(model, GROUPS)
    assert remapping.evaluate_remapping(GROUPS, passes) == 11
    assert remapping.evaluate_remapping(GROUPS, ((1, 1), (2, 2), (3,))) == 15
    assert remapping.place_row_blocks(GROUPS, ((1, 1), (2, 2), (3,))) == ((0, 1), (0, 1), (0,))


@pytest.mark.parametrize(
    ("evaluate", "problem", "choice", "message"),
    [
        (duplication.evaluate_duplication, TWO, (0, 1), r"\(1\)"),
        (
            duplication.evaluate_duplication,
            replace(TWO, stages=(DuplicatedStage(9, 1, 0),)),
            (2,),
            r"\(1\) stage 0 has no arrays",
        ),
        (duplication.evaluate_duplication, TWO, (4, 2), r"\(2\) cores: 10 used, 9 available"),
        (pipelining.evaluate_pipelining, CHAIN, PipeliningPlan((3, 1, 1), 9), r"\(1\) stream 0: 3 items"),
        (
            pipelining.evaluate_pipelining,
            CHAIN,
            PipeliningPlan((4, 4, 4), 9),
            r"\(2\) buffer bytes: 80 used, 64 available",
        ),
        (pipelining.evaluate_pipelining, CHAIN, PipeliningPlan((1, 1, 1), 11), r"\(4\) interval 11: too short"),
        (pipelining.evaluate_pipelining, CHAIN, PipeliningPlan((1, 1, 1), 2), r"\(6\) interval 2: .* less than 3"),
        (mapping.evaluate_mapping, LINE, (0, 0, 1, 2), r"\(1\)"),
        (mapping.evaluate_mapping, LINE, (0, 0, 1, 1), r"\(2\) arrays of core 0: 4 used, 3 available"),
        (staggering.evaluate_staggering, BURST, ((0, 0, 0), (10, 10)), r"\(1\) batch 0: 4 activations"),
        (
            staggering.evaluate_staggering,
            BURST,
            ((0, 0, 0, 0), (10, 21)),
            r"\(1\) batch 1 ends at 31, after the deadline 30",
        ),
        (staggering.evaluate_staggering, BURST, ((0, 0, 0, 1), (10, 10)), r"\(3\) batch 1: activation 2 starts at 10"),
        (remapping.evaluate_remapping, GROUPS, ((1, 4), (1, 2), (3,)), r"\(1\) group 0"),
        (
            remapping.evaluate_remapping,
            GROUPS,
            ((1, 1), (1, 2), (3,)),
            r"\(2\) arrays: 3 used in one pass, 2 available",
        ),
        (
            remapping.evaluate_remapping,
            replace(GROUPS, slices_per_pass=1),
            ((1, 1), (2, 2), (3,)),
            r"\(3\) input slices: 2 sent in one pass, 1 can be",
        ),
    ],
)
def test_a_violated_constraint_is_named(
    evaluate: Callable[[Any, Any], object], problem: object, choice: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(problem, choice)


@pytest.mark.parametrize(
    ("build", "problem", "message"),
    [
        (
            pipelining.build_pipelining,
            replace(CHAIN, streams=(Stream(1, 0, 8, (1,)),)),
            "not a stream of this pipeline",
        ),
        (pipelining.build_pipelining, replace(CHAIN, streams=(Stream(0, 1, 8, ()),)), "not a stream of this pipeline"),
        (mapping.build_mapping, replace(LINE, traffic=((1, 0, 5),)), "blocks t < v"),
        (mapping.build_mapping, replace(LINE, traffic=((0, 1, 5), (0, 1, 2))), "a pair of blocks twice"),
        (mapping.build_mapping, replace(LINE, hops=((0, 1), (2, 0))), "symmetric"),
        (staggering.build_staggering, StaggeringProblem((Batch(1, 1, 10, 0, (0,)),)), "not a batch after its inputs"),
        (staggering.build_staggering, StaggeringProblem((Batch(1, 1, 99_999, 100_000),)), "larger common divisor"),
        (remapping.build_remapping, replace(GROUPS, groups=(ColumnGroup(()),)), "at least one row block"),
    ],
)
def test_a_malformed_problem_is_refused(build: Callable[[Any], object], problem: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(problem)


@pytest.mark.parametrize(
    ("module", "build", "problem"),
    [
        ("duplication", duplication.build_duplication, replace(TWO, cores=2)),
        ("pipelining", pipelining.build_pipelining, replace(CHAIN, buffer_bytes=19)),
        ("mapping", mapping.build_mapping, replace(LINE, cores=(3, 2))),
        ("remapping", remapping.build_remapping, replace(GROUPS, arrays=1)),
    ],
)
def test_what_does_not_fit(module: str, build: Callable[[Any], Any], problem: Any) -> None:
    model = build(problem)
    assert solve(model).termination is Termination.INFEASIBLE
    with pytest.raises(ValueError, match="holds no solution"):
        getattr(globals()[module], f"read_{module}")(model, problem)
