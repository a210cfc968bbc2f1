"""Noticing within seconds that another rank is gone, which Gloo does not do in a transfer.

Beside Gloo's connections there is one of our own between every two ranks, over
the same interface, on which nothing is said but a farewell. Its being there is
the sign of life: if a process ends in whatever way, its kernel closes it; if a
machine or the way to it is gone, TCP's own keep-alive, which the kernels do by
themselves, ends it. So it costs nothing, and neither a busy interpreter nor a
paused process is taken for a dead one.
"""

from __future__ import annotations

import errno
import secrets
import selectors
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_HELLO = struct.Struct("!16si")  # the secret of the listener, the rank that connects
_FAREWELL = b"!"
_PATIENCE = 2.0  # seconds for a hello, from whoever connects
# What a kernel says that has given up on the other end, or on its own way there; which one
# depends on whether it still knows the other's link-layer address at that moment.
_UNANSWERED = {
    errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN
}  # fmt: skip


class Listener:
    """Where the ranks above this one connect to."""

    def __init__(self, address: str) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.bind((address, 0))
        self._socket.listen(1024)
        self.secret = secrets.token_bytes(16)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]

    def accept(self, peers: Iterable[int], deadline: float) -> dict[int, socket.socket]:
        """A connection from each of `peers`. Raises TimeoutError that says whose is missing."""
        missing = set(peers)
        found: dict[int, socket.socket] = {}
        while missing:
            left = deadline - time.monotonic()
            try:
                self._socket.settimeout(max(left, 0.001))
                link, _ = self._socket.accept()
                link.settimeout(max(0.001, min(left, _PATIENCE)))
                hello = _HELLO.unpack(_exactly(link, _HELLO.size))
            except TimeoutError as error:
                if deadline - time.monotonic() > 0:
                    continue  # somebody who connects and is silent
                ranks = ", ".join(map(str, sorted(missing)))
                raise TimeoutError(f"no heartbeat connection from rank {ranks}") from error
            except OSError:
                continue
            if hello[0] == self.secret and hello[1] in missing:
                link.sendall(self.secret)
                missing.discard(hello[1])
                found[hello[1]] = link
            else:
                link.close()
        return found

    def close(self) -> None:
        self._socket.close()


def connect(
    rank: int, own: str, to: tuple[str, int], secret: bytes, deadline: float
) -> socket.socket:
    """This rank's connection to the listener of a lower one. Raises OSError."""
    left = max(0.001, deadline - time.monotonic())
    link = socket.create_connection(to, timeout=left, source_address=(own, 0))
    link.sendall(_HELLO.pack(secret, rank))
    if _exactly(link, len(secret)) != secret:
        link.close()
        raise OSError("another program answers there")
    return link


class Heartbeat:
    """The connections to other ranks, watched.

    `gone` is called once for each rank that is lost, with why, from a thread of
    its own. A rank that says farewell is not lost.
    """

    def __init__(
        self,
        links: Mapping[int, socket.socket],
        seconds: float,
        gone: Callable[[int, str], None],
    ) -> None:
        self._links = dict(links)
        self._seconds = seconds
        self._gone = gone
        self._verdicts: dict[int, str] = {}  # "" after a farewell
        self._changed = threading.Condition()
        self._closed = False
        self._selector = selectors.DefaultSelector()
        self._waker, wake = socket.socketpair()
        self._selector.register(wake, selectors.EVENT_READ, None)
        self._wake = wake
        for peer, link in self._links.items():
            _keep_alive(link, seconds)
            link.setblocking(False)
            self._selector.register(link, selectors.EVENT_READ, peer)
        self._thread = threading.Thread(
            target=self._run, name="fedtest.comm heartbeat", daemon=True
        )
        self._thread.start()

    def __contains__(self, peer: int) -> bool:
        return peer in self._links

    def verdict(self, peer: int, seconds: float) -> str | None:
        """Why `peer` is gone, "" if it said farewell; None if it seems well for so long.

        Once this is closed nothing more is heard, and so nothing waited for.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: peer in self._verdicts or not self._thread.is_alive(), seconds
            )
            return self._verdicts.get(peer)

    def close(self) -> None:
        """Say farewell to all and stop."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
        self._waker.close()
        self._thread.join()
        with self._changed:
            self._changed.notify_all()
        for link in self._links.values():
            with suppress(OSError):
                link.send(_FAREWELL)
            link.close()
        self._wake.close()
        self._selector.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                peer = key.data
                if peer is None:
                    return
                verdict = self._look(key.fileobj)  # type: ignore[arg-type]
                if verdict is None:
                    continue
                self._selector.unregister(key.fileobj)
                with self._changed:
                    self._verdicts[peer] = verdict
                    self._changed.notify_all()
                if verdict:
                    self._gone(peer, verdict)

    def _look(self, link: socket.socket) -> str | None:
        try:
            said = link.recv(1)
        except BlockingIOError:
            return None
        except OSError as error:
            if unanswered(error):
                return f"its machine has not answered for {self._seconds:g} s"
            return f"its heartbeat connection broke: {error.strerror or error}"
        return "" if said == _FAREWELL else "its process ended without closing its network"


def unanswered(error: OSError) -> bool:
    """Whether a connection ended because nothing came from the other end for too long."""
    return error.errno in _UNANSWERED


def _keep_alive(link: socket.socket, seconds: float) -> None:
    """Have the kernel find out within `seconds`, and at least one, that the other is gone."""
    probes = max(1, round(seconds) - 1)
    for option, value in (("KEEPIDLE", 1), ("KEEPINTVL", 1), ("KEEPCNT", probes)):
        link.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{option}"), value)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * (probes + 1))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _exactly(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            raise ConnectionResetError("closed within the hello")
        data += more
    return data
