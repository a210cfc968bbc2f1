"""Runs the plan's processes to their end, or to their deadline."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import TYPE_CHECKING

from fedtest.engine.base import ProcessKey
from fedtest.errors import InvalidError
from fedtest.run import postmortem
from fedtest.run.evidence import ProcessState
from fedtest.run.heartbeat import Heartbeat
from fedtest.run.intake import Intake
from fedtest.run.logs import ProcessLog
from fedtest.run.result import Problem, Saved, Verdict
from fedtest.run.sampler import Sampler
from fedtest.run.starts import Starts
from fedtest.run.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fedtest.engine.base import Engine, RunTag
    from fedtest.engine.snapshot import TcpSocket
    from fedtest.run.artifacts import RunDirectory
    from fedtest.run.checks.needs import Looks
    from fedtest.run.checks.repeated import Repeated
    from fedtest.run.clockwork import Follower
    from fedtest.run.events import EventLog, Inbox, Item
    from fedtest.run.evidence import Evidence
    from fedtest.run.observer import Observer
    from fedtest.run.starts import Wait
    from fedtest.scenario.model import Scenario

_WIND_UP = 120.0
_AWAY = "what it was doing: a fault had its host switched off or standing still"
_GRACE = 3.0
"""Seconds for what was done to be undone, and between asking a process to end and ending it."""


class Supervisor:
    """Owns the state of all processes; the only one that takes items from the inbox.

    `clock` gives seconds since the run began. Followers are told of each item
    and woken in time, in the order in which they came.
    """

    def __init__(  # noqa: PLR0917 - it is made in one place
        self,
        scenario: Scenario,
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
        self._clock = clock
        self._began = 0.0
        self._ending = False
        self._intake = Intake(evidence, repeated, events, observer, clock)
        self._witness = Witness(
            scenario, engine, run, evidence, directory, away=self._away, returns=self._returns
        )
        self._followers: list[Follower] = []
        self.starts = Starts(
            engine, run, evidence, inbox, events, clock, self._returns, observer.started
        )
        self.follow(self._witness)
        self.follow(self.starts)
        self.follow(Heartbeat(lambda: observer.still_running(self._running())))
        self.problems = self._intake.problems
        self.saved: list[Saved] = []
        for plan in evidence.plan.processes:
            key = ProcessKey(plan.host, plan.name)
            evidence.processes[key] = ProcessState(plan, ProcessLog(directory.log(key)))

    def follow(self, follower: Follower) -> None:
        """Tell `follower`, too, of what happens while processes run, and wake it in time."""
        self._followers.append(follower)

    def run(self, looks: Looks) -> None:
        """Start processes, each in its time; until all have ended or the run has failed.

        Meanwhile hosts are looked at, and that begins first, so that what a
        process does at once is seen.
        """
        sampler = Sampler(self._engine, self._run, looks, self._inbox, self._away)
        try:
            self._began = self._clock()
            self.starts.begin()
            self._repeated.start()
            while not self._settled() and not self._overdue():
                self._take_until(self._next_deadline, self._settled)
            self._conclude()
        finally:
            self._inbox.close()  # A look that waits to be taken would hold the sampler.
            sampler.stop()
            for follower in self._followers:
                follower.close()
            self._keep(self._witness.finish())
        sampler.raise_defect()
        self._witness.raise_defect()

    def _conclude(self) -> None:
        """Nothing is to be waited for any more: why, and an end to what still runs."""
        if vain := self.starts.vain():
            self._witness.look(f" when {vain[0].key} waited in vain")
            self._witness.finish()
            self._blame_waits(vain, "never started: it waited in vain until")
        elif overdue := self._overdue():
            self.saved.append(postmortem.tails(self._evidence, self._directory))
            away = self._away()
            every = dict.fromkeys(key.host for key in self._evidence.processes)
            hosts = [name for name in every if name not in away]
            found = postmortem.look(self._engine, self._run, hosts, self._directory, "overdue")
            self._keep(found)
            self._blame(overdue, found.missing, away)
        else:
            self._take_waiting()  # A service may have ended just before it is asked to.
        self._end()

    def close(self) -> None:
        """Take in what has come, and write what logs still hold."""
        self._inbox.close()
        self._take_waiting()
        for key in self._evidence.processes:
            self._intake.close_log(key)
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

    def _keep(self, found: postmortem.Autopsy) -> None:
        self.saved += found.saved
        for text in found.missing:
            self._events.add("not saved", what=text)

    def _running(self) -> list[ProcessKey]:
        return [key for key, state in self._evidence.processes.items() if state.running]

    def _unfinished(self) -> list[ProcessKey]:
        """Those that run or will, but for services: they only serve these."""
        return [
            key
            for key, state in self._evidence.processes.items()
            if state.started is None
            or (state.running and not state.plan.service)
            or (state.ended is not None and self._returns(key))
        ]

    def _returns(self, key: ProcessKey) -> bool:
        """Whether somebody will start it again."""
        return any(follower.returns(key) for follower in self._followers)

    def _settled(self) -> bool:
        given_up = any(follower.gives_up for follower in self._followers)
        return given_up or not self._unfinished() or bool(self.starts.vain())

    def _away(self) -> frozenset[str]:
        return frozenset[str]().union(*(follower.away for follower in self._followers))

    def _due(self, key: ProcessKey) -> float:
        """The deadline of all processes binds each of them, and those that wait."""
        state = self._evidence.processes[key]
        whole = self._began + self._evidence.plan.deadline
        if state.plan.deadline is None or not state.running or state.started is None:
            return whole
        return min(state.started + state.plan.deadline, whole)

    def _next_deadline(self) -> float:
        return min((self._due(key) for key in {*self._running(), *self._unfinished()}), default=0.0)

    def _overdue(self) -> list[ProcessKey]:
        """Those that run or wait although they should not any more."""
        now = self._clock()
        # Services run, and are not among the unfinished.
        awaited = dict.fromkeys([*self._running(), *self._unfinished()])
        return [key for key in awaited if self._due(key) <= now]

    def _take_until(self, end: Callable[[], float], over: Callable[[], bool]) -> None:
        """Takes items until it is over, or until `end`, which may change meanwhile.

        What had come by `end` is taken in, but no more: a process that never
        stops talking is overdue like a silent one.
        """
        while True:
            wakes = [] if self._ending else self._wake()
            if over():
                return
            now, last = self._clock(), end()
            if last <= now:
                self._take_waiting()
                return
            item = self._inbox.get(min([last, *wakes]) - now)
            if item is not None:
                self._take(item)

    def _wake(self) -> list[float]:
        return [follower.wake(self._clock()) for follower in self._followers]

    def _take_waiting(self) -> None:
        for _ in range(self._inbox.waiting()):
            item = self._inbox.get(0)
            if item is not None:
                self._take(item)

    def _take(self, item: Item) -> None:
        self._intake.take(item)
        for follower in self._followers if not self._ending else ():
            follower.taken(item)

    def _blame(self, overdue: list[ProcessKey], missing: list[str], away: frozenset[str]) -> None:
        whole = self._evidence.plan.deadline
        for key in overdue:
            state = self._evidence.processes[key]
            if not state.running:
                continue
            whose, limit = "the scenario's", whole
            if state.plan.deadline is not None and self._due(key) < self._began + whole:
                whose, limit = "its", state.plan.deadline
            self._events.add("overdue", key.host, process=key.process, deadline=limit)
            self.problems.append(
                Problem(
                    Verdict.FAILED,
                    f"{key}: still running after {whose} deadline of {limit:g} s",
                    remedy=f"Its log is {state.log.path}\n"
                    + _where(key, [_AWAY] if key.host in away else missing),
                    details=_last(state),
                )
            )
        within = f"within the scenario's deadline of {whole:g} s"
        for key in overdue:
            state = self._evidence.processes[key]
            if state.started is not None and not state.running:
                text = f"{key}: ended, and was not started again {within}"
                self.problems.append(Problem(Verdict.FAILED, text))
            elif state.started is None and (waits := self.starts.unmet(key)):
                self._blame_waits(waits, f"did not start {within}: it waited until")
            elif state.started is None:
                self.problems.append(Problem(Verdict.FAILED, f"{key}: did not start {within}"))

    def _blame_waits(self, waits: Iterable[Wait], how: str) -> None:
        for wait in waits:
            text = f"{how} {wait.what}"
            self._events.add("never started", wait.key.host, process=wait.key.process, why=text)
            details: list[str] = []
            for key in wait.whom:
                state = self._evidence.processes[key]
                details += [f"the end of the log of {key}, which {_how(state)}:", *_last(state)]
            self.problems.append(
                Problem(Verdict.FAILED, f"{wait.key}: {text}", details=tuple(details))
            )

    def _end(self) -> None:
        """The run ends: ask all that still run, take in what they say, then insist."""
        self._wind_up()
        self._ending, self._intake.judging = True, False
        for key in self._running():
            self._evidence.processes[key].asked = self._clock()
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
            self._take_for(_GRACE)

    def _wind_up(self) -> None:
        """Followers undo what they did, so that what is to end can, and is seen to."""
        for follower in self._followers:
            follower.wind_up()
        end = self._clock() + _WIND_UP
        self._take_until(lambda: end, lambda: not any(item.busy for item in self._followers))

    def _take_for(self, seconds: float) -> None:
        end = self._clock() + seconds
        self._take_until(lambda: end, lambda: not self._running())


def _where(key: ProcessKey, missing: list[str]) -> str:
    if missing:
        return f"Not saved: {'; '.join(missing)}"
    return f"What it was doing is in {postmortem.STACKS.format(host=key.host)}"


def _last(state: ProcessState) -> tuple[str, ...]:
    return tuple(state.log.last) or ("(it printed nothing)",)


def _how(state: ProcessState) -> str:
    if state.ended is not None:
        return f"ended with {state.status}"
    return "has not started either" if state.started is None else "still runs"


def started_at() -> Callable[[], float]:
    """A clock that counts seconds from now."""
    began = time.monotonic()
    return lambda: time.monotonic() - began
