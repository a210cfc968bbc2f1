"""Runs the plan's processes to their end, or to their deadline."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import TYPE_CHECKING

from fedtest import values
from fedtest.engine.base import ProcessKey
from fedtest.errors import InvalidError
from fedtest.run import postmortem
from fedtest.run.events import Exited, Looked, Lost, Output
from fedtest.run.evidence import ProcessState
from fedtest.run.logs import ProcessLog
from fedtest.run.result import Problem, Verdict
from fedtest.run.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.engine.base import Engine, RunTag
    from fedtest.engine.snapshot import TcpSocket
    from fedtest.run.artifacts import RunDirectory
    from fedtest.run.checks.needs import Looks
    from fedtest.run.checks.repeated import Repeated
    from fedtest.run.events import EventLog, Inbox, Item
    from fedtest.run.evidence import Evidence
    from fedtest.run.observer import Observer

_START_DEADLINE = 60.0
_GRACE = 3.0
"""Seconds between asking an overdue process to end and ending it."""
_MOST_NAMES = 1000
_MOST_REPORTS = 100_000
_SHOWN = 1000
"""Of one process: names that it may report, reports that become events, characters of each."""


class Supervisor:
    """Owns the state of all processes; the only one that takes items from the inbox.

    `clock` gives seconds since the run began.
    """

    def __init__(  # noqa: PLR0917 - it is made in one place
        self,
        engine: Engine,
        run: RunTag,
        evidence: Evidence,
        repeated: Repeated,
        inbox: Inbox,
        events: EventLog,
        directory: RunDirectory,
        observer: Observer,
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._run = run
        self._evidence = evidence
        self._repeated = repeated
        self._inbox = inbox
        self._directory = directory
        self._events = events
        self._observer = observer
        self._clock = clock
        self.problems: list[Problem] = []
        for plan in evidence.plan.processes:
            key = ProcessKey(plan.host, plan.name)
            evidence.processes[key] = ProcessState(plan, ProcessLog(directory.log(key)))

    def run(self, looks: Looks) -> None:
        """Start every process; until all have ended or one is overdue.

        Meanwhile hosts are looked at, and that begins first, so that what a
        process does at once is seen.
        """
        sampler = Sampler(self._engine, self._run, looks, self._inbox)
        try:
            self._start()
            overdue: list[ProcessKey] = []
            while not overdue and not self._take_until(self._next_deadline()):
                overdue = [key for key in self._running() if self._due(key) <= self._clock()]
            if overdue:
                missing = postmortem.save(self._engine, self._run, self._evidence, self._directory)
                self._blame(overdue, missing)
                self._end()
        finally:
            self._inbox.close()  # A look that waits to be taken would hold the sampler.
            sampler.stop()
        sampler.raise_defect()

    def _start(self) -> None:
        plan = self._evidence.plan
        pids = self._engine.start(self._run, plan.processes, self._inbox, _START_DEADLINE)
        now = self._clock()  # One for all, so that one deadline is one moment.
        for key, pid in pids.items():
            state = self._evidence.processes[key]
            state.pid, state.started = pid, now
            self._events.add("started", key.host, process=key.process, pid=pid)
        self._repeated.start()

    def close(self) -> None:
        """Take in what has come, and write what logs still hold."""
        self._inbox.close()
        self._take_waiting()
        for key, state in self._evidence.processes.items():
            self._close_log(key)
            if state.log.error is not None:
                why = state.log.error.strerror
                self.problems.append(
                    Problem(Verdict.INVALID, f"{key}: its log could not be written: {why}")
                )
        self._keep_sockets()

    def _keep_sockets(self) -> None:
        """What was seen of sockets while processes ran is gone from the hosts by now."""
        seen: dict[str, dict[str, list[TcpSocket]]] = {}
        for key, state in self._evidence.processes.items():
            if state.sockets:
                found = sorted(state.sockets, key=lambda item: (item.local_port, item.remote_port))
                seen.setdefault(key.host, {})[key.process] = found
        for host, by_process in seen.items():
            try:
                self._directory.json(f"hosts/{host}.sockets.json", by_process)
            except InvalidError as error:
                self.problems.append(Problem(Verdict.INVALID, error.message))

    def _running(self) -> list[ProcessKey]:
        return [key for key, state in self._evidence.processes.items() if state.ended is None]

    def _limit(self, key: ProcessKey) -> float:
        """The deadline of all processes binds each of them."""
        own, whole = self._evidence.processes[key].plan.deadline, self._evidence.plan.deadline
        return whole if own is None else min(own, whole)

    def _due(self, key: ProcessKey) -> float:
        return self._evidence.processes[key].started + self._limit(key)

    def _next_deadline(self) -> float:
        return min((self._due(key) for key in self._running()), default=self._clock())

    def _take_until(self, end: float) -> bool:
        """Takes items until nothing runs any more, or until `end`; whether nothing runs.

        What had come by `end` is taken in, but no more: a process that never
        stops talking is overdue like a silent one.
        """
        while self._running():
            left = end - self._clock()
            if left <= 0:
                self._take_waiting()
                return not self._running()
            item = self._inbox.get(left)
            if item is not None:
                self._take(item)
        return True

    def _take_waiting(self) -> None:
        for _ in range(self._inbox.waiting()):
            item = self._inbox.get(0)
            if item is not None:
                self._take(item)

    def _blame(self, overdue: list[ProcessKey], missing: list[str]) -> None:
        for text in missing:
            self._events.add("not saved", what=text)
        for key in overdue:
            state = self._evidence.processes[key]
            limit = self._limit(key)
            whose = "its" if limit == state.plan.deadline else "the scenario's"
            self._events.add("overdue", key.host, process=key.process, deadline=limit)
            self.problems.append(
                Problem(
                    Verdict.FAILED,
                    f"{key}: still running after {whose} deadline of {limit:g} s",
                    remedy=f"Its log is {state.log.path}\n{_where(key, missing)}",
                    details=tuple(state.log.last) or ("(it printed nothing)",),
                )
            )

    def _end(self) -> None:
        """The run ends: ask all that still run, take in what they say, then insist."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            pids = {
                key: pid
                for key in self._running()
                if (pid := self._evidence.processes[key].pid) is not None
            }
            if not pids:
                return
            # Not all of FedtestError: it includes Interrupted, which is not ours to keep.
            with contextlib.suppress(InvalidError):
                self._engine.signal(self._run, pids, number)
            self._take_until(self._clock() + _GRACE)

    def _take(self, item: Item) -> None:
        match item:
            case Output(key, stream, data):
                for line in self._evidence.processes[key].log.feed(stream, data):
                    self._line(key, stream, line)
            case Exited(key, status):
                state = self._evidence.processes[key]
                self._close_log(key)
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
                self._evidence.after.update(snapshots)
                self._evidence.saw(snapshots)
                self._evidence.looked_beside(examined)
                self._repeated.looked()

    def _close_log(self, key: ProcessKey) -> None:
        for stream, line in self._evidence.processes[key].log.close():
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


def _where(key: ProcessKey, missing: list[str]) -> str:
    if missing:
        return f"Not saved: {'; '.join(missing)}"
    return f"What it was doing is in {postmortem.STACKS.format(host=key.host)}"


def started_at() -> Callable[[], float]:
    """A clock that counts seconds from now."""
    began = time.monotonic()
    return lambda: time.monotonic() - began
