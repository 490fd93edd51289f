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
from cmswitch.errors import InputError
from cmswitch.options import seconds
from cmswitch.output import OutputFolder


@dataclass(frozen=True)
class Benchmark:
    """The question it answers, how to run it, and what it measures unless told otherwise; nothing to choose from if there are
    no ``networks``."""

    about: str
    run: Callable[[Settings], Outcome]
    networks: Sequence[str]
    chips: Sequence[str]


def _operators(settings: Settings) -> Outcome:
    """Import onnx for this benchmark alone: a parent that measures memory stays small."""
    from benchmarks import operators

    return operators.run(settings)


BENCHMARKS = {
    "accuracy": Benchmark(
        "whether the simulator confirms the cycles that plans promise, for each network and chip",
        accuracy.run,
        networks.NAMES,
        networks.CHIPS,
    ),
    "compile_time": Benchmark(
        "what compiling costs: CPU seconds by activity and peak memory, for each network",
        compile_time.run,
        networks.NAMES,
        networks.CHIPS[:1],
    ),
    "operators": Benchmark(
        "which operators of the onnx package's tests are mapped, and where they run; writes docs/operators.md too",
        _operators,
        (),
        (),
    ),
    "sensitivity": Benchmark(
        "which assumed figures of a chip decide whether memory mode pays: each swept alone",
        sensitivity.run,
        sensitivity.NETWORKS,
        networks.CHIPS[:1],
    ),
    "verification": Benchmark(
        "whether programs compute their networks: every matrix product executed on numbers",
        verification.run,
        networks.VERIFIED,
        networks.CHIPS,
    ),
}
COMMANDS = {"ablation": ablation, "fuzz": fuzz}
"""Those with options and records of their own."""
RESULTS = Path("benchmarks/results")
"""The committed records."""
TIME_LIMIT, QUICK_TIME_LIMIT = 60.0, 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark (default: of ``sys.argv``) and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        allow_abbrev=False,
        description="Measure the compiler: print a table, write NAME.json and NAME.png. Progress is on stderr.",
        epilog="Options: python -m benchmarks NAME --help. Exit codes: 0 done, 1 a line fails or has no result, 2 usage.",
    )
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, one in (BENCHMARKS | COMMANDS).items():
        own = names.add_parser(name, allow_abbrev=False, help=one.about, description=f"Measures {one.about}.")
        own.add_argument(
            "--out",
            type=Path,
            metavar="DIR",
            help=f"where records go (default: {RESULTS}, the committed ones, for a run without options that change it)",
        )
        COMMANDS[name].add_options(own) if name in COMMANDS else _add_options(own)
    given = parser.parse_args(arguments)
    try:
        given.out = given.out or _records(given, parser.parse_args([given.name]))
        OutputFolder(given.out, ())  # before the work: a run may take an hour
        return COMMANDS[given.name].run(given) if given.name in COMMANDS else _measure(given)
    except (UsageError, InputError, hw.ChipError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"{given.name}: interrupted; nothing was recorded", file=sys.stderr)
        return 130


def _records(given: argparse.Namespace, default: argparse.Namespace) -> Path:
    """Where the committed records are. Raises UsageError if the run is not the one that they record."""
    harmless = COMMANDS[given.name].HARMLESS if given.name in COMMANDS else frozenset[str]()
    changed = [
        f"--{name.replace('_', '-')}"
        for name, value in vars(given).items()
        if value != getattr(default, name) and name not in harmless
    ]
    if changed:
        raise UsageError(
            f"{given.name} with {', '.join(changed)} is not the run that {RESULTS} records; give --out DIR, for example "
            f"--out trial (--out {RESULTS} replaces the record)"
        )
    return RESULTS


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
    given.out.mkdir(parents=True, exist_ok=True)
    outcome = chosen.run(settings)
    outcome = replace(outcome, parameters={**settings.parameters, **outcome.parameters})
    return outcome.publish(given.out, given.name, settings.seed)


def _stop(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that the process being measured is stopped too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main())
