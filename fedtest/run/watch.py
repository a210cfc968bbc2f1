"""Lines that checks look for, found while they are printed.

Not afterwards in the log: that is bounded, has no times, and a check must see
every line. What is remembered is bounded, too, whatever is printed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedtest.scenario.patterns import compiled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fedtest.scenario.comparison import Comparison

_MOST = 100_000
"""Lines of which it is known when they came."""
_EXAMPLES = 3
_AROUND = 3
"""Lines that are shown, and those before and after each."""
_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Looking:
    """What is looked for in the lines of one process; also the name under which it is found.

    `literal`: a text, else a regular expression. `where`: comparisons that
    hold for its named groups.
    """

    text: str
    literal: bool = False
    stream: str | None = None
    where: tuple[tuple[str, Comparison], ...] = ()


@dataclass(slots=True)
class Sighting:
    """A line that was looked for, and the lines around it."""

    at: float
    line: str
    before: tuple[str, ...]
    after: list[str] = field(default_factory=list)

    def shown(self) -> list[str]:
        """The lines as they are told; `>` marks the one it is about."""
        return [
            *(f"    {line}" for line in self.before),
            f"  > {self.line}",
            *(f"    {line}" for line in self.after),
        ]


class LogWatch:
    """What was found of one `Looking` in the lines of one process.

    `matched` counts lines that match, `count` those for which `where` holds
    as well; `missed` has the last groups for which it did not.
    """

    def __init__(self, looking: Looking) -> None:
        self.looking = looking
        self.matched = 0
        self.count = 0
        self.examples: list[Sighting] = []
        self.missed: deque[dict[str, str | None]] = deque(maxlen=_EXAMPLES)
        self._numbers = array("Q")
        self._times = array("d")

    def take(self, number: int, stream: str, line: str, at: float, before: Sequence[str]) -> None:
        """Look at a line; `number` counts the process's lines."""
        for sighting in self.examples:
            if len(sighting.after) < _AROUND:
                sighting.after.append(line[:_SHOWN])
        if self.looking.stream not in (None, stream):
            return
        if self.looking.literal:
            if self.looking.text not in line:
                return
        elif not self._matches(line):
            return
        self.count += 1
        if self.count <= _MOST:
            self._numbers.append(number)
            self._times.append(at)
        if len(self.examples) < _EXAMPLES:
            self.examples.append(Sighting(at, line[:_SHOWN], tuple(before)[-_AROUND:]))

    def _matches(self, line: str) -> bool:
        match = compiled(self.looking.text).search(line)
        if match is None:
            return False
        self.matched += 1
        if not self.looking.where:
            return True
        found: Mapping[str, str | None] = match.groupdict()
        if all(_holds(comparison, found[name]) for name, comparison in self.looking.where):
            return True
        self.missed.append({name: found[name] for name, _ in self.looking.where})
        return False

    @property
    def incomplete(self) -> bool:
        """Whether there were more lines than could be remembered with their times."""
        return self.count > _MOST

    def first(self, start: float = 0.0) -> float | None:
        """When the first line came, of those that came at `start` or later."""
        at = bisect_left(self._times, start)
        return self._times[at] if at < len(self._times) else None

    def within(self, start: float, end: float) -> int:
        """How many lines came from `start` to `end`, as far as is remembered."""
        return bisect_right(self._times, end) - bisect_left(self._times, start)

    def next(self, number: int, start: float, end: float) -> int | None:
        """The number of the first line after line `number` that came from `start` to `end`."""
        at = max(bisect_right(self._numbers, number), bisect_left(self._times, start))
        return self._numbers[at] if at < len(self._times) and self._times[at] <= end else None


def _holds(comparison: Comparison, text: str | None) -> bool:
    """A group's text, taken for a number where it is compared with one."""
    if text is None:
        return False
    operand = comparison.operand
    if operand is None or isinstance(operand, bool):
        words = {None: "null", True: "true", False: "false"}
        return (text == words[operand]) == (comparison.sign == "==")
    if isinstance(operand, str):
        return comparison.holds(text)
    try:
        return comparison.holds(float(text))
    except ValueError:
        return comparison.holds(text)
