"""Takes in what processes say and how they end: into logs, events and evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest import values
from fedtest.run.events import Exited, Looked, Lost, Output
from fedtest.run.result import Problem, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.engine.base import ProcessKey
    from fedtest.run.checks.repeated import Repeated
    from fedtest.run.events import EventLog, Item
    from fedtest.run.evidence import Evidence, ProcessState
    from fedtest.run.observer import Observer

_MOST_NAMES = 1000
_MOST_REPORTS = 100_000
_SHOWN = 1000
"""Of one process: names that it may report, reports that become events, characters of each."""


class Intake:
    """From items to evidence. `clock` gives seconds since the run began.

    `judging`: looks at hosts still count for checks that are repeated.
    """

    def __init__(
        self,
        evidence: Evidence,
        repeated: Repeated,
        events: EventLog,
        observer: Observer,
        clock: Callable[[], float],
    ) -> None:
        self._evidence = evidence
        self._repeated = repeated
        self._events = events
        self._observer = observer
        self._clock = clock
        self.judging = True
        self.problems: list[Problem] = []

    def take(self, item: Item) -> None:
        """One item from the inbox."""
        match item:
            case Output(key, stream, data):
                for line in self._evidence.processes[key].log.feed(stream, data):
                    self._line(key, stream, line)
            case Exited(key, status):
                state = self._evidence.processes[key]
                self._unended(key, state.log.end())
                state.status, state.ended = status, self._clock()
                self._events.add("exited", key.host, process=key.process, status=status)
                self._observer.exited(key, status)
                self._repeated.exited()
            case Lost(key, error):
                self._evidence.processes[key].ended = self._clock()
                self._events.add("lost", key.host, process=key.process, error=str(error))
                self.problems.append(
                    Problem(Verdict.INVALID, f"{key}: {error.message}", error.remedy)
                )
            case Looked(snapshots, examined):
                # A look that was under way when a host was restarted saw the one before.
                now = {
                    host: item
                    for host, item in snapshots.items()
                    if item.born >= self._evidence.before[host].born
                }
                self._evidence.after.update(now)
                self._evidence.saw(now)
                self._evidence.looked_beside(examined)
                if self.judging:
                    self._repeated.looked()

    def close_log(self, key: ProcessKey) -> None:
        """Nothing more comes of a process: write what its log still holds."""
        log = self._evidence.processes[key].log
        self._unended(key, log.close())
        if log.error is not None:
            why = f"{key}: its log could not be written: {log.error.strerror}"
            self.problems.append(Problem(Verdict.INVALID, why))

    def _unended(self, key: ProcessKey, lines: list[tuple[str, str]]) -> None:
        for stream, line in lines:
            self._line(key, stream, line)

    def _line(self, key: ProcessKey, stream: str, line: str) -> None:
        self._observer.line(key, stream, line)
        self._evidence.processes[key].line(stream, line, self._clock())
        if stream != "stdout":
            return
        try:
            reported = values.parse(line)
        except ValueError as error:
            self._reject(key, f"reported a value that cannot be read: {error}: {line[:200]}")
            return
        if reported is None:
            return
        name, value = reported
        state = self._evidence.processes[key]
        if name not in state.values and len(state.values) >= _MOST_NAMES:
            self._reject(key, f"reported values under more than {_MOST_NAMES} names")
            return
        state.report(name, value, self._clock())
        self._repeated.reported(name)
        if self._record(state):
            shown = value[:_SHOWN] if isinstance(value, str) else value
            self._events.add("value", key.host, process=key.process, name=name, value=shown)

    def _reject(self, key: ProcessKey, why: str) -> None:
        """One is reason enough to fail; those that follow are in the events and the log."""
        state = self._evidence.processes[key]
        if self._record(state):
            self._events.add("bad value", key.host, process=key.process, error=why)
        if not state.rejected:
            state.rejected = True
            self.problems.append(Problem(Verdict.FAILED, f"{key}: {why}"))

    def _record(self, state: ProcessState) -> bool:
        """Whether one more report becomes an event: a process could fill the disk with them."""
        state.reports += 1
        if state.reports == _MOST_REPORTS + 1:
            plan = state.plan
            self._events.add("values no longer recorded", plan.host, process=plan.name)
        return state.reports <= _MOST_REPORTS
