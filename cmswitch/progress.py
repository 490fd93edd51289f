"""What a user sees and can do while a compilation runs: a progress bar, and Ctrl-C or SIGTERM as a request to stop."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class _Bar:
    """A bar on stderr, drawn when it is first told something; silent unless ``shown`` and stderr is a terminal."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown and sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = None

    def _drawn(self, total: float, layout: str) -> Any:
        """The bar; None if it is silent."""
        if self._shown and self._bar is None:
            from tqdm import tqdm

            layout = f"{{desc}} |{{bar}}| {layout} [{{elapsed}}]"
            self._bar = tqdm(total=total, leave=False, dynamic_ncols=True, bar_format=layout)
        return self._bar

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


class ProgressBar(_Bar):
    """How far the proof is.

    Call it as ``bar(activity, best, bound)``: cycles of the best plan so far (infinite: none yet) and the proven lower bound.
    """

    def announce(self, activity: str) -> None:
        """Show what is done before there is a search."""
        bar = self._drawn(1.0, "{postfix}")
        if bar is not None:
            bar.set_description(activity)

    def __call__(self, activity: str, best: float, bound: float) -> None:
        """Show the state of the search."""
        bar = self._drawn(1.0, "{postfix}")
        if bar is None:
            return
        found = math.isfinite(best) and best > 0
        bar.set_description(activity, refresh=False)
        bar.n = min(1.0, bound / best) if found else 0.0
        state = f"best {best:,.0f}, gap {100 * (1 - bar.n):.2f} %" if found else "no plan yet"
        bar.set_postfix_str(f"{state}, bound {bound:,.0f} cycles", refresh=True)


class StepBar(_Bar):
    """How many of a known number of steps are done. Call it as ``bar(name of the step, done, total)``."""

    def __call__(self, name: str, done: int, total: int) -> None:
        """Show the state."""
        bar = self._drawn(total, "{n}/{total}")
        if bar is not None:
            bar.set_description(name, refresh=False)
            bar.update(done - bar.n)


STOPPING = "cmswitch: stopping with the best plan so far; the next Ctrl-C ends it without one"


class Interruption:
    """While active, the first Ctrl-C or SIGTERM asks the compiler to stop with what it has; the second one ends it at once.

    ``requested()`` is what the compiler polls; ``exit_code`` tells the two apart as shells do (128 + signal). Outside the main
    thread signals cannot be caught, so nothing is changed.
    """

    def __init__(self) -> None:
        self._number = 0
        self._previous: dict[int, Any] = {}

    def requested(self) -> bool:
        """Whether Ctrl-C was pressed, or SIGTERM came."""
        return self._number != 0

    @property
    def exit_code(self) -> int:
        """The exit code of a process that was stopped so."""
        return 128 + self._number

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._number = number
        with contextlib.suppress(OSError):  # stderr may be closed
            os.write(2, f"\n{STOPPING}\n".encode())  # not print, which may be what was interrupted
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
