"""What happened, in the order in which the runner learned of it.

One consumer, the runner's own thread, numbers the events and writes them down;
threads of an engine only put them into the queue. Order across hosts is the
order of receipt: clocks of different hosts are not compared.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fedtest.run.artifacts import plain
from fedtest.run.secrets import Secrets

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from fedtest.engine.base import ProcessKey
    from fedtest.engine.examine import Examined
    from fedtest.engine.snapshot import Snapshot
    from fedtest.errors import FedtestError
    from fedtest.run.faults.step import Done

_BESIDE = 200
"""About as many bytes an item takes beside its data."""


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
    examined: dict[str, Examined]


Item: TypeAlias = "Output | Exited | Lost | Looked | Done"


class Inbox:
    """The one queue between the engine's threads and the runner; it is a `Sink`.

    Bounded, by what there is to read and not by items, so that a process that
    prints faster than its log is written waits for it, and nobody has to read
    for long to be up to date. Closed, it takes nothing more and nobody waits.
    """

    def __init__(self, size: int = 1 << 20) -> None:
        self._size = size
        self._items: deque[Item] = deque()
        self._weight = 0
        self._closed = False
        self._changed = threading.Condition()

    def output(self, key: ProcessKey, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self.put(Output(key, stream, data))

    def exited(self, key: ProcessKey, status: int) -> None:
        self.put(Exited(key, status))

    def lost(self, key: ProcessKey, error: FedtestError) -> None:
        self.put(Lost(key, error))

    def put(self, item: Item) -> None:
        """Hand over an item; waits while there is too much to read."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._weight < self._size)
            if not self._closed:
                self._items.append(item)
                self._weight += _weight(item)
                self._changed.notify_all()

    def get(self, timeout: float) -> Item | None:
        """The next item, or None after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, max(timeout, 0)):
                return None
            item = self._items.popleft()
            self._weight -= _weight(item)
            self._changed.notify_all()
            return item

    def waiting(self) -> int:
        """How many items there are to get without waiting."""
        return len(self._items)

    def close(self) -> None:
        """Take nothing more; what was taken can still be got."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _weight(item: Item) -> int:
    return _BESIDE + (len(item.data) if isinstance(item, Output) else 0)


class EventLog:
    """Numbers events and appends each to a file of JSON lines as it comes.

    Nothing that happens is to be stopped by an event that cannot be written:
    `error` says why not, and the run is told of it at its end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.error: OSError | None = None
        self.secrets = Secrets({})
        """What is not to be written."""
        self._file: FileIO | None = None
        self._lock = threading.Lock()

    def add(self, kind: str, host: str | None = None, **data: Any) -> None:
        """`data` is anything that `artifacts.plain` knows how to write."""
        # A host that a fault switched on is settled by the faults' thread.
        with self._lock:
            self._add(kind, host, data)

    def _add(self, kind: str, host: str | None, data: dict[str, Any]) -> None:
        self.count += 1
        line = {"seq": self.count, "time": datetime.now(UTC).isoformat(), "kind": kind}
        if host is not None:
            line["host"] = host
        if self.error is not None:
            return
        try:
            if self._file is None:
                self._file = self.path.open("ab", buffering=0)
            content = {**line, **self.secrets.masked(plain(data))}
            self._file.write(json.dumps(content, allow_nan=False).encode() + b"\n")
        except OSError as error:
            self.error = error

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
