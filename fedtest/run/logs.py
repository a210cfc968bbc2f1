"""A process's output: to a file, bounded, and cut into lines for whoever reads along."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

HEAD = 16 << 20
TAIL = 4 << 20
LINE = 64 << 10
"""Bytes: what is kept of a log's beginning and end, and the longest line handed on."""
_LAST = 20
_SHOWN = 500
"""How many of the last lines are remembered, and how many characters of each."""


class ProcessLog:
    """Both streams of one process in one file, in the order in which they came.

    The first `head` bytes and the last `tail` bytes are kept, with a line
    between them that says how much was cut. A line longer than `LINE` is handed
    on in pieces. When the file cannot be written, `error` says why and output
    is still taken, so that its process does not wait for us.
    """

    def __init__(self, path: Path, *, head: int = HEAD, tail: int = TAIL) -> None:
        self.path = path
        self.cut = 0
        self.error: OSError | None = None
        self._head = head
        self._tail = bytearray()
        self._tail_size = tail
        self._last: deque[str] = deque(maxlen=_LAST)
        self._within_line = False
        self._partial = {"stdout": bytearray(), "stderr": bytearray()}
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            self.error = error
            self._file = Path(os.devnull).open("wb", buffering=0)  # noqa: SIM115 - closed by close

    @property
    def last(self) -> list[str]:
        """The last lines, those that are not ended yet included, each cut to a readable length."""
        unended = [_text(partial) for partial in self._partial.values() if partial]
        return [line[:_SHOWN] for line in (*self._last, *unended)][-_LAST:]

    def feed(self, stream: str, data: bytes) -> list[str]:
        """Take a piece of output; the lines that it completes. After `close`, nothing."""
        if self._file.closed:
            return []
        self._store(data)
        self._within_line = not data.endswith(b"\n")
        partial = self._partial[stream]
        partial += data
        *lines, rest = bytes(partial).split(b"\n")
        pieces = [piece for line in lines for piece in _pieces(line)]
        *long, rest = _pieces(rest)
        partial[:] = rest
        return self._texts(pieces + long)

    def end(self) -> list[tuple[str, str]]:
        """Its process ended: the lines that were never ended, each with its stream.

        The file stays open, because the process may be started again.
        """
        unended = []
        for stream, partial in self._partial.items():
            if partial:
                unended += [(stream, text) for text in self._texts([bytes(partial)])]
                partial.clear()
        return unended

    def begin_again(self) -> None:
        """Its process was started again: what follows is not what went before."""
        self._store(b"%s[fedtest: started again]\n" % (b"\n" if self._within_line else b""))
        self._within_line = False

    def close(self) -> list[tuple[str, str]]:
        """Write what was held back; the lines that were never ended, as `end` does."""
        unended = self.end()
        if not self._file.closed:
            if self.cut:
                self._write(b"\n[fedtest: %d bytes cut here]\n" % self.cut)
            self._write(self._tail)
            self._tail.clear()
            self._file.close()
        return unended

    def _store(self, data: bytes) -> None:
        head = data[: self._head]
        self._head -= len(head)
        self._write(head)
        self._tail += data[len(head) :]
        excess = len(self._tail) - self._tail_size
        if excess > 0:
            del self._tail[:excess]
            self.cut += excess

    def _write(self, data: bytes | bytearray) -> None:
        if not data or self.error is not None:
            return
        try:
            self._file.write(data)
        except OSError as error:
            self.error = error

    def _texts(self, lines: list[bytes]) -> list[str]:
        texts = [_text(line) for line in lines]
        self._last.extend(text[:_SHOWN] for text in texts[-_LAST:])
        return texts


def _pieces(line: bytes) -> list[bytes]:
    """At least one, none longer than LINE."""
    return [line[at : at + LINE] for at in range(0, len(line), LINE)] or [b""]


def _text(line: bytes | bytearray) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
