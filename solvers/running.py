"""What backends share: a solve in a thread of its own that can be watched, interrupted and overrun."""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from solvers.program import LinearProgram, Settings, Solver
from solvers.result import Termination

POLL_SECONDS = 0.05  # how often a running solve looks for an interrupt
GRACE_SECONDS = 1.0  # by how much a solve may overrun its time limit before it is cancelled from outside


@dataclass(frozen=True)
class Ended:
    """Whether the solve was told to stop by its caller, or cancelled because it overran its time limit."""

    interrupted: bool
    overrun: bool


def supervise(
    work: Callable[[], None],
    cancel: Callable[[], None],
    settings: Settings,
    incumbents: queue.SimpleQueue[float] | None = None,
) -> Ended:
    """Run ``work`` to its end; an interrupt, ``should_stop`` or an overrun time limit calls ``cancel`` until it ends.

    What arrives in ``incumbents`` goes to ``settings.on_incumbent`` in this thread. An exception of either is raised here.
    """
    failure: list[BaseException] = []
    done = threading.Event()  # an interrupted Thread.join() takes the thread for finished

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    deadline = None if settings.time_limit is None else time.monotonic() + settings.time_limit + GRACE_SECONDS
    interrupted = overrun = False
    threading.Thread(target=run, name="solver", daemon=True).start()
    while not done.is_set():
        try:
            done.wait(POLL_SECONDS)
            _report(incumbents, settings)
            if settings.should_stop is not None and settings.should_stop():
                interrupted = True
            if deadline is not None and time.monotonic() > deadline:
                overrun = True
            if interrupted or overrun:
                cancel()
        except KeyboardInterrupt:
            interrupted = True
        except BaseException:
            _wait_for_end(done, cancel)
            raise
    if failure:
        raise failure[0]
    _report(incumbents, settings)
    return Ended(interrupted, overrun and not interrupted)


def _wait_for_end(done: threading.Event, cancel: Callable[[], None]) -> None:
    while not done.is_set():
        cancel()
        done.wait(POLL_SECONDS)


def _report(incumbents: queue.SimpleQueue[float] | None, settings: Settings) -> None:
    if incumbents is None or settings.on_incumbent is None:
        return
    with contextlib.suppress(queue.Empty):
        while True:
            settings.on_incumbent(incumbents.get_nowait())


def unbounded_or_infeasible(backend: Solver, program: LinearProgram, settings: Settings) -> Termination:
    """Tell the two apart, once a backend knows that it is one of them, by solving without costs."""
    outcome = backend.solve(program.without_costs(), settings)
    return Termination.UNBOUNDED if outcome.values is not None else outcome.termination


@contextlib.contextmanager
def stderr_to_list(lines: list[str]) -> Iterator[None]:
    """Collect what C code (and anything else in this process) writes on stderr meanwhile."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            lines.append(file.read().decode(errors="replace"))
