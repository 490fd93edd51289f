"""Backends in a process of their own, under a watchdog: a crash or an overrun ends that process and not this one.

A process is started on first use, serves one solve at a time, and is kept for the next; one that failed is not. It ends with
this one, since its stdin does.
"""

from __future__ import annotations

import atexit
import contextlib
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace

from solvers.errors import SolverFailure, SolverUnavailable
from solvers.program import LinearProgram, Outcome, Settings, Solver
from solvers.registry import Backend
from solvers.result import Feature, Termination

POLL_SECONDS = 0.05
START_SECONDS = 120.0
"""Most time for a process to start and import its backend."""

OVERRUN_SECONDS = 5.0
"""What a backend may take beyond its time limit, or to stop when told to, before its process is ended."""

_START = "import sys; sys.path[:] = sys.argv[1:]; from solvers.worker import main; main()"


@dataclass(frozen=True)
class Request:
    """Solve ``program``; ``watched``: report incumbents."""

    backend: Backend
    program: LinearProgram
    settings: Settings
    watched: bool


@dataclass(frozen=True)
class Stop:
    """Return what there is."""


@dataclass(frozen=True)
class Started:
    """The backend is loaded; the time limit counts from here."""


@dataclass(frozen=True)
class Found:
    """An incumbent's objective."""

    objective: float


@dataclass(frozen=True)
class Done:
    """The outcome and its CPU seconds."""

    outcome: Outcome
    cpu_seconds: float


@dataclass(frozen=True)
class Raised:
    """What the backend raised."""

    error: Exception


class Isolated:
    """``backend`` in another process. ``cpu_seconds`` are that process's, over all solves."""

    def __init__(self, backend: Backend, lacks: frozenset[Feature], reads_model: bool) -> None:
        self.lacks, self.reads_model = lacks, reads_model
        self.cpu_seconds = 0.0
        self._backend = backend

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Solve as the backend does. SolverFailure if its process dies, or outlives its limit and is killed."""
        process = _idle.pop() if _idle else _Process()
        if not self.reads_model:
            program = replace(program, source=None)
        try:
            answer = process.solve(
                Request(self._backend, program, settings, settings.on_incumbent is not None), settings
            )
        except BaseException:
            process.close()
            raise
        if answer is None:
            process.close()
            return Outcome(Termination.INTERRUPTED, None, None)
        _idle.append(process)
        if isinstance(answer, Raised):
            if isinstance(answer.error, (ValueError, SolverFailure, SolverUnavailable)):
                raise answer.error
            raise SolverFailure(f"{type(answer.error).__name__}: {answer.error}") from answer.error
        self.cpu_seconds += answer.cpu_seconds
        return answer.outcome


class _Process:
    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C reaches it as a request to stop, not as a signal
        )
        self._answers: queue.SimpleQueue[Started | Found | Done | Raised | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                self._answers.put(pickle.load(self._process.stdout))
        self._answers.put(None)

    def _send(self, message: Request | Stop) -> None:
        assert self._process.stdin is not None
        try:
            frame = pickle.dumps(message)
        except (AttributeError, TypeError, pickle.PicklingError) as error:  # a model that holds a function, say
            raise SolverFailure(
                f"the model cannot be sent to another process ({error}); solve it in this one"
            ) from error
        with contextlib.suppress(BrokenPipeError):  # it has died; the reader says so
            self._process.stdin.write(frame)
            self._process.stdin.flush()

    def solve(self, request: Request, settings: Settings) -> Done | Raised | None:
        """The answer, or None if the process did not stop when told to."""
        self._send(replace(request, settings=replace(settings, should_stop=None, on_incumbent=None)))
        deadline, stopping = time.monotonic() + START_SECONDS, False
        while True:
            stop = False
            try:
                stop = settings.should_stop is not None and settings.should_stop()
                answer = self._answers.get(timeout=POLL_SECONDS)
                if answer is None:
                    raise SolverFailure(f"its process {self._death()}")
                if isinstance(answer, Started):
                    if not stopping:
                        limit = settings.time_limit
                        deadline = float("inf") if limit is None else time.monotonic() + limit + OVERRUN_SECONDS
                elif isinstance(answer, Found):
                    if settings.on_incumbent is not None:
                        settings.on_incumbent(answer.objective)
                else:
                    return answer
            except queue.Empty:
                pass
            except KeyboardInterrupt:
                stop = True
            if stop and not stopping:
                stopping = True
                deadline = time.monotonic() + OVERRUN_SECONDS
                self._send(Stop())
            if time.monotonic() > deadline:
                if stopping:
                    return None
                raise SolverFailure(f"still running {OVERRUN_SECONDS:g} s after its time limit; its process was ended")

    def _death(self) -> str:
        """How the process ended, and the last line that it wrote."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"{how}: {last[:200]}" if last else how

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


_idle: list[_Process] = []


def isolate(backend: Backend) -> Isolated:
    """``backend``, to be run in another process. ImportError if its packages are missing."""
    loaded: Solver = backend.load()
    return Isolated(backend, loaded.lacks, loaded.reads_model)


def close_idle() -> None:
    """End the processes that wait for the next solve."""
    while _idle:
        _idle.pop().close()


atexit.register(close_idle)
