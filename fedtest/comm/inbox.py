"""Receiving from one rank: a thread that has one header's receive posted at Gloo at all times.

Because each rank has its own thread, parts of two senders never mix, a receive
that timed out has lost nothing, and a connection that closes is noticed
whoever is being waited for.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from os import environ
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from fedtest.comm import wire
from fedtest.comm.codes import DTYPES, MessageCode, message_code
from fedtest.comm.errors import CommError, PackageError
from fedtest.comm.outbox import FOREVER, TAG
from fedtest.comm.outgoing import EAGER_BYTES

if TYPE_CHECKING:
    from fedtest.comm.arrivals import Arrivals

AHEAD = 64  # packages that are read before anybody asks, per rank
AHEAD_BYTES = 4 << 20  # of content, in such packages

# A message longer than the buffer posted for it ends the process, within Gloo.
# Buffers that are longer than what is due take that, and show it; the libuv
# transport of Gloo (not Linux's default) wants them exact.
EXACT = not sys.platform.startswith("linux") or environ.get("GLOO_DEVICE_TRANSPORT", "TCP") != "TCP"
MARGIN = 0 if EXACT else 64  # numbers


class Received(NamedTuple):
    """A package that has come whole; `content` is None if it has no tensor."""

    sender: int
    code: MessageCode
    content: list[torch.Tensor] | None
    volume: int  # bytes of content


class _Numbers(NamedTuple):
    """A receive of numbers that is posted, and the memory for them, all UNSET before."""

    memory: bytearray
    work: Any


class Inbox:
    """What has come from one rank. Attributes are read and written under the lock of Arrivals."""

    def __init__(self, arrivals: Arrivals, peer: int) -> None:
        self.peer = peer
        self.ready: deque[Received | PackageError] = deque()
        self.ready_bytes = 0
        self.queued = False  # in the arrivals' order
        self.wanted = False  # somebody asks for a package
        self.reading = False  # a header's receive is posted, or what follows
        self.offered = False  # a large content waits to be asked for
        self.granted = False  # and is being taken
        self.part = "header"  # what is waited for
        self.failure: CommError | None = None  # nothing more will come
        self.go = threading.Condition(arrivals.lock)
        self.thread: threading.Thread | None = None
        self._arrivals = arrivals
        self._next: _Numbers | None = None  # a header's receive, posted ahead

    def start(self) -> None:
        self.thread = threading.Thread(
            target=self._run, name=f"fedtest.comm from {self.peer}", daemon=True
        )
        self.thread.start()

    def room(self) -> bool:
        """Whether another package may be read now."""
        if not self._arrivals.ahead and not self.wanted:
            return False
        return len(self.ready) < AHEAD and self.ready_bytes < AHEAD_BYTES

    def _run(self) -> None:
        arrivals = self._arrivals
        more = arrivals.may_read(self)
        while more:
            try:
                item = self._read()
            except PackageError as error:
                error.peer = self.peer
                arrivals.failed(self, error)
            except RuntimeError as error:
                if not arrivals.closing:
                    arrivals.failed(self, arrivals.explain(self.peer, error))
            except (MemoryError, OSError) as error:
                wrong = PackageError(f"a package of rank {self.peer} does not fit into memory")
                wrong.__cause__ = error
                arrivals.failed(self, wrong)
            else:
                if item is not None:
                    arrivals.deliver(self, item)
                    del item  # it is the caller's, and so is when its memory is free
                    more = arrivals.may_read(self)
                    continue
            return

    def _read(self) -> Received | PackageError | None:
        """The next package, or what is wrong with it if the next can still be found after it."""
        posted, self._next = self._next or self._post_header(), None
        header = wire.Header(*self._numbers(posted, wire.HEADER_SIZE, "header"))
        wrong = self._check(header)
        code = MessageCode.ParameterRequest if wrong else message_code(header.code)
        if not header.length:
            return wrong or Received(self.peer, code, None, 0)
        self.part = "slices"
        slices = self._numbers(self._post_numbers(header.length), header.length, "slices")
        try:
            layout = wire.check_slices(slices)
            volume = wire.check_size(layout, header.dtype, self._arrivals.limit)
        except PackageError as error:
            raise PackageError(f"slices of rank {self.peer}: {error}") from error
        self.part = "content"
        if volume > EAGER_BYTES and not self._arrivals.wait_for_grant(self):
            return None
        large = volume > EAGER_BYTES
        allocate = self._arrivals.allocate if large else self._arrivals.memory.empty
        content = allocate(layout.total, DTYPES[header.dtype])
        work = self._post(content)
        if self._arrivals.ahead:
            # What comes next is a header in any case; so its way is not waited for twice.
            self._next = self._post_header()
        tensors = wire.views(content, layout)  # while it is on its way
        work.wait(FOREVER)
        self.part = "header"
        return wrong or Received(self.peer, code, tensors, volume)

    def _check(self, header: wire.Header) -> PackageError | None:
        """Raises what makes the header useless; returns what only makes the package useless."""
        where = f"header {list(header)} of rank {self.peer}"
        mine = self._arrivals.rank
        if header.sender != self.peer:
            raise PackageError(f"{where}: it says that it is from rank {header.sender}")
        if header.receiver != mine:
            raise PackageError(f"{where}: it is for rank {header.receiver}, this is rank {mine}")
        try:
            wire.check_header(header._replace(code=0))
        except PackageError as error:
            raise PackageError(f"{where}: {error}") from error
        try:
            message_code(header.code)
        except PackageError as error:
            wrong = PackageError(f"{where}: {error}")
            wrong.peer = self.peer
            return wrong
        return None

    def _post_header(self) -> _Numbers:
        return self._post_numbers(wire.HEADER_SIZE)

    def _post_numbers(self, count: int) -> _Numbers:
        memory = bytearray(wire.UNSET_BYTES * (count + MARGIN))
        return _Numbers(memory, self._post(torch.frombuffer(memory, dtype=torch.int32)))

    def _numbers(self, posted: _Numbers, count: int, part: str) -> list[int]:
        posted.work.wait(FOREVER)
        numbers: list[int] = memoryview(posted.memory).cast("i").tolist()
        if wire.UNSET in numbers[:count]:
            raise PackageError(f"rank {self.peer} sent fewer than {count} numbers as {part}")
        if numbers.count(wire.UNSET) != MARGIN:
            raise PackageError(f"rank {self.peer} sent more than {count} numbers as {part}")
        return numbers[:count]

    def _post(self, buffer: torch.Tensor) -> Any:
        group = self._arrivals.group
        if group is None:
            raise RuntimeError("the network is closed")
        return group.recv([buffer], self.peer, TAG)
