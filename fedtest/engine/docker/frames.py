"""The engine's stream of an attached process: frames of standard output and error.

Eight bytes of header (which stream, how long), then so much content. The SDK
can read this, but not with a time-out: its own do not reach such a stream.
"""

from __future__ import annotations

import contextlib
import select
import ssl
import struct
import time
from typing import TYPE_CHECKING, Any, Literal

from fedtest.engine import inside
from fedtest.engine.docker.client import close_response
from fedtest.errors import DeadlineError, EngineError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

_HEADER = struct.Struct(">BxxxL")
_STREAMS: dict[int, Literal["stdout", "stderr"]] = {1: "stdout", 2: "stderr"}
_CHUNK = 1 << 16

NEEDED = "An image for hosts needs sh, tail, cat, ls and sleep."

Frame = tuple[Literal["stdout", "stderr"], bytes]


class Frames:
    """One such stream, as `exec_start(socket=True)` or `attach_socket` gives it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream  # Keeps the response alive.
        # Over TLS the SDK hands out the socket itself.
        self._socket: socket.socket = getattr(stream, "_sock", stream)
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._buffer = bytearray(_read_ahead(stream))
        self._ended = False

    def read(self, silence: float, *, limit: float) -> Iterator[Frame]:
        """Frames as they come, until the stream ends, was silent for so long, or `limit` is over.

        Both in seconds.
        """
        end = time.monotonic() + limit
        while True:
            yield from self._complete()
            left = end - time.monotonic()
            if self._ended or left <= 0 or not self._receive(min(silence, left)):
                return

    @property
    def ended(self) -> bool:
        """Nothing more will come."""
        return self._ended

    def write(self, data: bytes) -> None:
        """To the process's input. A few bytes, which a socket takes at once."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise EngineError(f"the engine's connection was lost: {error}") from error

    def close(self) -> None:
        """Let go of the connection; the process behind it goes on."""
        self._socket.close()
        close_response(self._stream)

    def _complete(self) -> Iterator[Frame]:
        while len(self._buffer) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._buffer)
            if len(self._buffer) < _HEADER.size + length:
                return
            data = bytes(self._buffer[_HEADER.size : _HEADER.size + length])
            del self._buffer[: _HEADER.size + length]
            yield _STREAMS[kind], data

    def _receive(self, seconds: float) -> bool:
        """Whether something came, be it the end."""
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
        if not pending and not self._poll.poll(max(seconds, 0) * 1000):
            return False
        try:
            data = self._socket.recv(_CHUNK)
        except (ssl.SSLWantReadError, BlockingIOError):
            return True
        self._ended = not data
        self._buffer += data
        return True


def _read_ahead(stream: Any) -> bytes:
    """What came in one piece with the head of the engine's answer.

    Whoever read the head has it in a buffer: the first words of a quick
    process, its id among them.
    """
    reader = stream._response.raw._fp.fp  # noqa: SLF001 - the SDK has no other way
    with contextlib.suppress(ssl.SSLWantReadError):
        ahead: bytes = reader.peek()
        return ahead
    return b""


def described(frames: Frames, whom: str, end: float) -> str:
    """What a host prints of itself, up to the closing line; bounded by `end`."""
    text = bytearray()
    closing = inside.END.encode()
    while closing not in text:
        left = end - time.monotonic()
        for _, data in frames.read(left, limit=left):
            text += data
            if closing in text:
                break
        said = text[-500:].decode("utf-8", "replace")
        if closing not in text and frames.ended:
            raise EngineError(
                f"{whom}: did not describe itself; it said: {said!r}",
                remedy=NEEDED,
            )
        if closing not in text and time.monotonic() > end:
            raise DeadlineError(f"{whom}: not ready in time; it said: {said!r}")
    return text.decode("utf-8", "replace")
