"""Hypothesis strategies that several test files share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import strategies as st

from formulations.segment import Dependence, Placement, SegmentAllocation, SegmentProblem, StageData, Use


@st.composite
def stages(draw: st.DrawFn, first: bool) -> StageData:
    """A small stage, vector-only once in a while; not the first one with an operand from the segment."""
    rows, chunks = draw(st.integers(1, 40)), draw(st.integers(1, 6))
    vector = draw(st.integers(0, 60))
    if draw(st.integers(0, 4)) == 0:
        return StageData(0, rows, 0, chunks, vector, (0,), 0, 0)
    copies = tuple(sorted(draw(st.sets(st.integers(1, 6), min_size=1, max_size=3))))
    arrays, write = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    shorter = draw(st.integers(0, write - 1)) * draw(st.integers(0, 1)) if arrays > 1 else 0
    operand = not first and draw(st.integers(0, 3)) == 0
    return StageData(
        arrays=arrays,
        rows=rows,
        row_cycles=draw(st.integers(1, 12)),
        chunks=chunks,
        vector_cycles=vector,
        copies=copies,
        write_cycles=write,
        copy_write_cycles=arrays * write - shorter,
        operand_in_segment=operand,
        recurrent=not operand and draw(st.integers(0, 4)) == 0,
    )


@st.composite
def tensors(draw: st.DrawFn, count: int) -> tuple[Placement, ...]:
    """A tensor with up to four placements (main memory, buffer, one or two sizes in arrays) and up to three users."""
    users = sorted(draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3)))
    work = {user: draw(st.integers(0, 120)) for user in users}
    actions = {user: "write" if user == users[0] else draw(st.sampled_from(["fetch", "operand"])) for user in users}
    places = []
    for port, arrays, buffer, divisor in (
        ("main", 0, 0, 1),
        ("buffer", 0, draw(st.integers(1, 40)), 2),
        ("arrays", 1, 0, 2),
    ):
        if draw(st.integers(0, 3)):
            uses = tuple(Use(u, actions[u], port, -(-work[u] // divisor)) for u in users)  # type: ignore[arg-type]
            places.append(Placement(port, arrays, buffer, uses))
    if not places:
        places = [Placement("main", 0, 0, tuple(Use(u, actions[u], "main", work[u]) for u in users))]  # type: ignore[arg-type]
    if places[-1].arrays and draw(st.booleans()):
        faster = tuple(Use(u, actions[u], "arrays", -(-work[u] // 4)) for u in users)  # type: ignore[arg-type]
        places.append(Placement("arrays2", 2, 0, faster))
    return tuple(places)


@st.composite
def segment_problems(draw: st.DrawFn, largest: int = 4) -> SegmentProblem:
    """A small segment whose optimum an enumeration can find; feasible or not."""
    count = draw(st.integers(1, largest))
    nodes = tuple(draw(stages(first=i == 0)) for i in range(count))
    dependences = []
    for k, j in itertools.combinations(range(count), 2):
        if draw(st.booleans()):
            first, last = draw(st.integers(1, nodes[k].chunks)), draw(st.integers(1, nodes[j].chunks))
            between = tuple(m for m in range(k + 1, j) if draw(st.booleans()))
            operand = nodes[j].operand_in_segment and not between
            dependences.append(Dependence(k, j, first, last, between, operand))
    choices = tuple(draw(tensors(count)) for _ in range(draw(st.integers(0, 3))))
    fixed = tuple(
        Use(draw(st.integers(0, count - 1)), action, port, draw(st.integers(0, 80)))
        for action in ("fetch", "write", "operand")
        for port in ("main", "buffer")
        if draw(st.integers(0, 2)) == 0
    )
    total = draw(st.integers(1, 24))
    return SegmentProblem(
        stages=nodes,
        tensors=choices,
        dependences=tuple(dependences),
        fixed=fixed,
        total_arrays=total,
        compute_arrays=draw(st.integers(max(1, total - 4), total)),
        memory_arrays=draw(st.integers(-1, total)),
        buffer_bytes=draw(st.integers(-1, 60)),
        write_drivers=draw(st.integers(1, 4)),
        reload_cycles=draw(st.integers(0, 300)),
    )


def allocations(problem: SegmentProblem) -> Iterator[SegmentAllocation]:
    """Every combination of copies and placements, feasible or not."""
    places = [range(len(places)) for places in problem.tensors]
    for copies in itertools.product(*(stage.copies for stage in problem.stages)):
        for chosen in itertools.product(*places):
            yield SegmentAllocation(copies, chosen)
