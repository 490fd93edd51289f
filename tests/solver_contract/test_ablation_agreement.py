"""All pairs of a form and a solver find the same optimum of segments of real networks, by their exact cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from benchmarks.ablation.comparison import Measurer, Task
from benchmarks.ablation.figures import Rows, disagreements, pair_of
from benchmarks.ablation.pairs import PAIRS, TOLERANCE, Pair
from benchmarks.ablation.segments import SIZES, HarvestedSegment, read_segments
from benchmarks.networks import CHIPS
from solvers import isolation

SEGMENTS = read_segments()
LIMIT = 60.0
MOST_CHOICES = 500
"""Beyond, the column form takes longer than a test should."""


def choices(segment: HarvestedSegment) -> int:
    """Numbers of copies times places."""
    copies = sum(len(stage.copies) for stage in segment.machine.stages)
    return copies * math.prod(len(places) for places in segment.machine.tensors)


def smallest(chip: str, size: str) -> HarvestedSegment:
    """The segment with the fewest choices."""
    return min((s for s in SEGMENTS if (s.chip, s.size) == (chip, size)), key=choices)


def quick(pair: Pair, segment: HarvestedSegment) -> bool:
    """Whether the pair proves the optimum in seconds: the column and the literal form of small segments only, the published
    equations not on CP-SAT, which bounds a continuous rate badly."""
    if pair.form == "literal" and segment.operators * segment.published.arrays > 100:
        return False
    if pair.form == "column" and choices(segment) > MOST_CHOICES:
        return False
    return pair.cost_model == "machine" or pair.solver != "cp-sat"


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    isolation.close_idle()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chip", CHIPS)
def test_all_pairs_agree(chip: str, size: str) -> None:
    segment = smallest(chip, size)
    measurer = Measurer([LIMIT], seed=0)
    rows: Rows = [dict(measurer.measure(Task(segment, pair))) for pair in PAIRS.values() if quick(pair, segment)]
    assert [(pair_of(row), row.get("missing"), row.get("gaps")) for row in rows if not row.get("solved")] == []
    assert disagreements(rows) == []
    for model, least in (("machine", 10), ("published", 4)):
        costs = [row["objective"] for row in rows if row["cost_model"] == model]
        assert len(costs) >= least and max(costs) <= min(costs) * (1 + float(TOLERANCE))


def test_cp_sat_proves_nothing_that_is_false() -> None:
    """With its presolve OR-Tools 9.15 bounds this segment above its optimum."""
    (segment,) = (s for s in SEGMENTS if s.name == "light_squeezenet[3:6] on prime")
    rows: Rows = [
        dict(Measurer([LIMIT], seed=0).measure(Task(segment, PAIRS[name])))
        for name in ("boxes:combinatorial", "compact:cp-sat")
    ]
    assert rows[0]["solved"]
    assert disagreements(rows) == []
