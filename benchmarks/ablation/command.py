"""``python -m benchmarks ablation``: the options, the parts, the records."""

from __future__ import annotations

import argparse
from importlib import import_module

from benchmarks.networks import UsageError
from benchmarks.record import cores
from benchmarks.settings import Outcome
from cmswitch.naming import nearest, quantity
from cmswitch.options import LARGEST_SEED, seconds, whole_number

about = "what forms of a segment's program, solvers and lazy search save, compared on the same segments and networks"
PARTS = {
    "agreement": "benchmarks.ablation.agreement",
    "segments": "benchmarks.ablation.comparison",
    "searches": "benchmarks.ablation.searches",
}
"""Modules with ``run(given) -> Outcome``, loaded when they are run: some import onnx."""
HARVESTED = 200
HARMLESS = frozenset({"part", "harvest", "resume"})
"""Options with which a record that is written is still the whole one."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``ablation``."""
    add = parser.add_argument
    add("--part", choices=(*PARTS, "all"), default="all", help="what to run (default: all)")
    add("--harvest", action="store_true", help=f"only collect {HARVESTED} segments anew, for the committed list")
    add(
        "--n",
        type=whole_number(1, HARVESTED),
        default=HARVESTED,
        metavar="N",
        help=f"only N of the {HARVESTED} segments, as many of each chip and size",
    )
    add(
        "--limit",
        type=seconds,
        default=60.0,
        metavar="S",
        help="largest time limit of a solver; of searches, of a whole compilation (default: 60)",
    )
    add(
        "--jobs",
        type=whole_number(1, 1024),
        default=cores(),
        metavar="J",
        help="of agreement, segments at a time (default: all cores)",
    )
    add(
        "--resume",
        action="store_true",
        help="of searches, keep the lines that the record in --out has, and measure the others",
    )
    add("--only", nargs="+", metavar="FORM:SOLVER", help="only these pairs")
    add("--seed", type=whole_number(0, LARGEST_SEED), default=0, metavar="S", help="of the solvers (default: 0)")


def run(given: argparse.Namespace) -> int:
    """Run the parts that are asked for. Returns 1 if one fails, else 0."""
    if given.harvest:
        return _harvest()
    _check(given)
    given.out.mkdir(parents=True, exist_ok=True)
    codes = []
    for part in PARTS if given.part == "all" else (given.part,):
        outcome: Outcome = import_module(PARTS[part]).run(given)
        codes.append(outcome.publish(given.out, f"ablation-{part}", given.seed))
        if outcome.stopped:
            break
    return max(codes)


def _check(given: argparse.Namespace) -> None:
    """UsageError for a pair that does not exist, or for options of segments if there are none."""
    if given.part == "searches" and (given.only or given.n < HARVESTED):
        raise UsageError("--only and --n choose pairs and segments, which searches has not; leave them out")
    if given.only:
        from benchmarks.ablation.pairs import PAIRS

        for name in given.only:
            if name not in PAIRS:
                raise UsageError(f"unknown pair '{name}'{nearest(name, list(PAIRS))}; pairs: {', '.join(PAIRS)}")


def _harvest() -> int:
    from benchmarks.ablation.harvest import harvest
    from benchmarks.ablation.segments import SEGMENTS_FILE, write_segments

    segments = harvest(HARVESTED)
    write_segments(SEGMENTS_FILE, segments)
    print(f"{quantity(len(segments), 'segment')} written to {SEGMENTS_FILE}")
    return 0
