"""What was measured while a run went: all that a check may look at."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.base import ProcessKey
    from fedtest.engine.examine import Examined
    from fedtest.engine.snapshot import Snapshot, TcpSocket
    from fedtest.links.counting import Counted
    from fedtest.plan import Plan, ProcessPlan
    from fedtest.run.fault_state import FaultState
    from fedtest.run.history import History
    from fedtest.run.logs import ProcessLog
    from fedtest.run.watch import LogWatch, Looking
    from fedtest.scenario.comparison import Comparison

_BEFORE = 3
_SHOWN = 500


@dataclass
class ProcessState:
    """One process: when it ran (seconds since the run began), how it ended, what it reported.

    `started` None: it has not been started. `earlier`: when it ran before it was started
    again, if it was. `asked`: when it was asked to end, while it ran, because the run was over.
    `values` has the last of each name, `reports` counts all; `rejected`: one could not be read.
    `watches` and `histories` are what checks want of lines and reports, filled as these come,
    `reached` has those reports that compare as asked for.
    """

    plan: ProcessPlan
    log: ProcessLog
    pid: int | None = None
    started: float | None = None
    ended: float | None = None
    status: int | None = None
    earlier: list[tuple[float, float]] = field(default_factory=list)
    asked: float | None = None
    values: dict[str, Any] = field(default_factory=dict)
    reports: int = 0
    rejected: bool = False
    sockets: set[TcpSocket] = field(default_factory=set)
    watches: dict[Looking, LogWatch] = field(default_factory=dict)
    histories: dict[str, History] = field(default_factory=dict)
    reached: dict[tuple[str, Comparison], History] = field(default_factory=dict)
    _lines: int = 0
    _recent: deque[str] = field(default_factory=lambda: deque(maxlen=_BEFORE))

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self.started is not None and self.ended is None

    def begin(self, pid: int, at: float) -> None:
        """It was started, for the first time or again."""
        if self.started is not None and self.ended is not None:
            self.earlier.append((self.started, self.ended))
            self.log.begin_again()
        self.pid, self.started = pid, at
        self.ended = self.status = None

    def first(self, state: str, start: float) -> float | None:
        """When it first was in a state that moments name, at `start` or later.

        With status 0 it can only have ended last: nobody starts it again then.
        """
        if state == "succeeded":
            times = [self.ended if self.status == 0 else None]
        else:
            number = 0 if state == "started" else 1
            times = [
                *(life[number] for life in self.earlier),
                self.started if state == "started" else self.ended,
            ]
        return next((at for at in times if at is not None and at >= start), None)

    def line(self, stream: str, text: str, at: float) -> None:
        """It printed a line."""
        if not self.watches:
            return
        self._lines += 1
        for watch in self.watches.values():
            watch.take(self._lines, stream, text, at, self._recent)
        self._recent.append(text[:_SHOWN])

    def report(self, name: str, value: Any, at: float) -> None:
        """It reported a value."""
        self.values[name] = value
        if name in self.histories:
            self.histories[name].take(value, at)
        for (wanted, comparison), history in self.reached.items():
            if wanted == name and comparison.holds(value):
                history.take(value, at)


PairKey = tuple[str, str, Literal["tx", "rx"], str]
"""A host, a network, sent or received, and the peer."""


@dataclass
class Evidence:
    """`before` and `after`: each host when all were ready, and when all processes had ended.

    `examined`: what was looked at from beside hosts. `faults`: what became of each, by id.
    `pairs`: what went between two hosts; `made_anew`: hosts that faults have restarted.
    """

    plan: Plan
    processes: dict[ProcessKey, ProcessState] = field(default_factory=dict)
    before: dict[str, Snapshot] = field(default_factory=dict)
    after: dict[str, Snapshot] = field(default_factory=dict)
    examined: dict[str, Examined] = field(default_factory=dict)
    faults: dict[str, FaultState] = field(default_factory=dict)
    pairs: dict[PairKey, Counted] = field(default_factory=dict)
    made_anew: set[str] = field(default_factory=set)
    _ours: set[tuple[str, int]] = field(default_factory=set)

    def looked_beside(self, examined: Mapping[str, Examined]) -> None:
        """Take in what was looked at from beside hosts."""
        self.examined.update(examined)
        self._ours |= {(host, port) for host, item in examined.items() for port in item.ports}

    def restarted(self, host: str, last: Snapshot, fresh: Snapshot) -> None:
        """A host was switched off and on: its counters go on from what they were before.

        `last`: as it was seen before; `fresh`: as it was read back after.
        """
        self.made_anew.add(host)
        old = self.before[host].interfaces
        interfaces = {}
        for name, now in fresh.interfaces.items():
            if name in old and name in last.interfaces:
                was, then = old[name], last.interfaces[name]
                interfaces[name] = replace(
                    now,
                    rx_bytes=now.rx_bytes - (then.rx_bytes - was.rx_bytes),
                    rx_packets=now.rx_packets - (then.rx_packets - was.rx_packets),
                    tx_bytes=now.tx_bytes - (then.tx_bytes - was.tx_bytes),
                    tx_packets=now.tx_packets - (then.tx_packets - was.tx_packets),
                )
        self.before[host] = replace(fresh, interfaces={**fresh.interfaces, **interfaces})
        # The last look was at the host before: of it and these nothing can be told.
        self.after[host] = fresh

    def saw(self, snapshots: Mapping[str, Snapshot]) -> None:
        """Take in the sockets of processes.

        A connection that was closed lives on without a holder for a minute: it
        was some process's of the host, so it counts for each that had started,
        unless it was made to try whether somebody can be reached.
        """
        for key, state in self.processes.items():
            if state.pid is not None and key.host in snapshots:
                state.sockets.update(
                    socket
                    for socket in snapshots[key.host].sockets
                    if socket.session == state.pid
                    or (
                        socket.session is None
                        and socket.state == "time-wait"
                        and (key.host, socket.local_port) not in self._ours
                    )
                )

    def starved(self, host: str) -> str:
        """In words, how many of a host's processes its memory limit has killed; "" if none."""
        before, after = self.before.get(host), self.after.get(host)
        kills = (after.oom_kills or 0) - (before.oom_kills or 0) if before and after else 0
        if kills <= 0:
            return ""
        limit = self.plan.host(host).limits.memory
        whose = f"its memory limit of {limit} bytes" if limit else "want of memory"
        return f" (the kernel killed {kills} process{'es' * (kills > 1)} there for {whose})"

    def of_process(self, name: str, host: str | None = None) -> dict[str, ProcessState]:
        """The process on each host that runs it (or on `host` alone), by host."""
        return {
            key.host: state
            for key, state in self.processes.items()
            if key.process == name and host in (None, key.host)
        }
