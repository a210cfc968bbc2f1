"""A process's output: to a file, bounded, and cut into lines for whoever reads along."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEAD = 16 << 20
TAIL = 4 << 20
LINE = 64 << 10
"""Bytes: what is kept of a log's beginning and end, and the longest line handed on."""


class ProcessLog:
    """Both streams of one process in one file, in the order in which they came.

    The first `head` bytes and the last `tail` bytes are kept, with a line
    between them that says how much was cut. `last` has the last lines.
    """

    def __init__(self, path: Path, *, head: int = HEAD, tail: int = TAIL) -> None:
        self.path = path
        self.last: deque[str] = deque(maxlen=20)
        self.written = 0
        self.cut = 0
        self._head = head
        self._tail_size = tail
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._partial = {"stdout": bytearray(), "stderr": bytearray()}
        self._file = path.open("wb", buffering=0)

    def feed(self, stream: str, data: bytes) -> list[str]:
        """Take a piece of output; the lines that it completes."""
        self._store(data)
        partial = self._partial[stream]
        partial += data
        *lines, rest = bytes(partial).split(b"\n")
        partial[:] = rest
        while len(partial) > LINE:
            lines.append(bytes(partial[:LINE]))
            del partial[:LINE]
        return self._text(lines)

    def close(self) -> list[str]:
        """Write what was held back; the lines that were never ended."""
        lines = [bytes(partial) for partial in self._partial.values() if partial]
        for partial in self._partial.values():
            partial.clear()
        if not self._file.closed:
            if self.cut:
                self._file.write(b"\n[fedtest: %d bytes cut here]\n" % self.cut)
            for piece in self._tail:
                self._file.write(piece)
            self._file.close()
        return self._text(lines)

    def _store(self, data: bytes) -> None:
        room = self._head - self.written
        if room > 0:
            self._file.write(data[:room])
            self.written += len(data[:room])
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes - len(self._tail[0]) >= self._tail_size:
            piece = self._tail.popleft()
            self._tail_bytes -= len(piece)
            self.cut += len(piece)

    def _text(self, lines: list[bytes]) -> list[str]:
        text = [line[:LINE].decode("utf-8", "replace").rstrip("\r") for line in lines]
        self.last.extend(text)
        return text
