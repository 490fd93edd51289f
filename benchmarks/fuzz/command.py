"""``python -m benchmarks fuzz``: the options, the table and the record."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fuzz.cases import kind_of, write_case
from benchmarks.fuzz.runs import ALLOWED, GRACE_SECONDS, MISSING, Ending, Plan, Worker, run_cases
from benchmarks.record import Column, Row, cores, decimals, record, table
from benchmarks.runner import run_python
from cmswitch.options import LARGEST_SEED, seconds, whole_number

about = "whether every broken network and chip file ends with a result or a short message"
MOST_CASES = 10**6
HARMLESS = frozenset({"case", "jobs"})
"""Options with which a record that is written is still the whole one, or none is."""
OUTCOMES = (*ALLOWED.values(), MISSING, "failure")
COLUMNS = (
    Column("input", "input"),
    Column("run", "run"),
    Column("cases", "cases"),
    *(Column(outcome, outcome) for outcome in OUTCOMES),
    Column("mean s", "mean_seconds", decimals(2)),
    Column("longest s", "longest_seconds", decimals(1)),
)
TOLD_EVERY = 5.0
"""Seconds between two lines of progress."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``fuzz``."""
    add = parser.add_argument
    count = whole_number(0, MOST_CASES)
    add(
        "--n",
        type=whole_number(1, MOST_CASES),
        default=100,
        metavar="N",
        help="networks, and chips, to break (default: 100)",
    )
    add(
        "--seed",
        type=whole_number(0, LARGEST_SEED),
        default=0,
        metavar="S",
        help="another seed, other cases (default: 0)",
    )
    add("--case", type=count, metavar="K", help="run only case K of the seed, and show everything")
    add(
        "--real",
        type=count,
        default=300,
        metavar="M",
        help="cases through the command itself, in a process each (default: 300)",
    )
    add(
        "--jobs",
        type=whole_number(1, 64),
        default=cores(),
        metavar="J",
        help="cases at a time (default: all cores)",
    )
    add("--time-limit", type=seconds, default=0.3, metavar="S", help="seconds for each compilation (default: 0.3)")
    add("--case-limit", type=seconds, default=60.0, metavar="S", help="seconds for each case (default: 60)")


def run(given: argparse.Namespace) -> int:
    """Run all cases, or one. Returns 1 if one does not end as it should, else 0."""
    plan = Plan(given.seed, given.time_limit, given.case_limit)
    if given.case is not None:
        return _show(plan, given.case)
    given.out.mkdir(parents=True, exist_ok=True)
    numbers = list(range(2 * given.n))
    share = max(1, len(numbers) // max(1, given.real))
    step = share - 1 + share % 2 or 1  # odd, so that networks and chips take turns
    real = set(numbers[::step][: given.real])
    endings = run_cases(plan, numbers, real, given.jobs, _Progress(len(numbers)))
    rows = [
        _row(kind, how, [e for e in endings if kind_of(e.number) == kind and (e.number in real) == (how == "command")])
        for kind in ("network", "chip")
        for how in ("worker", "command")
    ]
    rows = [row for row in rows if row["cases"]]
    failed = [e for e in endings if e.outcome == "failure"]
    failures = [{"case": e.number, "base": e.base, "changes": e.changes, "why": e.why} for e in failed]
    parameters = {"n": given.n, "real": len(real), "time_limit": plan.time_limit, "case_limit": plan.case_limit}
    text = record("fuzz", plan.seed, parameters, rows, {"failures": failures})
    (given.out / "fuzz.json").write_text(text, encoding="utf-8")
    print(table(COLUMNS, rows), end="")
    for e in failed:
        print(f"FAIL case {e.number}: {e.base}, {' '.join(e.changes)}: {e.why}")
    return 1 if failed else 0


def _row(kind: str, how: str, endings: Sequence[Ending]) -> Row:
    times = [ending.seconds for ending in endings]
    return {
        "input": kind,
        "run": how,
        "cases": len(endings),
        **{outcome: sum(ending.outcome == outcome for ending in endings) for outcome in OUTCOMES},
        "mean_seconds": sum(times) / len(times) if times else None,
        "longest_seconds": max(times, default=None),
        "longest_case": max(endings, key=lambda ending: ending.seconds).number if endings else None,
    }


def _show(plan: Plan, number: int) -> int:
    """Write case ``number`` into a folder that stays, run it through the command, and judge it under watch."""
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-case-{number}-"))
    case = write_case(plan.seed, number, folder, plan.time_limit)
    print(f"case {number}: {case.base}, {' '.join(case.changes)}; files in {folder}")
    print(f"$ cmswitch {' '.join(case.arguments)}", flush=True)
    done = run_python(["-m", "cmswitch", *case.arguments, "-v"], timeout=plan.case_limit + GRACE_SECONDS)
    print(done.stdout + done.stderr, end="")
    worker = Worker(plan)
    try:
        ending = worker.run(number, False)
    finally:
        worker.close()
    print(f"{ending.outcome} after {ending.seconds:.1f} s" + (f": {ending.why}" if ending.why else ""))
    return 1 if ending.outcome == "failure" else 0


class _Progress:
    """Counts endings on stderr."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._failures, self._told = total, 0, 0, time.monotonic()

    def __call__(self, ending: Ending) -> None:
        self._done += 1
        if ending.outcome == "failure":
            self._failures += 1
            print(f"fuzz: case {ending.number}: {ending.why}", file=sys.stderr, flush=True)
        if time.monotonic() - self._told > TOLD_EVERY or self._done == self._total:
            self._told = time.monotonic()
            print(f"fuzz [{self._done}/{self._total}] failures: {self._failures}", file=sys.stderr, flush=True)
