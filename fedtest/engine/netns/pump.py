"""One thread that carries the output and the end of all commands to whoever listens."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedtest.engine.netns import channel

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK = 1 << 16
_DRAIN = 0.2
"""Seconds of silence after which a command known to have ended has said all."""
_MOST = 2.0
"""Seconds that a descendant which talks on may hide the end."""


@dataclass
class _Watched:
    """A command. `ended`: when its end was told; `quiet`: when it last said something."""

    channel: socket.socket
    pipes: dict[int, str]
    output: Callable[[str, bytes], None]
    exited: Callable[[int], None]
    lost: Callable[[str], None]
    status: int | None = None
    ended: float = 0.0
    quiet: float = field(default_factory=time.monotonic)


class Pump:
    """Watches commands until their end; closing it leaves them running."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._new: list[_Watched] = []
        self._all: list[_Watched] = []
        self._closing = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(
        self,
        connection: socket.socket,
        pipes: dict[int, str],
        output: Callable[[str, bytes], None],
        exited: Callable[[int], None],
        lost: Callable[[str], None],
    ) -> None:
        """`pipes`: the ends to read, by what stream they are. `exited` is called last, or `lost`.

        It is lost if it may go on, and nobody will hear of its end.
        """
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
        with self._lock:
            self._new.append(_Watched(connection, dict(pipes), output, exited, lost))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="output", daemon=True)
                self._thread.start()
        self._wake.send(b"x")

    def close(self) -> None:
        """Watch nothing any more."""
        self._closing = True
        self._wake.send(b"x")
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(10)
        for item in (*self._all, *self._new):
            self._forget(item)
        self._selector.close()
        self._woken.close()
        self._wake.close()

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(self._patience()):
                if key.fileobj is self._woken:
                    self._take_new()
                elif isinstance(key.fileobj, int):
                    self._read(key.data, key.fileobj)
                else:
                    self._hear(key.data)
            self._settle()

    def _take_new(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(512)
        with self._lock:
            new, self._new = self._new, []
        for item in new:
            self._all.append(item)
            self._selector.register(item.channel, selectors.EVENT_READ, item)
            for descriptor in item.pipes:
                self._selector.register(descriptor, selectors.EVENT_READ, item)

    def _read(self, item: _Watched, descriptor: int) -> None:
        stream = item.pipes.get(descriptor)
        if stream is None:
            return
        try:
            data = os.read(descriptor, _BLOCK)
        except BlockingIOError:
            return
        if data:
            item.quiet = time.monotonic()
            item.output(stream, data)
        else:
            self._selector.unregister(descriptor)
            os.close(descriptor)
            del item.pipes[descriptor]

    def _hear(self, item: _Watched) -> None:
        try:
            told, _ = channel.receive(item.channel)
            if "lost" in told:
                self._all.remove(item)
                self._forget(item)
                item.lost(str(told["lost"]))
                return
            status = int(told["status"])
        except (channel.Gone, OSError, LookupError, ValueError):
            # The host went off, and the kernel killed all that ran there.
            status = 128 + signal.SIGKILL
        self._selector.unregister(item.channel)
        item.status = status
        item.ended = item.quiet = time.monotonic()

    def _patience(self) -> float | None:
        return _DRAIN / 4 if any(item.status is not None for item in self._all) else None

    def _settle(self) -> None:
        """Those that have ended and said all are told of."""
        now = time.monotonic()
        for item in list(self._all):
            over = not item.pipes or now - item.quiet > _DRAIN or now - item.ended > _MOST
            if item.status is not None and over:
                self._all.remove(item)
                self._forget(item)
                item.exited(item.status)

    def _forget(self, item: _Watched) -> None:
        entries: list[socket.socket | int] = [item.channel, *item.pipes]
        for entry in entries:
            with contextlib.suppress(KeyError, ValueError, OSError):
                self._selector.unregister(entry)
        for descriptor in item.pipes:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        item.pipes.clear()
        item.channel.close()
