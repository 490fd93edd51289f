"""The other side of :mod:`solvers.isolation`: solves what arrives on stdin until stdin ends."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
import time
from dataclasses import replace
from typing import IO, Any

from solvers.isolation import Done, Found, Raised, Request, Started, Stop


def main() -> None:
    """Serve requests. Answers go to what was stdout; from here on stdout is stderr, so that nothing printed gets in between."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests, stop), daemon=True).start()
    while True:
        request = requests.get()
        _send(answers, _answer(request, answers, stop))


def _read(source: IO[bytes], requests: queue.SimpleQueue[Request], stop: threading.Event) -> None:
    """Pass requests on and note a wish to stop; the end of the input is the end of the process, whatever it is doing."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = pickle.load(source)
            if isinstance(message, Stop):
                stop.set()
            else:
                stop.clear()
                requests.put(message)
    os._exit(0)


def _answer(request: Request, answers: IO[bytes], stop: threading.Event) -> Done | Raised:
    try:
        backend = request.backend.load()
        _send(answers, Started())
        settings = replace(request.settings, should_stop=stop.is_set)
        if request.watched:
            settings = replace(settings, on_incumbent=lambda objective: _send(answers, Found(objective)))
        began = time.process_time()
        outcome = backend.solve(request.program, settings)
        return Done(outcome, time.process_time() - began)
    except Exception as error:
        return Raised(error)


def _send(answers: IO[bytes], message: Any) -> None:
    """Write one message; one that cannot be pickled (an exception with odd arguments) is sent as its text."""
    try:
        frame = pickle.dumps(message)
        pickle.loads(frame)
    except Exception:
        frame = pickle.dumps(Raised(RuntimeError(f"{type(message.error).__name__}: {message.error}")))
    answers.write(frame)
    answers.flush()
