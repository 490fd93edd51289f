"""Backends that fail in every way that a process can; loaded by name in the process that isolates them."""

from __future__ import annotations

import os
import signal
import sys
import time

from solvers.program import LinearProgram, Outcome, Settings
from solvers.result import Feature, Termination


class _Faulty:
    lacks: frozenset[Feature] = frozenset()
    reads_model = False


class Aborts(_Faulty):
    """Ends as on a failed assertion of C code."""

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Print a last word and abort."""
        print("assertion failed: basis", file=sys.stderr, flush=True)
        os.abort()


class Segfaults(_Faulty):
    """Ends as on a bad pointer."""

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Receive SIGSEGV."""
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError("still alive")


class Hangs(_Faulty):
    """Heeds no limit and no wish to stop."""

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Sleep for minutes."""
        time.sleep(300)
        raise AssertionError("was left alone")


class Raises(_Faulty):
    """Has a defect."""

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Raise what no backend may."""
        raise KeyError("row 17")


class Lies(_Faulty):
    """Reports what is not feasible."""

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """All ones."""
        return Outcome(Termination.OPTIMAL, [1.0] * len(program.names), 0.0)


class GivesUp(_Faulty):
    """Ends without a word."""

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Nothing."""
        print("a stray line on stdout")
        return Outcome(Termination.ERROR, None, None)
