"""Running one compilation in a process of its own, and what it cost: CPU seconds and peak memory."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BYTES_PER_KIB = 1024  # the unit of ru_maxrss


@dataclass(frozen=True)
class Measured:
    """A finished process. ``cpu_seconds``: user and system time of it and its children; ``peak_mb``: in 10^6 bytes,
    at least what the process that started it held then."""

    stdout: str
    stderr: str
    code: int
    timed_out: bool
    seconds: float
    cpu_seconds: float
    peak_mb: float

    @property
    def failure(self) -> str | None:
        """Why there is no result (None: there is one)."""
        if self.timed_out:
            return f"killed after {self.seconds:.0f} s"
        if self.code == 0:
            return None
        lines = self.stderr.strip().splitlines()
        return f"exit code {self.code}: {lines[-1] if lines else 'no message'}"


def run_python(arguments: Sequence[str], stdin: str = "", timeout: float | None = None) -> Measured:
    """Run this interpreter with ``arguments`` and measure it; it is killed after ``timeout`` seconds.

    The peak of a process includes what its parent held when it was started, so a parent that measures stays small.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        started = time.monotonic()
        process = subprocess.Popen([sys.executable, *arguments], stdin=given, stdout=out, stderr=err, env=environment)
        expired = threading.Event()

        def kill() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(threading.TIMEOUT_MAX if timeout is None else timeout, kill)
        timer.daemon = True
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            with contextlib.suppress(ChildProcessError):
                process.wait()
            raise
        finally:
            timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return Measured(
        stdout=texts[0],
        stderr=texts[1],
        code=process.returncode,
        timed_out=expired.is_set(),
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss * _BYTES_PER_KIB / 1e6,
    )


@dataclass(frozen=True)
class Job:
    """What ``benchmarks.worker`` is asked: compile ``model`` for ``chip`` with ``changes`` under each of ``schedules``.

    ``values`` makes network inputs constants; ``changes`` maps key paths of the chip file to values; ``time_limit`` is in
    seconds for each compilation; ``check``: let the plan checker judge the plans.
    """

    model: str
    dims: dict[str, int]
    chip: str
    changes: dict[str, int | str]
    schedules: tuple[str, ...]
    time_limit: float
    seed: int
    values: dict[str, float] = field(default_factory=dict)
    check: bool = False


@dataclass(frozen=True)
class SegmentCycles:
    """A segment as the plan promises it and as the simulator measured it (cycles)."""

    predicted_execute: int
    simulated_execute: int
    predicted_total: int
    simulated_total: int


@dataclass(frozen=True)
class Compiled:
    """The result of one compilation. ``violations``: rules that the plan checker found broken (None: not asked).

    ``fallback``: simulation chose the plan of another schedule, whose name is ``schedule_used``.
    """

    schedule: str
    schedule_used: str
    termination: str
    gap: float
    predicted_cycles: int
    bound_cycles: int
    simulated_cycles: int
    roofline_cycles: int
    memory_fraction: float
    segments: tuple[SegmentCycles, ...]
    plan_sha256: str
    program_sha256: str
    fallback: bool = False
    violations: tuple[str, ...] | None = None

    @property
    def predicted_execute(self) -> int:
        """Sum of the execute phases as planned, cycles."""
        return sum(s.predicted_execute for s in self.segments)

    @property
    def simulated_execute(self) -> int:
        """Sum of the execute phases as simulated, cycles."""
        return sum(s.simulated_execute for s in self.segments)


@dataclass(frozen=True)
class Answer:
    """What the worker found, by schedule; nothing and ``failure`` if it has no result."""

    compiled: dict[str, Compiled] = field(default_factory=dict)
    failure: str | None = None


def compile_job(job: Job) -> Answer:
    """Compile in a fresh process; it is killed if it takes far longer than its time limits allow."""
    patience = len(job.schedules) * (3 * job.time_limit + 120)
    done = run_python(["-m", "benchmarks.worker"], json.dumps(dataclasses.asdict(job)), patience)
    if done.failure is not None:
        return Answer(failure=done.failure)
    answer = json.loads(done.stdout)
    if "failure" in answer:
        return Answer(failure=answer["failure"])
    return Answer({each["schedule"]: _compiled(each) for each in answer["compiled"]})


def _compiled(fields: dict[str, object]) -> Compiled:
    segments = fields.pop("segments")
    assert isinstance(segments, list)
    return Compiled(segments=tuple(SegmentCycles(**s) for s in segments), **fields)  # type: ignore[arg-type]
