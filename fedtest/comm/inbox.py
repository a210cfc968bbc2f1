"""Receiving from one rank: a thread that has one header's receive posted at Gloo at all times.

Because each rank has its own thread, parts of two senders never mix, a receive
that timed out has lost nothing, and a connection that closes is noticed
whoever is being waited for.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from fedtest.comm import short, wire
from fedtest.comm.codes import DTYPES, MessageCode, message_code
from fedtest.comm.errors import CommError, PackageError
from fedtest.comm.outbox import FOREVER, TAG
from fedtest.comm.outgoing import EAGER_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedtest.comm.arrivals import Arrivals

AHEAD = 64  # packages that are read before anybody asks, per rank
AHEAD_BYTES = 4 << 20  # of content, in such packages

MARGIN = 0 if short.EXACT else 64  # numbers, beyond what is due


class Received(NamedTuple):
    """A package that has come whole; `content` is None if it has no tensor."""

    sender: int
    code: MessageCode
    content: list[torch.Tensor] | None
    volume: int  # bytes of content


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
        self._first = short.memory()
        self._first_buffer = torch.frombuffer(self._first, dtype=torch.uint8)
        self._next: Any = None  # the receive of a first message, posted ahead

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
            except Exception as error:  # noqa: BLE001 - or who waits would wait for the time-out
                memory = isinstance(error, (MemoryError, OSError))
                why = "does not fit into memory" if memory else f"could not be read: {error!r}"
                wrong = PackageError(f"a package of rank {self.peer} {why}")
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
        work, self._next = self._next or self._post(self._first_buffer), None
        work.wait(FOREVER)
        try:
            header, rest = short.take(self._first)
        except PackageError as error:
            raise PackageError(f"rank {self.peer} sent {error}") from None
        wrong = self._check(header)
        code = MessageCode.ParameterRequest if wrong else message_code(header.code)
        if rest is not None:
            self._post_ahead()
            tensors, volume = self._of_short(header, rest)
            return wrong or Received(self.peer, code, tensors, volume)
        if not header.length:
            return wrong or Received(self.peer, code, None, 0)
        self.part = "slices"
        layout, volume = self._check_slices(header, self._slices(header.length))
        self.part = "content"
        if volume > EAGER_BYTES and not self._arrivals.wait_for_grant(self):
            return None
        large = volume > EAGER_BYTES
        allocate = self._arrivals.allocate if large else self._arrivals.memory.empty
        content = allocate(layout.total, DTYPES[header.dtype])
        work = self._post(content)
        self._post_ahead()
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

    def _of_short(self, header: wire.Header, rest: bytearray) -> tuple[list[torch.Tensor], int]:
        """Tensors and bytes of a package whose slices and content came with its header."""
        sent = f"rank {self.peer} sent {len(rest)} bytes with a header of {header.length} numbers"
        if not header.length:
            raise PackageError(sent)
        start = header.length * 4
        layout, volume = self._check_slices(header, array("i", rest[:start]))
        if len(rest) - start - volume not in range(4):
            raise PackageError(f"{sent} of slices, which are of {volume} bytes of content")
        content = self._arrivals.memory.empty(layout.total, DTYPES[header.dtype])
        if volume:
            came = torch.frombuffer(rest, dtype=torch.uint8, offset=start, count=volume)
            content.view(torch.uint8).copy_(came)
        return wire.views(content, layout), volume

    def _check_slices(self, header: wire.Header, slices: Sequence[int]) -> tuple[wire.Layout, int]:
        """What they describe, and its bytes."""
        try:
            layout = wire.check_slices(slices)
            return layout, wire.check_size(layout, header.dtype, self._arrivals.limit)
        except PackageError as error:
            raise PackageError(f"slices of rank {self.peer}: {error}") from error

    def _slices(self, count: int) -> list[int]:
        memory = bytearray(wire.UNSET_BYTES * (count + MARGIN))
        self._post(torch.frombuffer(memory, dtype=torch.int32)).wait(FOREVER)
        numbers: list[int] = memoryview(memory).cast("i").tolist()
        if wire.UNSET in numbers[:count]:
            raise PackageError(f"rank {self.peer} sent fewer than {count} numbers as slices")
        if numbers.count(wire.UNSET) != MARGIN:
            raise PackageError(f"rank {self.peer} sent more than {count} numbers as slices")
        return numbers[:count]

    def _post_ahead(self) -> None:
        """What comes next is a header in any case: so its way is not waited for twice."""
        if self._arrivals.ahead:
            try:
                self._next = self._post(self._first_buffer)
            except RuntimeError:
                # The sender has closed. That is for the next read to say: this package is here.
                self._next = None

    def _post(self, buffer: torch.Tensor) -> Any:
        group = self._arrivals.group
        if group is None:
            raise RuntimeError("the network is closed")
        return group.recv([buffer], self.peer, TAG)
