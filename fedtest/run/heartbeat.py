"""Who looks on is told now and then that processes still run, also while none says anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.clockwork import Follower

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 60.0
"""Seconds: CI systems end a job that prints nothing for ten minutes."""


class Heartbeat(Follower):
    """Calls `tell` each minute, from the thread that owns the evidence."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._due: float | None = None

    def wake(self, now: float) -> float:
        if self._due is None:
            self._due = now + EVERY
        elif now >= self._due:
            self._due = now + EVERY
            self._tell()
        return self._due
