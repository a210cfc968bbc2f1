"""Sending to one rank: packages leave whole and in order, and nobody waits without an end."""

from __future__ import annotations

import threading
import time
from collections import deque
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from fedtest.comm.errors import NotConnected, PeerError, TransferTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.comm.outgoing import Outgoing

TAG = 0  # what FedLab's packages have
FOREVER = timedelta(days=365)
"""For Gloo's own waits: one that expires closes every connection of the group."""

UNDER_WAY_BYTES = 16 << 20  # of packages that are sent in the background, per rank
UNDER_WAY = 256  # such packages, per rank
BATCH = 32  # of them that are waited for at once
PARTS = ("header", "slices", "content")


class Sending:
    """A package that has been handed to Gloo. Its memory is kept until it is done."""

    def __init__(self, parts: list[Any], volume: int) -> None:
        self.parts = parts
        self.volume = volume
        self.works: list[Any] = []
        self.left = 0  # parts that have
        self.done = False

    @property
    def part(self) -> str:
        """What has not left yet, as far as it is known."""
        return PARTS[min(self.left, len(self.parts) - 1)]

    def end(self) -> None:
        """It has left: its memory is free."""
        self.done = True
        self.parts = []
        self.works = []


class Outbox:
    """Packages to one rank, in the order in which `post` was called."""

    def __init__(
        self,
        group: Any,
        rank: int,
        peer: int,
        explain: Callable[[int, Exception | None], PeerError],
        *,
        short: bool,
    ) -> None:
        self._group = group
        self._rank = rank
        self._peer = peer
        self._explain = explain
        self._short = short  # the rank takes the short form
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        self._work = threading.Condition(lock)  # for the thread that waits for Gloo
        self._idle = False  # that thread has nothing to wait for
        self._posted: deque[Sending] = deque()
        self._bytes = 0
        self.thread: threading.Thread | None = None  # waits for what is under way
        self._failed = False
        self._closing = False

    def post(self, outgoing: Outgoing, deadline: float, seconds: float) -> Sending:
        """Hand a package to Gloo, when there is room. Raises PeerError.

        `deadline` is a time of `time.monotonic`, `seconds` what it was made of.
        """
        parts = outgoing.messages(self._rank, self._peer, as_short=self._short)
        volume = outgoing.volume
        sending = Sending(parts, volume)
        error = None
        with self._changed:
            if outgoing.eager:
                self._wait_while(lambda: self._full(volume), deadline, seconds)
            self._check()
            try:
                for part in parts:
                    sending.works.append(self._group.send([part], self._peer, TAG))
            except RuntimeError as raised:
                self._failed = True
                self._changed.notify_all()
                error = raised
            else:
                self._posted.append(sending)
                self._bytes += volume
                if self.thread is None:
                    self._start()
                elif self._idle:
                    self._idle = False
                    self._work.notify()
        if error is not None:
            raise self._explain(self._peer, error) from error
        return sending

    def wait(self, sending: Sending, deadline: float, seconds: float) -> None:
        """Until `sending` has left. Raises PeerError.

        After a TransferTimeout it is still under way, and its memory in use.
        """
        with self._changed:
            self._wait_while(lambda: not sending.done, deadline, seconds, sending)

    def flush(self, deadline: float, seconds: float) -> None:
        """Until everything has left. Raises PeerError."""
        with self._changed:
            self._wait_while(lambda: bool(self._posted), deadline, seconds)

    def fail(self) -> None:
        """The rank is gone: whoever waits is told."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._work.notify()

    def _full(self, volume: int) -> bool:
        posted = len(self._posted)
        return posted >= UNDER_WAY or (posted > 0 and self._bytes + volume > UNDER_WAY_BYTES)

    def _check(self) -> None:
        if self._failed:
            raise self._explain(self._peer, None)
        if self._closing:
            raise NotConnected("the network is closed")

    def _wait_while(
        self,
        condition: Callable[[], bool],
        deadline: float,
        seconds: float,
        sending: Sending | None = None,
    ) -> None:
        while condition():
            self._check()
            left = deadline - time.monotonic()
            if left <= 0:
                part = (sending or self._posted[0]).part
                raise TransferTimeout(
                    f"sending to rank {self._peer}: it has not taken the {part} "
                    f"within {seconds:g} s",
                    self._peer,
                    seconds,
                    part,
                )
            self._changed.wait(left)

    def _start(self) -> None:
        self.thread = threading.Thread(
            target=self._run, name=f"fedtest.comm to {self._peer}", daemon=True
        )
        self.thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._posted:
                    if self._closing:
                        return
                    self._idle = True
                    self._work.wait()
                some = list(islice(self._posted, BATCH))
            try:
                _await(some)
            except RuntimeError as error:
                if not self._closing:
                    self._explain(self._peer, error)
                self.fail()
                return
            with self._changed:
                for sending in some:
                    self._bytes -= sending.volume
                    sending.end()
                    self._posted.popleft()
                self._changed.notify_all()


def _await(some: list[Sending]) -> None:
    """Until all have left. Raises RuntimeError.

    Messages leave in order, so the last of several stands for all: each wait
    makes the interpreter change threads, while the sender makes the next package.
    """
    if len(some) > 1:
        some[-1].works[-1].wait(FOREVER)
        return
    for work in some[0].works:
        work.wait(FOREVER)
        some[0].left += 1
