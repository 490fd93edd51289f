"""The process: load the command line and run it. Ctrl-C and SIGTERM end it with one line, also while it loads."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = "cmswitch: interrupted before there was a result"


def start(*before: str) -> int:
    """Run the command of ``before`` followed by the arguments of the process; its exit code."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # Not where they are ignored: the process is to go on then.
    caught = [n for n, handler in handlers.items() if handler in (signal.default_int_handler, signal.SIG_DFL)]
    for number in caught:
        signal.signal(number, _leave)
    from cmswitch.cli import main

    try:
        for number in caught:
            signal.signal(number, _interrupt)
        return main([*before, *sys.argv[1:]])
    finally:
        for number in caught:
            signal.signal(number, handlers[number])


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once: an exception could be caught by a module that is being imported."""
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(128 + number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt(128 + number)
