"""What is shown of one process where all lines would be too many: its first and its last."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = 3
"""Lines that are shown as they come."""
EVERY = 60.0
"""Seconds without a shown line, after which the next line is shown: who looks on sees it live."""
LAST, LAST_OF_A_FAILURE = 3, 10
"""Lines that are shown when the process has ended, with 0 and with anything else."""


class Line(NamedTuple):
    """A line of a process: `stream` is stdout or stderr."""

    stream: str
    text: str


class Excerpt:
    """Decides for each line of one process whether it is shown now, at the end, or not at all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count = 0
        self._shown_at = clock()
        self._hidden = 0
        self._held: deque[Line] = deque(maxlen=LAST_OF_A_FAILURE)

    def is_due(self, line: Line) -> bool:
        """Return whether to show `line` now; otherwise keep it for the end."""
        self._count += 1
        now = self._clock()
        if self._count <= FIRST or now - self._shown_at >= EVERY:
            self._shown_at = now
            self._hidden += len(self._held)
            self._held.clear()
            return True
        self._hidden += len(self._held) == self._held.maxlen
        self._held.append(line)
        return False

    def end(self, status: int) -> tuple[int, list[Line]]:
        """Return how many lines were not shown, and the last lines, none of which was."""
        last = list(self._held)[-(LAST if status == 0 else LAST_OF_A_FAILURE) :]
        return self._hidden + len(self._held) - len(last), last
