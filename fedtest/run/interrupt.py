"""Ctrl-C and SIGTERM: once, the run ends and cleans up; twice, it ends now."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedtest.errors import ExitCode, Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STDERR = 2
_SAME = 0.2
"""Seconds within which a further signal is the same one."""

_SHOW_CURSOR = "\x1b[?25h"


class Interruption:
    """While `watch` is open, the first signal raises Interrupted, but only within `allowed`.

    Everywhere else it is put off, to the next `allowed` or for whoever asks
    `pending`. So there is no moment, not one between two statements, at which
    it could keep clean-up from being done. The second signal leaves at once;
    what then stays carries labels, and the next run or `fedtest clean` removes it.
    """

    def __init__(self) -> None:
        self.pending: Interrupted | None = None
        self._count = 0
        self._first = 0.0
        self._allowed = False

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Handle the signals; put the old handlers back afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield  # Signals are the main thread's, and so is what to do about them.
            return
        old = {number: signal.getsignal(number) for number in _SIGNALS}
        # Who started us with `nohup` wants hang-ups ignored.
        mine = [number for number in _SIGNALS if old[number] is not signal.SIG_IGN]
        for number in mine:
            signal.signal(number, self._handle)
        try:
            yield
        finally:
            for number in mine:
                signal.signal(number, old[number])

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Here the first signal raises Interrupted; so does one that was put off before."""
        self._allowed = True
        try:
            if self.pending is not None:
                error, self.pending = self.pending, None
                raise error
            yield
        finally:
            self._allowed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        now = time.monotonic()
        # One wish may come twice: `timeout` signals its child and the child's group.
        if self._count and now - self._first < _SAME:
            return
        self._count += 1
        self._first = self._first or now
        if self._count > 1:
            # A live picture has hidden the cursor.
            cursor = _SHOW_CURSOR if os.isatty(_STDERR) else ""
            _say(f"{cursor}\nfedtest: leaving now; `fedtest clean` removes what is left\n")
            os._exit(ExitCode.INTERRUPTED)
        error = Interrupted(f"interrupted by {signal.Signals(number).name}")
        if not self._allowed:
            self.pending = error
            _say("\nfedtest: cleaning up; once more to leave at once\n")
            return
        self._allowed = False  # Whoever is interrupted by this one is not by another.
        raise error


def _say(text: str) -> None:
    """Without Python's buffers: the handler may have come in the middle of a write to them."""
    with contextlib.suppress(OSError):
        os.write(_STDERR, text.encode())
