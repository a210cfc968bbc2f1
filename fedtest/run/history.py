"""A value over time: what checks need of all that a process reported under one name."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from typing import Any

_MOST = 100_000


class History:
    """When a name was reported, and whether its value ever fell or rose.

    Which it did is found as reports come, so that nothing has to be kept of
    them. `fell` and `rose` have the first time: which report it was, the value
    before and the value. What is no number, NaN included, has neither more nor
    less than another: it does both.
    """

    def __init__(self) -> None:
        self.count = 0
        self.fell: tuple[int, Any, Any] | None = None
        self.rose: tuple[int, Any, Any] | None = None
        self._last: Any = None
        self._times = array("d")

    def take(self, value: Any, at: float) -> None:
        """One more report."""
        self.count += 1
        if self.count <= _MOST:
            self._times.append(at)
        step = (self.count, self._last, value)
        wrong = not _is_number(value) or (self.count > 1 and not _is_number(self._last))
        if wrong or (self.count > 1 and value < self._last):
            self.fell = self.fell or step
        if wrong or (self.count > 1 and value > self._last):
            self.rose = self.rose or step
        self._last = value

    def first(self, start: float = 0.0) -> float | None:
        """When it was first reported, at `start` or later."""
        at = bisect_left(self._times, start)
        return self._times[at] if at < len(self._times) else None


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and not math.isnan(value)
