"""The committed segments: 200 distinct problems of real networks, and how they are harvested and sampled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.ablation.harvest import NETWORKS, harvest, segments_of
from benchmarks.ablation.segments import SIZES, read_segments, sample, write_segments
from benchmarks.networks import CHIPS, find_cases
from formulations import lower_bound
from formulations.eq10 import solve_eq10_combinatorial

SEGMENTS = read_segments()


def test_two_hundred_distinct_segments_of_every_network_chip_and_size() -> None:
    assert len({s.content for s in SEGMENTS}) == len(SEGMENTS) == 200
    assert {s.network for s in SEGMENTS} == set(NETWORKS)
    assert {s.operators for s in SEGMENTS} == set(range(1, 13))
    counts = Counter((s.chip, s.size) for s in SEGMENTS)
    assert set(counts) == {(chip, size) for chip in CHIPS for size in SIZES} and min(counts.values()) >= 20


def test_every_segment_has_an_allocation() -> None:
    for segment in sample(SEGMENTS, 60):
        assert 0 < float(lower_bound(segment.machine)) < float("inf"), segment.name
        assert solve_eq10_combinatorial(segment.published) is not None, segment.name


def test_the_harvest_is_what_the_networks_hold(tmp_path: Path) -> None:
    """The same every time; the committed segments of one network are among those it considers."""
    (case,) = find_cases(["light_bvlc_alexnet"])
    found = {s.name: s for s in segments_of(case, "prime")}
    committed = [s for s in SEGMENTS if (s.network, s.chip) == ("light_bvlc_alexnet", "prime")]
    assert committed and {s.name for s in committed} <= set(found)
    assert all(found[s.name].operators == s.operators for s in committed)
    few = harvest(9, ["light_bvlc_alexnet"], ["prime"])
    assert len({s.content for s in few}) == len(few) == 9
    write_segments(tmp_path / "few", few)
    assert read_segments(tmp_path / "few") == few == harvest(9, ["light_bvlc_alexnet"], ["prime"])


def test_a_sample_has_as_many_of_every_size() -> None:
    few = sample(SEGMENTS, 30)
    assert Counter(s.size for s in few) == {"1-3": 10, "4-7": 10, "8-12": 10}
    assert len({s.network for s in few}) > 8 and {s.chip for s in few} == set(CHIPS)
    assert sample(SEGMENTS, 200) == SEGMENTS and len(sample(SEGMENTS, 1)) == 1
