"""MessageQueue: messages from one process to another; large tensors in memory that both see."""

from __future__ import annotations

import array
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from multiprocessing import context, reduction
from queue import Empty, Full
from typing import Any

import torch

from fedtest.comm.hierarchical import plain
from fedtest.comm.hierarchical.parcels import Parcel, unpack
from fedtest.comm.hierarchical.segments import Mapped, Segments

ITEMS = 64
"""Messages that may wait in a queue."""
BYTES = 256 << 20
"""And of how many bytes; a single larger one is let through."""

_INLINE = 32 << 10  # bytes of a message that need no segment
_RECEIVE = 2 * _INLINE
_ITEM, _SEGMENT, _DROP, _PLAIN = range(4)
_FORWARD = struct.Struct("=Bqqq")  # kind; segment of the copied bytes, or the one; two lengths
_RIGHTS = socket.CMSG_SPACE(array.array("i").itemsize)
_NEWS = 32  # messages after which news is read, though there is room
_TAKEN = -1
_BACK = struct.Struct("=q")  # a segment that a message is no longer in, or _TAKEN


class MessageQueue:
    """The queue of one process that puts to one that gets, with the calls of multiprocessing's.

    At most `items` messages and `limit` bytes wait in it; who puts more waits.
    What is put is pickled, but tensors are not: they cross in shared memory,
    and those from `empty` without a copy. What is got stays where it is until
    the last tensor of the message is gone.

    Both processes inherit it; then one calls `only_put`, the other `only_get`.
    The end of the other process is noticed: put raises BrokenPipeError, and
    get EOFError after the last message.
    """

    def __init__(self, items: int = ITEMS, limit: int = BYTES) -> None:
        self._start(items, limit, *socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))

    def _start(self, items: int, limit: int, puts: socket.socket, gets: socket.socket) -> None:
        self._items = items
        self._limit = limit
        self._puts = puts
        self._gets = gets
        for end in (puts, gets):
            end.setblocking(False)
        # Of the side that puts.
        self._putting = threading.Lock()
        self._segments = Segments(limit)
        self._waiting: deque[int] = deque()  # bytes of each message that was not taken yet
        self._waiting_bytes = 0
        # Of the side that gets.
        self._getting = threading.Lock()
        self._mapped = Mapped(self._back)
        self._owed: deque[int] = deque()  # what the other side is still to be told
        self._space = bytearray(_RECEIVE)
        self._comes = select.poll()
        self._comes.register(gets, select.POLLIN)

    def __getstate__(self) -> tuple[Any, ...]:
        context.assert_spawning(self)
        ends = [reduction.DupFd(end.fileno()) for end in (self._puts, self._gets)]
        return self._items, self._limit, *ends

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        items, limit, *ends = state
        self._start(items, limit, *(socket.socket(fileno=end.detach()) for end in ends))

    def only_put(self) -> None:
        """This process puts; the other one's end is noticed from now on."""
        self._gets.close()

    def only_get(self) -> None:
        """This process gets."""
        self._puts.close()

    def close(self) -> None:
        """This process has nothing more to do with it. What was put can still be got."""
        self._puts.close()
        self._gets.close()

    def empty(self, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """Memory for a tensor that is to be put: it crosses without a copy."""
        if self._putting.acquire(blocking=False):  # or who puts has the news
            try:
                self._news()
            except BrokenPipeError:
                pass  # put says so
            finally:
                self._putting.release()
        return self._segments.empty(elements, dtype)

    # The side that puts.

    def put(self, item: object, block: bool = True, timeout: float | None = None) -> None:
        """Raises queue.Full if there is no room within `timeout` seconds, BrokenPipeError."""
        deadline = _deadline(block, timeout)
        _acquire(self._putting, deadline, Full)
        try:
            self._put(item, deadline)
        finally:
            self._putting.release()

    def put_nowait(self, item: object) -> None:
        self.put(item, block=False)

    def _put(self, item: object, deadline: float | None) -> None:
        parts = plain.pack(item, _PLAIN, _INLINE)
        if parts is None:
            parcel = Parcel(item, self._segments)
            size = len(parcel.pickled) + parcel.shared_bytes + parcel.copied_bytes
        else:
            size = sum(memoryview(part).nbytes for part in parts)
        if parts is None or not len(self._waiting) % _NEWS or self._full(size):
            self._news()
        while self._full(size):
            self._wait(self._puts, select.POLLIN, deadline, Full)
            self._news()
        if parts is None:
            self._send(parcel, deadline)
        else:
            self._post(parts, deadline)
        self._waiting.append(size)
        self._waiting_bytes += size

    def _full(self, size: int) -> bool:
        waiting = len(self._waiting)
        return waiting >= self._items or (waiting > 0 and self._waiting_bytes + size > self._limit)

    def _send(self, parcel: Parcel, deadline: float | None) -> None:
        pickled, copied = parcel.pickled, parcel.copied_bytes
        if len(pickled) + copied <= _INLINE:
            space = bytearray(copied)
            if copied:
                parcel.copy_to(torch.frombuffer(space, dtype=torch.uint8).data_ptr())
            number, body = -1, [pickled, space]
        else:
            # The copies first, which have to lie as they are.
            segment, whole = self._segments.take(copied + len(pickled))
            parcel.copy_to(whole.data_ptr())
            whole[copied : copied + len(pickled)] = torch.frombuffer(pickled, dtype=torch.uint8)
            parcel.shared[segment.number] = segment
            number, body = segment.number, []
        for segment in parcel.shared.values():
            if segment.fd >= 0:
                head = _FORWARD.pack(_SEGMENT, segment.number, 0, 0)
                self._post([head], deadline, segment.fd)
                os.close(segment.fd)
                segment.fd = -1
        dropped = self._segments.dropped()
        while dropped:
            self._post([_FORWARD.pack(_DROP, dropped[0], 0, 0)], deadline)
            dropped.popleft()  # what could not be told is told with the next message
        self._post([_FORWARD.pack(_ITEM, number, len(pickled), copied), *body], deadline)
        for segment in parcel.shared.values():
            self._segments.sent(segment)

    def _post(self, parts: list[Any], deadline: float | None, fd: int = -1) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
        while True:
            try:
                self._puts.sendmsg(parts, rights)
            except BlockingIOError:
                self._wait(self._puts, select.POLLOUT, deadline, Full)
            except OSError as error:
                raise BrokenPipeError("the process at the other end has ended") from error
            else:
                return

    def _news(self) -> None:
        """What the other side has taken, and is done with."""
        while True:
            try:
                said = self._puts.recv(_BACK.size)
            except BlockingIOError:
                return
            except OSError as error:
                raise BrokenPipeError("the process at the other end has ended") from error
            if not said:
                raise BrokenPipeError("the process at the other end has ended")
            (number,) = _BACK.unpack(said)
            if number == _TAKEN:
                self._waiting_bytes -= self._waiting.popleft()
            else:
                self._segments.returned(number)

    # The side that gets.

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Raises queue.Empty if nothing comes within `timeout` seconds, EOFError."""
        deadline = _deadline(block, timeout)
        _acquire(self._getting, deadline, Empty)
        try:
            item = self._get(deadline)
        finally:
            self._getting.release()
        self._back(_TAKEN)
        return item

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def _get(self, deadline: float | None) -> Any:
        while True:
            length, rights = self._receive(deadline)
            if not length:
                raise EOFError("the process at the other end has ended")
            if self._space[0] == _PLAIN:
                return plain.unpack(self._space, length)
            kind, number, pickled, copied = _FORWARD.unpack_from(self._space)
            if kind == _SEGMENT:
                self._mapped.add(number, rights[0])
            elif kind == _DROP:
                self._mapped.drop(number)
            else:
                return self._unpacked(number, pickled, copied)

    def _unpacked(self, number: int, pickled: int, copied: int) -> Any:
        if number < 0:
            begin = _FORWARD.size + pickled
            words = memoryview(self._space)[_FORWARD.size : begin]
            space = self._space[begin : begin + copied]
            tensors = torch.frombuffer(space, dtype=torch.uint8) if copied else torch.empty(0)
            return unpack(words, tensors, self._mapped.tensor)
        whole = self._mapped.tensor(number)
        words = memoryview(whole[copied : copied + pickled].numpy())
        return unpack(words, whole, self._mapped.tensor)

    def _receive(self, deadline: float | None) -> tuple[int, list[int]]:
        again = True
        while True:
            left = None if deadline is None else max(0.0, 1000 * (deadline - time.monotonic()))
            if not self._comes.poll(left):
                raise Empty
            try:
                length, ancillary, _, _ = self._gets.recvmsg_into([self._space], _RIGHTS)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                # The other side ended with news unread; what it had put is still there.
                if not again:
                    return 0, []
                again = False
            else:
                if not ancillary:
                    return length, []
                rights = array.array("i")
                for _, _, data in ancillary:
                    rights.frombytes(data)
                return length, list(rights)

    def _back(self, number: int) -> None:
        """Tell the side that puts. Called from anywhere: a tensor's end is noticed anywhere."""
        self._owed.append(number)
        try:
            while self._owed:
                owed = self._owed.popleft()
                try:
                    self._gets.send(_BACK.pack(owed))
                except BlockingIOError:
                    self._owed.appendleft(owed)
                    return
        except (OSError, IndexError):
            return  # it has ended, or another thread has done it

    def _wait(
        self, end: socket.socket, event: int, deadline: float | None, late: type[Exception]
    ) -> None:
        """Until `end` is ready. The other side's end makes it ready, too."""
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise late
        poll = select.poll()
        poll.register(end, event)
        if not poll.poll(None if left is None else 1000 * left):
            raise late


def _acquire(lock: threading.Lock, deadline: float | None, late: type[Exception]) -> None:
    """Another thread that has it may wait longer than this one has said."""
    left = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
    if not lock.acquire(timeout=left):
        raise late


def _deadline(block: bool, timeout: float | None) -> float | None:
    if not block:
        return time.monotonic()
    return None if timeout is None else time.monotonic() + timeout
