"""The committed segments of real networks: complete numeric problems, which need neither a network nor a chip."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from formulations.eq10 import Eq10Operator, Eq10Problem, Eq10Tensor
from formulations.segment import Dependence, Placement, SegmentProblem, StageData, Use

SEGMENTS_FILE = Path(__file__).with_name("segments.json.gz")
SIZES = {"1-3": range(1, 4), "4-7": range(4, 8), "8-12": range(8, 13)}
"""Classes of segments by their number of operators."""


@dataclass(frozen=True)
class HarvestedSegment:
    """Cells ``first`` to ``last`` (exclusive) of ``network`` on ``chip``, nothing kept across its cuts: the allocation problem of
    the machine model and that of the published equations."""

    network: str
    chip: str
    first: int
    last: int
    machine: SegmentProblem
    published: Eq10Problem

    @property
    def name(self) -> str:
        """Where it comes from."""
        return f"{self.network}[{self.first}:{self.last}] on {self.chip}"

    @property
    def operators(self) -> int:
        """How many operators it has, those without a matrix product included."""
        return len(self.machine.stages)

    @property
    def size(self) -> str:
        """Its class of :data:`SIZES`."""
        return next(name for name, counts in SIZES.items() if self.operators in counts)

    @cached_property
    def content(self) -> str:
        """A hash of the numbers of both problems, whatever the segment is called."""
        return sha256(_text([asdict(self.machine), asdict(self.published)]).encode()).hexdigest()


def write_segments(path: Path, segments: Iterable[HarvestedSegment]) -> None:
    """Write ``segments``, one on a line; the same segments give the same bytes."""
    lines = ",\n".join(_text(asdict(segment)) for segment in segments)
    path.write_bytes(gzip.compress(f"[\n{lines}\n]\n".encode(), mtime=0))


def read_segments(path: Path = SEGMENTS_FILE) -> list[HarvestedSegment]:
    """The segments of a file of :func:`write_segments`."""
    return [_segment(plain) for plain in json.loads(gzip.decompress(path.read_bytes()))]


def sample(segments: Sequence[HarvestedSegment], count: int) -> list[HarvestedSegment]:
    """``count`` of the segments in their order: of each chip and size as nearly the same number as there are, spread over its
    list."""
    if count >= len(segments):
        return list(segments)
    groups = [
        [s for s in segments if (s.chip, s.size) == (chip, size)]
        for chip in dict.fromkeys(s.chip for s in segments)
        for size in SIZES
    ]
    taken: set[str] = set()
    for place, own in enumerate(groups):
        share = min(len(own), (count - len(taken)) // (len(groups) - place))
        taken |= {own[k * len(own) // share].name for k in range(share)}
    return [s for s in segments if s.name in taken]


def _text(plain: object) -> str:
    return json.dumps(plain, separators=(",", ":"), default=str)  # a fraction as "3/2"


def _segment(plain: dict[str, Any]) -> HarvestedSegment:
    where = {key: plain[key] for key in ("network", "chip", "first", "last")}
    return HarvestedSegment(**where, machine=_machine(plain["machine"]), published=_published(plain["published"]))


def _machine(plain: dict[str, Any]) -> SegmentProblem:
    stages = tuple(StageData(**{**stage, "copies": tuple(stage["copies"])}) for stage in plain["stages"])
    tensors = tuple(tuple(_placement(place) for place in places) for places in plain["tensors"])
    dependences = tuple(Dependence(**{**dep, "between": tuple(dep["between"])}) for dep in plain["dependences"])
    return SegmentProblem(
        **{**plain, "stages": stages, "tensors": tensors, "dependences": dependences, "fixed": _uses(plain["fixed"])}
    )


def _placement(plain: dict[str, Any]) -> Placement:
    return Placement(**{**plain, "uses": _uses(plain["uses"])})


def _uses(plain: list[dict[str, Any]]) -> tuple[Use, ...]:
    return tuple(Use(**use) for use in plain)


def _published(plain: dict[str, Any]) -> Eq10Problem:
    tensors = tuple(Eq10Tensor(tuple(tensor["users"]), tensor["arrays"]) for tensor in plain["tensors"])
    operators = tuple(Eq10Operator(**operator) for operator in plain["operators"])
    bandwidths = {key: Fraction(plain[key]) for key in ("array_bandwidth", "other_bandwidth")}
    return Eq10Problem(**{**plain, **bandwidths, "operators": operators, "tensors": tensors})
