"""Ctrl-C and SIGTERM: once, the run ends and cleans up; twice, it ends now."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedtest.errors import ExitCode, Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """While `watch` is open, the first signal raises Interrupted in the main thread.

    Within `shield` it does not: it is remembered, so that clean-up is never cut
    short by it. The second signal leaves at once; what then stays carries
    labels, and the next run or `fedtest clean` removes it.
    """

    def __init__(self) -> None:
        self.count = 0
        self._shielded = False

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Handle the signals; put the old handlers back afterwards."""
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
    def shield(self) -> Iterator[None]:
        """Put the first signal off until nothing is left to clean up."""
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.count += 1
        if self.count > 1:
            sys.stderr.write("\nfedtest: leaving now; `fedtest clean` removes what is left\n")
            sys.stderr.flush()
            os._exit(ExitCode.INTERRUPTED)
        if self._shielded:
            sys.stderr.write("\nfedtest: cleaning up; once more to leave at once\n")
            return
        name = signal.Signals(number).name
        raise Interrupted(f"interrupted by {name}")
