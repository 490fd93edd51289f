"""Running cases and judging how they end: in processes that are watched and replaced, or through the real command."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue

from benchmarks.fuzz import bases
from benchmarks.fuzz.cases import Case, write_case
from benchmarks.runner import run_python
from cmswitch.commands import SOLVE_FILES
from cmswitch.naming import quantity

ALLOWED = {0: "compiled", 1: "no plan", 2: "refused"}
"""How a case may end: exit codes of ``cmswitch``."""
MISSING = "not installed"
CASES_PER_WORKER = 250
"""After so many cases a worker is replaced, so that what one case leaves behind cannot hide for long."""
GRACE_SECONDS = 30.0
"""What a worker may take on top of the limit of a case: its own start, writing the case, and its end."""
MEMORY_BYTES = 4 << 30
"""Address space of a worker: a case that wants more fails."""
MOST_LINES = 60
"""Lines of the longest message that is still one."""


@dataclass(frozen=True)
class Plan:
    """What all cases share: the seed, seconds of a compilation and of a whole case."""

    seed: int
    time_limit: float
    case_limit: float


@dataclass(frozen=True)
class Ending:
    """How case ``number`` ended. ``outcome``: one of ``ALLOWED``, ``not installed`` or ``failure``; ``why``: what is wrong."""

    number: int
    outcome: str
    seconds: float
    base: str = ""
    changes: tuple[str, ...] = ()
    why: str = ""


def run_case(plan: Plan, number: int, real: bool) -> Ending:
    """Write and run one case: in this process, or (``real``) as a user would, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        try:
            case = write_case(plan.seed, number, Path(folder), plan.time_limit)
        except bases.MissingNetworkError as error:
            return Ending(number, MISSING, 0.0, why=str(error))
        started = time.monotonic()
        code, text = _command(case, plan) if real else _inside(case)
        seconds = time.monotonic() - started
        why = judge(case, code, text, seconds, plan.case_limit)
    outcome = "failure" if why else ALLOWED[code]
    return Ending(number, outcome, seconds, case.base, tuple(case.changes), why)


def _inside(case: Case) -> tuple[int, str]:
    from cmswitch.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(case.arguments)
    return code, err.getvalue()


def _command(case: Case, plan: Plan) -> tuple[int, str]:
    done = run_python(["-m", "cmswitch", *case.arguments], timeout=plan.case_limit)
    return done.code, done.stderr


def judge(case: Case, code: int, text: str, seconds: float, limit: float) -> str:
    """What is wrong with an ending: exit ``code``, ``text`` on stderr, ``seconds`` it took; empty if nothing is."""
    last = text.strip().splitlines()[-1:] or ["no message"]
    if seconds > limit:
        return f"took {seconds:.1f} s"
    if "Traceback" in text:
        return f"traceback: {last[0]}"
    if code not in ALLOWED:
        return f"exit code {code}: {' '.join(text.split())[:300]}"
    if code and not text.strip():
        return f"exit code {code} without a message"
    if len(text.splitlines()) > MOST_LINES:
        return f"a message of {quantity(len(text.splitlines()), 'line')}"
    written = sorted(path.name for path in case.out.iterdir()) if case.out.exists() else []
    if written != (sorted(SOLVE_FILES) if code == 0 else []):
        return f"exit code {code}, but in --out: {', '.join(written) or 'nothing'}"
    for name in written:
        if name.endswith(".json"):
            try:
                json.loads((case.out / name).read_text(encoding="utf-8"), parse_constant=_refuse)
            except ValueError as error:
                return f"{name} is not JSON: {error}"
    return ""


def _refuse(name: str) -> None:
    raise ValueError(f"it contains {name}")


def _work(pipe: Connection, plan: Plan) -> None:
    """A worker: answers case numbers until it is told to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the watcher decides
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    while (job := pipe.recv()) is not None:
        pipe.send(run_case(plan, *job))


class Worker:
    """A process that runs cases, and the watch over it: killed when a case takes too long, replaced when dead or old."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None
        self._done = 0

    def run(self, number: int, real: bool) -> Ending:
        """One case, whatever becomes of the process."""
        pipe = self._ready()
        started = time.monotonic()
        try:
            pipe.send((number, real))
            if pipe.poll(self._plan.case_limit + GRACE_SECONDS):
                self._done += 1
                ending: Ending = pipe.recv()
                return ending
            assert self._process is not None
            self._process.kill()
            why = f"killed after {time.monotonic() - started:.0f} s"
        except (EOFError, OSError):
            assert self._process is not None
            self._process.join()
            why = f"the process died with exit code {self._process.exitcode}"
        self.close()
        return Ending(number, "failure", time.monotonic() - started, why=why)

    def _ready(self) -> Connection:
        if self._pipe is None or self._done >= CASES_PER_WORKER:
            self.close()
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_work, args=(other, self._plan), daemon=True)
            self._process.start()
            other.close()
            self._done = 0
        return self._pipe

    def close(self) -> None:
        """Tell the process to end, so that it gives back what it holds (semaphores), and kill one that does not."""
        if self._process is not None and self._pipe is not None:
            with contextlib.suppress(OSError):  # it has died
                self._pipe.send(None)
            self._process.join(GRACE_SECONDS)
            self._process.kill()  # before the pipe, whose end it would report
            self._process.join()
            self._pipe.close()
        self._process = self._pipe = None


def run_cases(
    plan: Plan, numbers: list[int], real: set[int], jobs: int, told: Callable[[Ending], None]
) -> list[Ending]:
    """All cases in ``jobs`` workers at a time, those in ``real`` through the command; ``told`` of each ending. By number."""
    waiting: SimpleQueue[int] = SimpleQueue()
    for number in numbers:
        waiting.put(number)

    def watch(_: int) -> list[Ending]:
        found: list[Ending] = []
        worker = Worker(plan)
        try:
            while True:
                try:
                    number = waiting.get_nowait()
                except Empty:
                    return found
                found.append(worker.run(number, number in real))
                told(found[-1])
        finally:
            worker.close()

    with ThreadPoolExecutor(jobs) as pool:
        try:
            endings = [ending for part in pool.map(watch, range(jobs)) for ending in part]
        except BaseException:
            with contextlib.suppress(Empty):  # the workers take from it too
                while True:
                    waiting.get_nowait()
            raise
    return sorted(endings, key=lambda ending: ending.number)
