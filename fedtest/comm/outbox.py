"""Sending to one rank: packages leave whole and in order, and nobody waits without an end."""

from __future__ import annotations

import threading
import time
from collections import deque
from datetime import timedelta
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
PARTS = ("header", "slices", "content")


class Sending:
    """A package that has been handed to Gloo. Its memory is kept until it is done."""

    def __init__(self, outgoing: Outgoing, parts: list[Any]) -> None:
        self.outgoing = outgoing
        self.parts = parts
        self.works: deque[Any] = deque()
        self.done = False

    @property
    def part(self) -> str:
        """What has not left yet."""
        return PARTS[len(self.parts) - max(1, len(self.works))]


class Outbox:
    """Packages to one rank, in the order in which `post` was called."""

    def __init__(
        self,
        group: Any,
        rank: int,
        peer: int,
        explain: Callable[[int, Exception | None], PeerError],
    ) -> None:
        self._group = group
        self._rank = rank
        self._peer = peer
        self._explain = explain
        self._changed = threading.Condition()
        self._posted: deque[Sending] = deque()
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._failed = False
        self._closing = False

    def post(self, outgoing: Outgoing, deadline: float, seconds: float) -> Sending:
        """Hand a package to Gloo, when there is room. Raises PeerError.

        `deadline` is a time of `time.monotonic`, `seconds` what it was made of.
        """
        parts = [outgoing.header(self._rank, self._peer)]
        if outgoing.slices is not None:
            parts += [outgoing.slices, outgoing.content]
        sending = Sending(outgoing, parts)
        volume = outgoing.volume
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
                if self._thread is None:
                    self._start()
                elif len(self._posted) == 1:
                    self._changed.notify_all()
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
        self._thread = threading.Thread(
            target=self._run, name=f"fedtest.comm to {self._peer}", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._posted:
                    if self._closing:
                        return
                    self._changed.wait()
                some = list(self._posted)
            try:
                for sending in some:
                    while sending.works:
                        sending.works[0].wait(FOREVER)
                        sending.works.popleft()
            except RuntimeError as error:
                if not self._closing:
                    self._explain(self._peer, error)
                self.fail()
                return
            with self._changed:
                for sending in some:
                    sending.done = True
                    self._posted.popleft()
                    self._bytes -= sending.outgoing.volume
                self._changed.notify_all()
