"""``python -m benchmarks NAME``: measure, print a table, write ``NAME.json`` and ``NAME.png``.

Exit codes: 0 done; 1 a line fails or has no result; 2 usage.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import hw
from benchmarks import accuracy, compile_time, networks, sensitivity, verification
from benchmarks.ablation import command as ablation
from benchmarks.fuzz import command as fuzz
from benchmarks.networks import UsageError
from benchmarks.settings import Outcome, Settings
from cmswitch.options import seconds


@dataclass(frozen=True)
class Benchmark:
    """How to run one, and what it measures unless told otherwise; nothing to choose from if there are no ``networks``."""

    run: Callable[[Settings], Outcome]
    networks: Sequence[str]
    chips: Sequence[str]


def _operators(settings: Settings) -> Outcome:
    """Import onnx for this benchmark alone: a parent that measures memory stays small."""
    from benchmarks import operators

    return operators.run(settings)


BENCHMARKS = {
    "accuracy": Benchmark(accuracy.run, networks.NAMES, networks.CHIPS),
    "compile_time": Benchmark(compile_time.run, networks.NAMES, networks.CHIPS[:1]),
    "operators": Benchmark(_operators, (), ()),
    "sensitivity": Benchmark(sensitivity.run, sensitivity.NETWORKS, networks.CHIPS[:1]),
    "verification": Benchmark(verification.run, networks.VERIFIED, networks.CHIPS),
}
COMMANDS = {"ablation": ablation, "fuzz": fuzz}
"""Those with options and records of their own."""
TIME_LIMIT, QUICK_TIME_LIMIT = 60.0, 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark (default: of ``sys.argv``) and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", allow_abbrev=False, description=__doc__)
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for name in (*BENCHMARKS, *COMMANDS):
        one = names.add_parser(name, allow_abbrev=False, help=f"see {name} --help")
        one.add_argument(
            "--out", type=Path, default=Path("benchmarks/results"), metavar="DIR", help="(default: %(default)s)"
        )
        COMMANDS[name].add_options(one) if name in COMMANDS else _add_options(one)
    given = parser.parse_args(arguments)
    try:
        return COMMANDS[given.name].run(given) if given.name in COMMANDS else _measure(given)
    except (UsageError, hw.ChipError, FileExistsError, PermissionError) as error:
        parser.error(str(error))


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--networks", nargs="+", metavar="NAME", help=f"of: {', '.join(networks.KNOWN)}; or paths of ONNX files")
    add(
        "--chips",
        nargs="+",
        metavar="CHIP",
        help=f"presets or chip files (default: some of {', '.join(networks.CHIPS)})",
    )
    add("--time-limit", type=seconds, metavar="S", help=f"seconds for each compilation (default: {TIME_LIMIT:g})")
    add("--quick", action="store_true", help="few networks, few points, short time limit: does it work at all?")


def _measure(given: argparse.Namespace) -> int:
    chosen = BENCHMARKS[given.name]
    if not chosen.networks and (given.networks or given.chips):
        raise UsageError(f"{given.name} takes no --networks and no --chips")
    names = given.networks or (networks.QUICK if given.quick and chosen.networks else chosen.networks)
    for chip in given.chips or ():
        hw.load_chip(chip)
    settings = Settings(
        cases=networks.find_cases(names),
        chips=given.chips or (chosen.chips[:1] if given.quick else chosen.chips),
        time_limit=given.time_limit or (QUICK_TIME_LIMIT if given.quick else TIME_LIMIT),
        quick=given.quick,
    )
    given.out.mkdir(parents=True, exist_ok=True)  # before the work: a run may take an hour
    outcome = chosen.run(settings)
    outcome = replace(outcome, parameters={**settings.parameters, **outcome.parameters})
    return outcome.publish(given.out, given.name, settings.seed)


def _stop(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that the process being measured is stopped too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main())
