"""What happened, in the order in which the runner learned of it.

One consumer, the runner's own thread, numbers the events and writes them down;
threads of an engine only put them into the queue. Order across hosts is the
order of receipt: clocks of different hosts are not compared.
"""

from __future__ import annotations

import json
import queue
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.engine.base import ProcessKey
    from fedtest.engine.snapshot import Snapshot
    from fedtest.errors import FedtestError

_PUT_POLL = 0.5


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of a process's output."""

    key: ProcessKey
    stream: Literal["stdout", "stderr"]
    data: bytes


@dataclass(frozen=True, slots=True)
class Exited:
    """A process ended; `status` as in `Sink.exited`."""

    key: ProcessKey
    status: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A process can no longer be watched."""

    key: ProcessKey
    error: FedtestError


@dataclass(frozen=True, slots=True)
class Looked:
    """Hosts were observed while processes ran."""

    snapshots: dict[str, Snapshot]


Item = Output | Exited | Lost | Looked


class Inbox:
    """The one queue between the engine's threads and the runner; it is a `Sink`.

    Bounded, so that a process that prints faster than its log is written waits
    for it. Closed, it takes nothing more and nobody waits.
    """

    def __init__(self, size: int = 1000) -> None:
        self._queue: queue.Queue[Item] = queue.Queue(size)
        self._closed = False

    def output(self, key: ProcessKey, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self.put(Output(key, stream, data))

    def exited(self, key: ProcessKey, status: int) -> None:
        self.put(Exited(key, status))

    def lost(self, key: ProcessKey, error: FedtestError) -> None:
        self.put(Lost(key, error))

    def put(self, item: Item) -> None:
        """Hand over an item; waits while the queue is full."""
        while not self._closed:
            try:
                self._queue.put(item, timeout=_PUT_POLL)
            except queue.Full:
                continue
            return

    def get(self, timeout: float) -> Item | None:
        """The next item, or None after `timeout` seconds."""
        try:
            return self._queue.get(timeout=max(timeout, 0))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Nobody will ask for items any more."""
        self._closed = True


@dataclass
class EventLog:
    """Numbers events and appends each to a file of JSON lines as it comes."""

    path: Path
    count: int = field(default=0, init=False)

    def add(self, kind: str, host: str | None = None, **data: Any) -> None:
        """`data` must be plain JSON."""
        self.count += 1
        line = {"seq": self.count, "time": datetime.now(UTC).isoformat(), "kind": kind}
        if host is not None:
            line["host"] = host
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, **data}) + "\n")
