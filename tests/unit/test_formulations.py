"""Hand-computed allocations, refused input, and what importing the package loads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import pytest

from formulations import (
    Dependence,
    Placement,
    SegmentAllocation,
    SegmentProblem,
    StageData,
    Use,
    allocation_start,
    build_segment_allocation,
    evaluate,
    lower_bound,
    read_segment_allocation,
    solve_segment,
)
from formulations.columns import build_segment_columns, read_segment_columns, stage_options
from formulations.compact import build_compact, read_compact, solve_compact
from formulations.pipeline import pipeline
from solvers import Status, Termination, solve

FIRST = StageData(2, 8, 3, 4, 4, (1, 2), 10, 20)
SECOND = StageData(1, 8, 2, 4, 8, (1,), 10, 10)
IN_MAIN = Placement("main", 0, 0, (Use(0, "write", "main", 16), Use(1, "fetch", "main", 16)))
IN_ARRAYS = Placement("arrays", 1, 0, (Use(0, "write", "arrays", 8), Use(1, "fetch", "arrays", 8)))
PAIR = SegmentProblem(
    stages=(FIRST, SECOND),
    tensors=((IN_MAIN, IN_ARRAYS),),
    dependences=(Dependence(0, 1, first=2, last=2),),
    fixed=(Use(0, "fetch", "main", 12),),
    total_arrays=6,
    compute_arrays=6,
    memory_arrays=6,
    buffer_bytes=0,
    write_drivers=2,
    reload_cycles=50,
)
TWICE_IN_ARRAYS = SegmentAllocation((2, 1), (1,))


def test_two_stages_by_hand() -> None:
    # L = (16, 16) from the shared array port; lambda = ((12 + 4 + 8)/4 + 3, (8 + 8)/4 + 4) = (9, 8)
    # s_1 = 9 + 16/4 = 13; f_0 = 9 + 12 = 21; f_1 = max(13 + 8 + 12, 21 + 8 + 4) = 33; R = 50, above (2 20 + 10) / 2
    cost = evaluate(PAIR, TWICE_IN_ARRAYS)
    assert cost.execute == 33 and cost.reload == 50 and cost.total == 83
    assert (cost.compute_arrays, cost.memory_arrays) == (5, 1)


def test_one_port_in_main_memory_by_hand() -> None:
    # L_0 = max(4, 12 + 16), L_1 = 16; lambda = ((12 + 4 + 16)/4 + 6, (16 + 8)/4 + 4) = (14, 10); s_1 = 14 + 7
    # f_0 = 14 + 21 = 35; f_1 = max(21 + 10 + 12, 35 + 10 + 4) = 49
    # main memory carries 44 and idles 21 - 2/4 28 = 7 before s_1 and (10 + 4) - 2/4 16 = 6 after f_0
    assert evaluate(PAIR, SegmentAllocation((1, 1), (0,))).execute == 57


def test_dynamic_operand_by_hand() -> None:
    # s_1 = f_0 + max(10, 9) with f_0 = 21 (L_0 = 12, lambda_0 = 12/4 + 4/4 + 4/4 + 3 = 8 without traffic of the tensor)
    operand = (Placement("main", 0, 0, (Use(0, "write", "main", 4), Use(1, "operand", "main", 9))),)
    problem = replace(
        PAIR,
        stages=(FIRST, replace(SECOND, operand_in_segment=True)),
        tensors=(operand,),
        dependences=(Dependence(0, 1, 4, 4, operand=True),),
        reload_cycles=35,
    )
    # L_0 = max(12, 12 + 4) = 16; f_0 = 8 + 12 = 20; s_1 = 30; lambda_1 = 8/4 + 4 = 6; f_1 = 30 + 6 + 12
    cost = evaluate(problem, SegmentAllocation((2, 1), (0,)))
    assert cost.execute == 48 and cost.reload == 35


def test_writing_of_copies_limits_the_reload() -> None:
    """2 20 + 10 cycles of writing on one port; unequal tiles are not written in rounds; nothing is left of resident weights."""
    slow = replace(PAIR, write_drivers=1, reload_cycles=49)
    assert evaluate(slow, TWICE_IN_ARRAYS).reload == 50
    assert evaluate(slow, SegmentAllocation((1, 1), (1,))).reload == 49
    uneven = replace(slow, stages=(replace(FIRST, copy_write_cycles=11), SECOND), write_drivers=3, reload_cycles=0)
    assert evaluate(uneven, TWICE_IN_ARRAYS).reload == Fraction(2 * 11 + 10, 3)
    resident = tuple(replace(stage, write_cycles=0, copy_write_cycles=0) for stage in uneven.stages)
    assert evaluate(replace(uneven, stages=resident), TWICE_IN_ARRAYS).reload == 0


@pytest.mark.parametrize(
    ("change", "choice", "message"),
    [
        ({}, SegmentAllocation((3, 1), (1,)), r"\(1\) stage 0: 3 copies"),
        ({}, SegmentAllocation((2, 1), (2,)), r"\(2\) tensor 0: no placement 2"),
        ({}, SegmentAllocation((2,), (1,)), r"\(1\)\(2\)"),
        ({"compute_arrays": 4}, TWICE_IN_ARRAYS, r"\(3\) compute-mode arrays: 5 used, 4 available"),
        ({"memory_arrays": 0}, TWICE_IN_ARRAYS, r"\(3\) memory-mode arrays: 1 used, 0 available"),
        ({"total_arrays": 5}, TWICE_IN_ARRAYS, r"\(3\) arrays: 6 used, 5 available"),
        ({"buffer_bytes": -1}, TWICE_IN_ARRAYS, r"\(4\) buffer bytes"),
    ],
)
def test_a_violated_constraint_is_named(change: dict[str, int], choice: SegmentAllocation, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(replace(PAIR, **change), choice)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (replace(PAIR, stages=()), "at least one stage"),
        (replace(PAIR, write_drivers=0), "write_drivers"),
        (replace(PAIR, stages=(replace(FIRST, copies=(2, 1)), SECOND)), "ascending"),
        (replace(PAIR, stages=(replace(FIRST, chunks=0), SECOND)), "chunks"),
        (replace(PAIR, stages=(replace(FIRST, arrays=0), SECOND)), "do not go with copies"),
        (replace(PAIR, dependences=(Dependence(1, 0, 1, 1),)), "topological"),
        (replace(PAIR, dependences=(Dependence(0, 1, 0, 1),)), "first and last"),
        (replace(PAIR, tensors=((),)), "no placement"),
        (replace(PAIR, fixed=(Use(0, "fetch", "arrays", 1),)), "fixed traffic cannot use port 'arrays'"),
        (replace(PAIR, fixed=(Use(2, "fetch", "main", 1),)), "bad traffic"),
    ],
)
def test_a_malformed_problem_is_refused_everywhere(problem: SegmentProblem, message: str) -> None:
    for use in (
        build_segment_allocation,
        build_segment_columns,
        build_compact,
        lower_bound,
        solve_segment,
        lambda p: evaluate(p, TWICE_IN_ARRAYS),
    ):
        with pytest.raises(ValueError, match=message):
            use(problem)


@pytest.mark.parametrize("limit", ["memory_arrays", "buffer_bytes"])
def test_a_negative_limit_leaves_nothing_even_if_nothing_takes_such_room(limit: str) -> None:
    """What is kept across a segment may take more room than there is."""
    only = replace(PAIR, tensors=(), buffer_bytes=0)
    assert solve(build_segment_allocation(only)).status is Status.OPTIMAL
    full = replace(only, **{limit: -1})  # type: ignore[arg-type]
    assert solve(build_segment_allocation(full)).termination is Termination.INFEASIBLE
    assert solve_segment(full).termination == "infeasible"
    assert lower_bound(full) == float("inf")


def test_search_modes() -> None:
    best = solve_segment(PAIR)
    assert best.cost is not None and best.bound == best.cost.total == 83 and best.gap == 0
    assert solve_segment(PAIR, upper=83).termination == "cutoff"
    assert solve_segment(PAIR, upper=83).bound == 83
    assert solve_segment(PAIR, upper=84).allocation == best.allocation
    stopped = solve_segment(PAIR, should_stop=lambda: True)
    assert stopped.termination == "interrupted" and 0 < stopped.bound <= 83
    limited = solve_segment(PAIR, node_limit=0)
    assert limited.termination == "node_limit" and limited.bound <= 83 and limited.allocation is not None
    nothing = solve_segment(replace(PAIR, total_arrays=2))
    assert (nothing.termination, nothing.cost, nothing.bound) == ("infeasible", None, float("inf"))
    assert lower_bound(replace(PAIR, total_arrays=2)) == float("inf")


def test_warm_start_and_reading_back() -> None:
    model = build_segment_allocation(PAIR)
    with pytest.raises(ValueError, match="holds no solution"):
        read_segment_allocation(model, PAIR)
    solve(model, warm_start=allocation_start(PAIR, TWICE_IN_ARRAYS))
    assert evaluate(PAIR, read_segment_allocation(model, PAIR)).total == 83


def test_other_forms_by_hand() -> None:
    """As in the option form: both copies, and the tensor in arrays."""
    columns = build_segment_columns(PAIR)
    compact = build_compact(PAIR)
    for model, read in ((columns, read_segment_columns), (compact, read_compact)):
        with pytest.raises(ValueError, match="holds no solution"):
            read(model, PAIR)
        assert solve(model).objective == pytest.approx(83)
        assert read(model, PAIR) == TWICE_IN_ARRAYS
    # copies x placements of the first stage, placements of the second
    assert [len(own) for own in columns.options] == [4, 2]
    with pytest.raises(ValueError, match="more than 5 joint options of copies and placements"):
        build_segment_columns(PAIR, most_options=5)


def test_copies_that_gain_nothing_are_no_columns() -> None:
    """The vector unit takes 100 cycles whatever the copies, of which even one takes 24; the first chunk, 6 cycles, gains."""
    slow = replace(PAIR, stages=(replace(FIRST, vector_cycles=100, copies=(1, 2, 4, 8)), SECOND), tensors=())
    assert [option.copies for option in stage_options(slow, 0)] == [1, 2]


def test_compact_form_is_refined() -> None:
    """100 rows: 8, 9, 10 copies take 13, 12, 10 rounds, of which 12 lies above the line from 13 to 10; there is room for 9."""
    stage = StageData(1, 100, 10, 100, 0, (8, 9, 10), 0, 0)
    alone = SegmentProblem((stage,), (), (), (), 9, 9, 0, 0, 1, 0)
    assert solve(build_compact(alone)).objective == pytest.approx(115)
    found = solve_compact(alone, solve)
    assert found is not None
    assert found.allocation.copies == (9,) and found.cost.total == 120 and found.programs == 2
    assert found.bound == pytest.approx(120)


def test_implied_dependences_are_left_out() -> None:
    chain = replace(
        PAIR,
        stages=(FIRST, SECOND, SECOND),
        dependences=(Dependence(0, 1, 2, 1), Dependence(1, 2, 1, 2), Dependence(0, 2, 2, 2, (1,))),
    )
    assert len(pipeline(chain).starts) == len(pipeline(chain).finishes) == 2
    wider = replace(chain, dependences=(*chain.dependences[:2], Dependence(0, 2, 3, 3, (1,))))
    assert len(pipeline(wider).starts) == len(pipeline(wider).finishes) == 3


def test_import_is_light() -> None:
    code = "import formulations, sys; print([m for m in ('pyomo', 'numpy') if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
    with pytest.raises(ImportError, match="nothing_like_it"):
        from formulations import nothing_like_it  # noqa: F401


def test_building_a_program_loads_no_plugins() -> None:
    code = "import sys; from formulations import build_segment_allocation; print('pyomo.environ' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
