"""The bar of a process that reports its progress, with the time that is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDTH = 20
_DONE, _LEFT = "━", "╌"


class Progress:
    """What one process has reported; the time left follows from its pace since its first report.

    The first report of a training that goes on from a checkpoint is not at the beginning.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._newest = (0.0, 0.0)

    def reached(self, share: float) -> None:
        """Take a report: `share` of the work, from 0 to 1, is done."""
        now = self._clock()
        if self._first is None or share < self._newest[1]:  # it began anew
            self._first = (now, share)
        self._newest = (now, share)

    def bar(self, now: float) -> str:
        """Return the bar with share and time left, or nothing before the first report."""
        if self._first is None:
            return ""
        done = self._newest[1]
        full = int(done * _WIDTH)
        text = f"{_DONE * full}{_LEFT * (_WIDTH - full)} {done:4.0%}"
        (began, at), (reached, _) = self._first, self._newest
        if done <= at or reached <= began:
            return text
        left = max((1 - done) * (reached - began) / (done - at) - (now - reached), 0)
        return f"{text}, {_duration(left)} left"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return (
        f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
    )
