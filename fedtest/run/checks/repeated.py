"""`eventually` and `always`: a check that is judged again and again while processes run.

A check of values is judged at each report, any other at each look at the
hosts. When processes end, a look may see that some have and others have not
yet, and we learn of either in any order. So for `always` a look counts only
when the next one comes and no process has ended in between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedtest.run.checks.judge import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.run.checks.finding import Finding
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.checks import Check
    from fedtest.scenario.model import Scenario


@dataclass
class _Course:
    """How one check has fared: when it first held and first did not, in seconds of the run."""

    check: Check
    looks: int = 0
    held: tuple[float, Finding] | None = None
    broke: tuple[float, Finding] | None = None
    waiting: tuple[float, Finding] | None = None

    def take(self, at: float, finding: Finding) -> None:
        if finding.unknown:
            return
        self.looks += 1
        if finding.passed:
            self.held = self.held or (at, finding)
        else:
            self.broke = self.broke or (at, finding)

    def confirm(self) -> None:
        """The last look counts."""
        if self.waiting is not None:
            self.take(*self.waiting)
            self.waiting = None


class Repeated:
    """The checks of a scenario that are judged while processes run."""

    def __init__(self, scenario: Scenario, evidence: Evidence, clock: Callable[[], float]) -> None:
        self._scenario = scenario
        self._evidence = evidence
        self._clock = clock
        self._began = 0.0
        self._courses = [_Course(check) for check in scenario.checks if check.repeated]

    def start(self) -> None:
        """The processes run."""
        self._began = self._clock()

    def reported(self, name: str) -> None:
        """A value was reported, and is in the evidence."""
        for course in self._courses:
            value = course.check.value
            if value is not None and value.name == name:
                course.take(self._clock(), self._judge(course))

    def looked(self) -> None:
        """Hosts were looked at, and that is in the evidence."""
        for course in self._courses:
            if course.check.value is not None:
                continue
            course.confirm()
            if course.check.eventually is not None:
                course.take(self._clock(), self._judge(course))
            else:
                course.waiting = (self._clock(), self._judge(course))

    def exited(self) -> None:
        """A process ended: the last look may have seen that before we learned of it."""
        for course in self._courses:
            course.waiting = None

    def finding(self, check: Check) -> Finding:
        """What it came to, now that everything has ended."""
        course = next(item for item in self._courses if item.check is check)
        course.confirm()
        last = self._judge(course)
        if check.eventually is not None:
            course.take(self._clock(), last)
            return self._eventually(course, last, check.eventually)
        return self._always(course, last)

    def _judge(self, course: _Course) -> Finding:
        return judge(self._scenario, course.check, self._evidence)

    def _eventually(self, course: _Course, last: Finding, within: float) -> Finding:
        expected = f"within {within:g} s, {last.expected}"
        if course.held is None:
            return replace(last, passed=False, expected=expected)
        at, finding = course.held
        took = at - self._began
        found = f"after {took:.1f} s: {finding.found}"
        return replace(finding, passed=took <= within, expected=expected, found=found)

    def _always(self, course: _Course, last: Finding) -> Finding:
        expected = f"always, {last.expected}"
        if course.broke is not None:
            at, finding = course.broke
            found = f"not after {at - self._began:.1f} s: {finding.found}"
            return replace(finding, expected=expected, found=found)
        if not course.looks:
            found = "it was never judged while processes ran"
            return replace(last, passed=False, expected=expected, found=found)
        assert course.held is not None  # noqa: S101 - each look that counts held or broke
        times = f"{course.looks} times: {course.held[1].found}"
        return replace(course.held[1], expected=expected, found=times)
