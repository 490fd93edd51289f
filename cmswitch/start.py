"""The process: load the command line and run it. Ctrl-C while it loads ends the process without a traceback."""

from __future__ import annotations

import signal
import sys


def start(*before: str) -> int:
    """Run the command of ``before`` followed by the arguments of the process; its exit code."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not where Ctrl-C is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cmswitch.cli import main

    signal.signal(signal.SIGINT, handler)
    return main([*before, *sys.argv[1:]])
