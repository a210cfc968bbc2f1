"""Receiving from all ranks: who gets which package, and who is told that a rank is gone."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from fedtest.comm.errors import (
    ArgumentError,
    CommError,
    NotConnected,
    PackageError,
    PeerLost,
    TransferTimeout,
)
from fedtest.comm.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import torch

    from fedtest.comm.inbox import Received
    from fedtest.comm.memory import Memory


class Arrivals:
    """The inboxes of a group.

    `ahead`: packages are read as they come, small ones before anybody asks.
    Without it a receive is posted at Gloo only for a call, so that who uses
    the group without this library as well loses no message to it.
    """

    def __init__(
        self,
        group: Any,
        rank: int,
        size: int,
        *,
        limit: int,
        ahead: bool,
        memory: Memory,
        explain: Callable[[int, Exception | None], CommError],
    ) -> None:
        self.group = group
        self.rank = rank
        self.limit = limit  # bytes of content of one package
        self.ahead = ahead
        self.memory = memory  # for contents
        self.explain = explain
        self.allocate: Callable[[int, torch.dtype], torch.Tensor] = memory.empty  # for large ones
        self.lock = threading.Lock()
        self.closing = False
        self.take: Callable[[Received], bool] | None = None  # see hand_over
        self._arrived = threading.Condition(self.lock)
        self._inboxes = {peer: Inbox(self, peer) for peer in range(size) if peer != rank}
        self._order: deque[Inbox] = deque()  # those with a package, each once
        self._news: deque[Inbox] = deque()  # failed, and nobody was told yet
        self._receiving: set[int | None] = set()
        self._held = 0  # packages that a receive from several has, and may put back
        if ahead:
            for inbox in self._inboxes.values():
                inbox.start()

    # What callers do.

    def receive(self, src: int | None, seconds: float) -> Received:
        """The next package from `src`, or from any rank. Raises PeerError or PackageError."""
        return self.receive_each([src], seconds)[0]

    def receive_each(self, sources: Sequence[int | None], seconds: float) -> list[Received]:
        """The next package from each of `sources`: all of them within `seconds`, or none is taken.

        Raises PeerError or PackageError.
        """
        deadline = time.monotonic() + seconds
        for src in sources:
            if src is not None and src not in self._inboxes:
                size = len(self._inboxes) + 1
                raise ArgumentError(f"src={src}: this is rank {self.rank} of {size}")
        if sources and not self._inboxes:
            raise ArgumentError("there is no other rank to receive from")
        received: list[Received] = []
        with self.lock:
            claimed = set(sources)
            self._claim(claimed)
            try:
                for src in sources:
                    received.append(self._next(src, seconds, deadline))
                    self._held += 1
            except BaseException:
                self._put_back(received)
                raise
            finally:
                self._held -= len(received)
                self._receiving -= claimed
        return received

    def hand_over(self, take: Callable[[Received], bool]) -> bool:
        """From now on `take` is called with each package, in the thread that has read it.

        Those for which it returns true are put where `receive` finds them
        afterwards, and so is what is wrong with a package. A receive is still
        what lets a large content come. False if there are packages that have to
        be received first, so that none overtakes another; then nothing is changed.
        """
        with self.lock:
            if self._held or any(inbox.ready for inbox in self._inboxes.values()):
                return False
            self.take = take
            return True

    def fail(self, peer: int, error: CommError) -> None:
        """The rank is gone, though Gloo may not have noticed."""
        self.failed(self._inboxes[peer], error)

    def close(self) -> None:
        """Whoever waits is told. Threads that Gloo holds go on waiting."""
        with self.lock:
            self.closing = True
            self._arrived.notify_all()
            for inbox in self._inboxes.values():
                inbox.go.notify_all()

    def waiting(self) -> list[threading.Thread]:
        """Threads that wait, for messages that may never come."""
        return alive(inbox.thread for inbox in self._inboxes.values())

    # What the threads of the inboxes do.

    def may_read(self, inbox: Inbox) -> bool:
        """Wait until another package may be read; false if none ever may."""
        with self.lock:
            while not self.closing and inbox.failure is None:
                if inbox.room():
                    inbox.wanted = False
                    inbox.reading = True
                    return True
                inbox.go.wait()
            return False

    def wait_for_grant(self, inbox: Inbox) -> bool:
        """Wait until somebody asks for the large content that comes next."""
        with self.lock:
            inbox.offered = True
            self._arrived.notify_all()
            while not self.closing and inbox.failure is None:
                if inbox.granted:
                    return True
                inbox.go.wait()
            return False

    def deliver(self, inbox: Inbox, item: Received | PackageError) -> None:
        with self.lock:
            take = self.take
            if take is None or isinstance(item, PackageError) or inbox.failure is not None:
                self._put(inbox, item)
                return
        also = take(item)
        with self.lock:
            if also:
                self._put(inbox, item)
                return
            inbox.reading = False
            if inbox.granted:
                inbox.offered = inbox.granted = False
                self._arrived.notify_all()  # another one's turn

    def failed(self, inbox: Inbox, error: CommError) -> None:
        with self.lock:
            if inbox.failure is None:
                inbox.failure = error
                inbox.offered = inbox.granted = False
                # One that may have closed in order is no news to who waits for others.
                if not (isinstance(error, PeerLost) and error.closed is not False):
                    self._news.append(inbox)
                inbox.go.notify_all()
                self._arrived.notify_all()

    # Under the lock.

    def _claim(self, sources: set[int | None]) -> None:
        any_rank = None in self._receiving or None in sources
        if sources & self._receiving or (any_rank and sources and self._receiving):
            ranks = ", ".join("any rank" if r is None else f"rank {r}" for r in self._receiving)
            raise ArgumentError(
                f"another thread is receiving from {ranks}: "
                "two receives at once must be from two ranks"
            )
        self._receiving |= sources

    def _next(self, src: int | None, seconds: float, deadline: float) -> Received:
        """What `src` sent, as soon as it is there; `deadline` is that of a call of `seconds`."""
        while True:
            if self.closing:
                raise NotConnected("the network is closed")
            item = self._take(src)
            if isinstance(item, PackageError):
                raise item
            if item is not None:
                return item
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._timeout(src, seconds)
            self._arrived.wait(left)

    def _put_back(self, received: Sequence[Received]) -> None:
        """They are the next of their ranks again."""
        for item in reversed(received):
            inbox = self._inboxes[item.sender]
            inbox.ready.appendleft(item)
            self._queue(inbox, item.volume)

    def _take(self, src: int | None) -> Received | PackageError | None:
        inboxes = list(self._inboxes.values()) if src is None else [self._inboxes[src]]
        inbox = self._any_ready() if src is None else inboxes[0]
        if inbox is not None and inbox.ready:
            item = inbox.ready.popleft()
            if not isinstance(item, PackageError):
                inbox.ready_bytes -= item.volume
            inbox.go.notify()
            return item
        if src is None:
            self._raise_news(inboxes)
        elif inboxes[0].failure is not None:
            raise _again(inboxes[0].failure)
        if not self.ahead:
            self._ask(inboxes)
        if not any(inbox.granted for inbox in inboxes):
            for inbox in inboxes:
                if inbox.offered:
                    inbox.granted = True
                    inbox.go.notify()
                    break
        return None

    def _put(self, inbox: Inbox, item: Received | PackageError) -> None:
        inbox.offered = inbox.granted = inbox.reading = False
        if inbox.failure is not None:
            return
        inbox.ready.append(item)
        self._queue(inbox, 0 if isinstance(item, PackageError) else item.volume)

    def _queue(self, inbox: Inbox, volume: int) -> None:
        inbox.ready_bytes += volume
        if not inbox.queued:
            inbox.queued = True
            self._order.append(inbox)
        self._arrived.notify_all()

    def _any_ready(self) -> Inbox | None:
        """The inbox whose turn it is: each with packages has one in turn."""
        while self._order:
            inbox = self._order.popleft()
            if inbox.ready:
                if len(inbox.ready) > 1:
                    self._order.append(inbox)
                else:
                    inbox.queued = False
                return inbox
            inbox.queued = False
        return None

    def _raise_news(self, inboxes: list[Inbox]) -> None:
        """Tell of each lost rank once; and each time if there is no other."""
        if self._news:
            raise _again(self._news.popleft().failure)
        if all(inbox.failure is not None for inbox in inboxes):
            raise _again(inboxes[-1].failure, "; no other rank is left")

    def _ask(self, inboxes: list[Inbox]) -> None:
        for inbox in inboxes:
            if not inbox.wanted and not inbox.reading and inbox.failure is None:
                inbox.wanted = True
                if inbox.thread is None:
                    inbox.start()
                inbox.go.notify()

    def _timeout(self, src: int | None, seconds: float) -> TransferTimeout:
        inboxes = [inbox for inbox in self._inboxes.values() if src in (None, inbox.peer)]
        late = [inbox for inbox in inboxes if inbox.part != "header" and inbox.failure is None]
        part = late[0].part if late else "header"
        peer = late[0].peer if late else (-1 if src is None else src)
        who = "any rank" if peer < 0 else f"rank {peer}"
        gone = [str(inbox.peer) for inbox in inboxes if inbox.failure is not None]
        more = f"; nothing more comes from rank {', '.join(gone)}" if gone else ""
        return TransferTimeout(
            f"receiving from {who}: waited {seconds:g} s for the {part}{more}", peer, seconds, part
        )


def alive(threads: Iterable[threading.Thread | None]) -> list[threading.Thread]:
    return [thread for thread in threads if thread is not None and thread.is_alive()]


def _again(error: CommError | None, more: str = "") -> CommError:
    """The same error, for another who is told of it."""
    assert error is not None  # noqa: S101 - for the type checker
    if isinstance(error, PeerLost):
        new: CommError = PeerLost(f"{error}{more}", error.peer, closed=error.closed)
    else:
        new = PackageError(f"{error}{more}")
        new.peer = getattr(error, "peer", None)
    new.__cause__ = error.__cause__
    return new
