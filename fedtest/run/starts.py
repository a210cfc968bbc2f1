"""Starts processes when what they wait for has happened, and again when somebody asks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtest.run.checks.moments import describe, first_of, happened, states_of
from fedtest.run.clockwork import NEVER, Follower
from fedtest.run.events import Exited, Looked, Lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fedtest.engine.base import Engine, ProcessKey, RunTag
    from fedtest.engine.snapshot import Snapshot
    from fedtest.run.events import EventLog, Inbox, Item
    from fedtest.run.evidence import Evidence, ProcessState
    from fedtest.scenario.processes import Condition

_DEADLINE = 60.0
_LOOKS = 2
"""So many looks after the last process of a host ended, one was begun after its end."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A process that has not started, and for what; `whom`: those it waits for."""

    key: ProcessKey
    condition: Condition
    whom: tuple[ProcessKey, ...]

    @property
    def what(self) -> str:
        """What it waits for, in words."""
        if self.condition.port is not None:
            return f"something listens on port {self.condition.port} of {self.condition.host}"
        return describe(self.condition)


class Starts(Follower):
    """Who has not started yet, and why. It is the only one that starts processes."""

    def __init__(  # noqa: PLR0917 - it is made in one place
        self,
        engine: Engine,
        run: RunTag,
        evidence: Evidence,
        inbox: Inbox,
        events: EventLog,
        clock: Callable[[], float],
        returns: Callable[[ProcessKey], bool],
        tell: Callable[[ProcessKey], None],
    ) -> None:
        self._engine = engine
        self._run = run
        self._evidence = evidence
        self._inbox = inbox
        self._events = events
        self._clock = clock
        self._returns = returns
        self._tell = tell
        self._met: set[Condition] = set()
        self._listening: set[tuple[str, int]] = set()
        self._looks: dict[str, int] = defaultdict(int)
        """How often a host was looked at since a process on it started or ended."""
        self._vain: list[Wait] | None = None

    def waiting(self) -> list[ProcessKey]:
        """Those that have not started."""
        return [key for key, state in self._evidence.processes.items() if state.started is None]

    def begin(self) -> None:
        """Start all that wait for nothing; what others wait for is told in the events."""
        self.wake(self._clock())
        for key in self.waiting():
            for wait in self.unmet(key):
                self._events.add("waiting", key.host, process=key.process, until=wait.what)

    def taken(self, item: Item) -> None:
        match item:
            case Looked(snapshots):
                self._vain = None
                self._looked(snapshots)
            case Exited(key) | Lost(key):
                self._vain = None
                self._looks[key.host] = 0

    def wake(self, now: float) -> float:
        """Start those whose conditions hold, and then those that waited for these."""
        del now
        while waiting := self.waiting():
            states = self._evidence.processes
            conditions = {item for key in waiting for item in states[key].plan.after}
            self._met |= {item for item in conditions - self._met if self._happened(item)}
            ready = [key for key in waiting if self._met.issuperset(states[key].plan.after)]
            if not ready:
                break
            self._start(ready)
        return NEVER

    def start_again(self, key: ProcessKey) -> None:
        """Start a process that has ended, as it was started before; its log goes on."""
        self._start([key])

    def vain(self) -> list[Wait]:
        """What is waited for that cannot happen any more; `whom` is to blame."""
        if self._vain is None:
            self._vain = [
                Wait(wait.key, wait.condition, gone)
                for key in self.waiting()
                for wait in self.unmet(key)
                if (gone := self._gone(wait))
            ]
        return self._vain

    def unmet(self, key: ProcessKey) -> list[Wait]:
        """What a process waits for."""
        return [
            Wait(key, condition, tuple(states_of(condition, self._evidence)))
            for condition in self._evidence.processes[key].plan.after
            if condition not in self._met and not self._happened(condition)
        ]

    def _start(self, keys: Iterable[ProcessKey]) -> None:
        plans = [self._evidence.processes[key].plan for key in keys]
        pids = self._engine.start(self._run, plans, self._inbox, _DEADLINE)
        self._vain = None
        now = self._clock()  # One for all, so that one deadline is one moment.
        cold = self._engine.cold_starts()
        for key, pid in pids.items():
            self._evidence.processes[key].begin(pid, now)
            self._looks[key.host] = 0
            why = {"cold": cold[key]} if key in cold else {}
            self._events.add("started", key.host, process=key.process, pid=pid, **why)
            self._tell(key)

    def _looked(self, snapshots: dict[str, Snapshot]) -> None:
        for host, found in snapshots.items():
            self._looks[host] += 1
            self._listening |= {
                (host, item.local_port) for item in found.sockets if item.state == "listen"
            }

    def _happened(self, condition: Condition) -> bool:
        if condition.port is not None:
            return (condition.host, condition.port) in self._listening
        times = happened(condition, self._evidence)
        return bool(times) and None not in times.values()

    def _gone(self, wait: Wait) -> tuple[ProcessKey, ...]:
        """Those because of whom it cannot happen any more; none while it can."""
        condition, states = wait.condition, self._evidence.processes
        if condition.port is not None and self._looks[condition.host or ""] < _LOOKS:
            return ()
        gone = tuple(
            key
            for key in wait.whom
            if _cannot_any_more(condition, states[key]) and not self._returns(key)
        )
        any_will_do = condition.process is None and condition.state is None
        return () if any_will_do and len(gone) < len(wait.whom) else gone


def _cannot_any_more(condition: Condition, state: ProcessState) -> bool:
    """Whether it ended without that; of one that has not started, that is not yet known."""
    if state.ended is None:
        return False
    return condition.port is not None or first_of(condition, state) is None
