"""Runs the plan's processes to their end, or to their deadline."""

from __future__ import annotations

import contextlib
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

from fedtest import values
from fedtest.engine.base import ProcessKey
from fedtest.errors import FedtestError
from fedtest.run.events import Exited, Looked, Lost, Output
from fedtest.run.evidence import ProcessState
from fedtest.run.logs import ProcessLog
from fedtest.run.result import Problem, Verdict
from fedtest.run.sampler import Sampler

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fedtest.engine.base import Engine, RunTag
    from fedtest.run.artifacts import RunDirectory
    from fedtest.run.events import EventLog, Inbox, Item
    from fedtest.run.evidence import Evidence
    from fedtest.run.observer import Observer

_START_DEADLINE = 60.0
_GRACE = 3.0
"""Seconds between asking an overdue process to end and ending it."""


class Supervisor:
    """Owns the state of all processes; the only one that takes items from the inbox.

    `clock` gives seconds since the run began.
    """

    def __init__(  # noqa: PLR0917 - it is made in one place
        self,
        engine: Engine,
        run: RunTag,
        evidence: Evidence,
        inbox: Inbox,
        events: EventLog,
        directory: RunDirectory,
        observer: Observer,
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._run = run
        self._evidence = evidence
        self._inbox = inbox
        self._events = events
        self._observer = observer
        self._clock = clock
        self.problems: list[Problem] = []
        for plan in evidence.plan.processes:
            key = ProcessKey(plan.host, plan.name)
            evidence.processes[key] = ProcessState(plan, ProcessLog(directory.log(key)))

    def start(self) -> None:
        """Start every process."""
        plan = self._evidence.plan
        pids = self._engine.start(self._run, plan.processes, self._inbox, _START_DEADLINE)
        for key, pid in pids.items():
            state = self._evidence.processes[key]
            state.pid, state.started = pid, self._clock()
            self._events.add("started", key.host, process=key.process, pid=pid)

    def wait(self, sample: Collection[str]) -> None:
        """Until every process has ended or one is overdue; looks at the hosts `sample`."""
        sampler = Sampler(self._engine, self._run, sample, self._inbox)
        try:
            overdue = self._until_ended(self._next_deadline)
            if overdue:
                self._blame(overdue)
                self._end(overdue)
        finally:
            sampler.stop()

    def close(self) -> None:
        """Write what logs still hold. Nothing of the processes is taken in any more."""
        self._inbox.close()
        for key, state in self._evidence.processes.items():
            self._lines(key, "stdout", state.log.close())

    def _running(self) -> list[ProcessKey]:
        return [key for key, state in self._evidence.processes.items() if state.ended is None]

    def _next_deadline(self) -> tuple[float, list[ProcessKey]]:
        """When the next deadline is, and whose; that of all processes binds each of them."""
        plan = self._evidence.plan
        due: dict[ProcessKey, float] = {}
        for key in self._running():
            state = self._evidence.processes[key]
            own = state.plan.deadline
            due[key] = state.started + (plan.deadline if own is None else min(own, plan.deadline))
        end = min(due.values())
        return end, [key for key, at in due.items() if at <= end]

    def _until_ended(
        self, next_deadline: Callable[[], tuple[float, list[ProcessKey]]]
    ) -> list[ProcessKey]:
        """Takes items until nothing runs; whoever is still running at a deadline."""
        while self._running():
            end, whose = next_deadline()
            item = self._inbox.get(end - self._clock())
            if item is not None:
                self._take(item)
            elif self._clock() >= end:
                return whose
        return []

    def _blame(self, overdue: list[ProcessKey]) -> None:
        for key in overdue:
            state = self._evidence.processes[key]
            own, whole = state.plan.deadline, self._evidence.plan.deadline
            limit = whole if own is None else min(own, whole)
            self._events.add("overdue", key.host, process=key.process, deadline=limit)
            self.problems.append(
                Problem(
                    Verdict.FAILED,
                    f"{key}: still running after its deadline of {limit:g} s",
                    remedy=f"Its log is {state.log.path}",
                    details=tuple(state.log.last) or ("(it printed nothing)",),
                )
            )

    def _end(self, overdue: list[ProcessKey]) -> None:
        """The run ends: ask all that still run, take in what they say, then insist."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            pids = {
                key: pid
                for key in self._running()
                if (pid := self._evidence.processes[key].pid) is not None
            }
            if not pids:
                return
            with contextlib.suppress(FedtestError):
                self._engine.signal(self._run, pids, number)
            end = self._clock() + _GRACE
            self._until_ended(partial(_fixed, end, overdue))

    def _take(self, item: Item) -> None:
        match item:
            case Output(key, stream, data):
                self._lines(key, stream, self._evidence.processes[key].log.feed(stream, data))
            case Exited(key, status):
                state = self._evidence.processes[key]
                self._lines(key, "stdout", state.log.close())
                state.status, state.ended = status, self._clock()
                self._events.add("exited", key.host, process=key.process, status=status)
                self._observer.exited(key, status)
            case Lost(key, error):
                self._evidence.processes[key].ended = self._clock()
                self._events.add("lost", key.host, process=key.process, error=str(error))
                self.problems.append(
                    Problem(Verdict.INVALID, f"{key}: {error.message}", error.remedy)
                )
            case Looked(snapshots):
                for key, state in self._evidence.processes.items():
                    if state.pid is not None and key.host in snapshots:
                        state.sockets.update(
                            socket
                            for socket in snapshots[key.host].sockets
                            if socket.session == state.pid
                        )

    def _lines(self, key: ProcessKey, stream: str, lines: list[str]) -> None:
        for line in lines:
            self._observer.line(key, stream, line)
            if stream != "stdout":
                continue
            try:
                reported = values.parse(line)
            except ValueError as error:
                self._events.add("bad value", key.host, process=key.process, error=str(error))
                self.problems.append(
                    Problem(
                        Verdict.FAILED,
                        f"{key}: reported a value that cannot be read: {error}: {line[:200]}",
                    )
                )
                continue
            if reported is not None:
                name, value = reported
                self._evidence.processes[key].values.setdefault(name, []).append(value)
                self._events.add("value", key.host, process=key.process, name=name, value=value)


def _fixed(end: float, whose: list[ProcessKey]) -> tuple[float, list[ProcessKey]]:
    return end, whose


def started_at() -> Callable[[], float]:
    """A clock that counts seconds from now."""
    began = time.monotonic()
    return lambda: time.monotonic() - began
