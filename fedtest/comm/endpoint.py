"""One rank's end of a process group: an outbox for each other rank, and the arrivals."""

from __future__ import annotations

import logging
import os
import threading
import time
from datetime import timedelta
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any

import torch

from fedtest.comm.arrivals import Arrivals, alive
from fedtest.comm.errors import (
    ArgumentError,
    CommError,
    NotConnected,
    PeerError,
    PeerLost,
    one_line,
)
from fedtest.comm.heartbeat import Heartbeat
from fedtest.comm.memory import Memory
from fedtest.comm.outbox import Outbox

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Mapping, Sequence

    from fedtest.comm.inbox import Received
    from fedtest.comm.outgoing import Outgoing

log = logging.getLogger(__name__)

LEAVING = 5.0
"""Seconds that the end of a process waits for what is under way."""

_VERDICT = 2.0  # seconds for the heartbeat to tell a farewell from a death
_GRACE = 1.0  # seconds for what a dead rank had sent to be read
_CLOSING = 2.0  # seconds for threads to end when Gloo lets go of them
# Nothing is ever sent with it. Torch takes a tag modulo the number of interfaces to choose one of
# several; this is a multiple of all to 16, so its interface is the first, which TAG has as well.
_NO_TAG = 2900 * 720720


class Endpoint:
    """Sends and receives packages. All methods may be called from any thread."""

    def __init__(
        self,
        group: Any,
        *,
        limit: int,
        ahead: bool,
        links: Mapping[int, socket.socket] | None = None,
        heartbeat: float = 5.0,
        short: Collection[int] = (),
    ) -> None:
        self.group = group
        self.rank: int = group.rank()
        self.size: int = group.size()
        self.limit = limit
        self.memory = Memory()
        self.lost: dict[int, PeerLost] = {}
        self.closed = False
        self.ahead = ahead
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._outboxes: dict[int, Outbox] = {}
        self._short = short  # ranks that take the short form of a package
        self._heartbeat = Heartbeat(links, heartbeat, self._gone) if links else None
        self._arrivals = Arrivals(
            group,
            self.rank,
            self.size,
            limit=limit,
            ahead=ahead,
            memory=self.memory,
            explain=self._explain,
        )
        # Also at the end of a process of multiprocessing, where atexit is not heard.
        self._at_exit = Finalize(None, self.leave, exitpriority=10)

    @property
    def forked(self) -> bool:
        """Whether this is a fork of the process that joined: the connections are not its own."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raises ArgumentError in a fork. Asked where a call begins, not here again."""
        if self.forked:
            raise ArgumentError(
                "this process is a fork of the one that joined the group, which alone can use it"
            )

    def send(
        self, outgoing: Outgoing, destinations: Sequence[int], seconds: float, done: list[int]
    ) -> None:
        """Send to each of `destinations`; those that took it, or will, are put into `done`.

        Returns when all have taken it; a small package is under way by then.
        Raises the first PeerError after the last destination has been tried,
        with a note of the others.
        """
        deadline = time.monotonic() + seconds
        errors: list[PeerError] = []
        posted = []
        # A rank that there is not is told of before anything goes out to another.
        for peer, outbox in [(peer, self._outbox(peer)) for peer in destinations]:
            try:
                posted.append((outbox, peer, outbox.post(outgoing, deadline, seconds)))
            except PeerError as error:
                errors.append(error)
        for outbox, peer, sending in posted:
            try:
                if not outgoing.eager:
                    outbox.wait(sending, deadline, seconds)
                done.append(peer)
            except PeerError as error:
                errors.append(error)
        if errors:
            for other in errors[1:]:
                errors[0].add_note(str(other))
            raise errors[0]

    def receive_in(self, allocate: Callable[[int, torch.dtype], torch.Tensor]) -> None:
        """Large contents that come are put into what `allocate` gives."""
        self._arrivals.allocate = allocate

    def hand_over(self, take: Callable[[Received], bool]) -> bool:
        """See Arrivals."""
        return self._arrivals.hand_over(take)

    def receive(self, src: int | None, seconds: float) -> Received:
        """The next package from `src` or any rank. Raises PeerError or PackageError."""
        return self._arrivals.receive(src, seconds)

    def receive_each(self, sources: Sequence[int], seconds: float) -> list[Received]:
        """See Arrivals."""
        return self._arrivals.receive_each(sources, seconds)

    def close(self, seconds: float) -> None:
        """Wait until what is under way has left, then end all threads and connections.

        Raises the first PeerError of a rank that has not taken all, after everything
        else has been closed.
        """
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._at_exit.cancel()
            outboxes = dict(self._outboxes)
        deadline = time.monotonic() + seconds
        errors = []
        for peer, outbox in outboxes.items():
            try:
                if peer not in self.lost:
                    outbox.flush(deadline, seconds)
            except PeerError as error:
                errors.append(error)
            outbox.close()
        self._arrivals.close()
        if self._heartbeat is not None:
            self._heartbeat.close()
        self._release(list(outboxes.values()))
        self.memory.close()
        # With the group goes the store of rank 0, and its port is free for the next.
        outboxes.clear()
        self._outboxes.clear()
        self.group = self._arrivals.group = None
        if errors:
            for other in errors[1:]:
                errors[0].add_note(str(other))
            raise errors[0]

    def leave(self) -> None:
        """Close where nobody would hear of an error: in short time, and with a warning of it."""
        try:
            self.close(LEAVING)
        except CommError as error:
            log.warning("closing: %s", error)

    def _release(self, outboxes: Sequence[Outbox]) -> None:
        """Have Gloo let go of the threads that wait for messages, or for theirs to be taken.

        It does so when a wait of its own expires: that closes all connections
        of the group. A thread that comes out of such a wait while the interpreter
        ends would abort the process. One in the middle of a transfer from a dead
        rank stays; it does no harm, for nothing wakes it.
        """

        def waiting() -> list[threading.Thread]:
            return self._arrivals.waiting() + alive(outbox.thread for outbox in outboxes)

        for peer in (peer for peer in range(self.size) if peer != self.rank):
            if not waiting():
                return
            try:
                work = self.group.recv([torch.empty(1)], peer, _NO_TAG)
                work.wait(timedelta(milliseconds=1))
            except RuntimeError:
                continue  # that is what it is for
        deadline = time.monotonic() + _CLOSING
        for thread in waiting():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _outbox(self, peer: int) -> Outbox:
        if not 0 <= peer < self.size or peer == self.rank:
            raise ArgumentError(f"dst={peer}: this is rank {self.rank} of {self.size}")
        with self._lock:
            if self.closed:
                raise NotConnected("the network is closed")
            outbox = self._outboxes.get(peer)
            if outbox is None:
                takes = peer in self._short
                outbox = Outbox(self.group, self.rank, peer, self._explain, short=takes)
                self._outboxes[peer] = outbox
            return outbox

    def _explain(self, peer: int, error: Exception | None) -> PeerLost:
        """Why transfers with `peer` fail; `error` is what Gloo said."""
        if error is not None:
            # Its frames hold what Gloo works at, and so the store of rank 0 and its port.
            error.__traceback__ = None
        known = self.lost.get(peer)
        if known is None:
            closed: bool | None = None
            why = "its connection closed"
            if self._heartbeat is not None and peer in self._heartbeat:
                verdict = self._heartbeat.verdict(peer, _VERDICT)
                closed = verdict == ""
                why = "it has closed its network" if closed else verdict or why
            words = f" ({one_line(error)})" if error is not None and not closed else ""
            known = PeerLost(f"rank {peer} is gone: {why}{words}", peer, closed=closed)
            known.__cause__ = error
            known = self.lost.setdefault(peer, known)
        again = PeerLost(str(known), peer, closed=known.closed)
        again.__cause__ = known.__cause__
        return again

    def _gone(self, peer: int, why: str) -> None:
        """The heartbeat has found that `peer` is gone."""
        lost = self.lost.setdefault(
            peer, PeerLost(f"rank {peer} is gone: {why}", peer, closed=False)
        )
        with self._lock:
            outbox = self._outboxes.get(peer)
        if outbox is not None:
            outbox.fail()
        # What it had sent may still be on its way through Gloo.
        timer = threading.Timer(_GRACE, self._arrivals.fail, (peer, lost))
        timer.daemon = True
        timer.start()
