"""``python -m benchmarks ablation``: the options, the parts, the records."""

from __future__ import annotations

import argparse
from importlib import import_module

from benchmarks.networks import UsageError
from benchmarks.settings import Outcome
from cmswitch.naming import nearest, quantity
from cmswitch.options import LARGEST_SEED, seconds, whole_number

about = "what forms of a segment's program, solvers and lazy search save, compared on the same segments and networks"
PARTS = {"segments": "benchmarks.ablation.comparison", "searches": "benchmarks.ablation.searches"}
"""Modules with ``run(given) -> Outcome``, loaded when they are run: some import onnx."""
HARVESTED = 200
HARMLESS = frozenset({"part", "harvest"})
"""Options with which a record that is written is still the whole one."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``ablation``."""
    add = parser.add_argument
    add("--part", choices=(*PARTS, "all"), default="all", help="what to run (default: all)")
    add("--harvest", action="store_true", help=f"only collect {HARVESTED} segments anew, for the committed list")
    add(
        "--n",
        type=whole_number(1, HARVESTED),
        default=24,
        metavar="N",
        help="segments that every pair is given, as many of each chip and size; the default pair gets all (default: 24)",
    )
    add("--limit", type=seconds, default=60.0, metavar="S", help="largest time limit of a solver (default: 60)")
    add("--only", nargs="+", metavar="FORM:SOLVER", help="only these pairs")
    add("--seed", type=whole_number(0, LARGEST_SEED), default=0, metavar="S", help="of the solvers (default: 0)")


def run(given: argparse.Namespace) -> int:
    """Run the parts that are asked for. Returns 1 if one fails, else 0."""
    if given.harvest:
        return _harvest()
    if given.only:
        _check(given.only)
    given.out.mkdir(parents=True, exist_ok=True)
    codes = []
    for part in PARTS if given.part == "all" else (given.part,):
        outcome: Outcome = import_module(PARTS[part]).run(given)
        codes.append(outcome.publish(given.out, f"ablation-{part}", given.seed))
    return max(codes)


def _check(names: list[str]) -> None:
    """UsageError for a pair that does not exist."""
    from benchmarks.ablation.pairs import PAIRS

    for name in names:
        if name not in PAIRS:
            raise UsageError(f"unknown pair '{name}'{nearest(name, list(PAIRS))}; pairs: {', '.join(PAIRS)}")


def _harvest() -> int:
    from benchmarks.ablation.harvest import harvest
    from benchmarks.ablation.segments import SEGMENTS_FILE, write_segments

    segments = harvest(HARVESTED)
    write_segments(SEGMENTS_FILE, segments)
    print(f"{quantity(len(segments), 'segment')} written to {SEGMENTS_FILE}")
    return 0
