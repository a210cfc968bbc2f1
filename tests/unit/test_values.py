"""The lines that tell a value, and how far a process is."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from fedtest import values

if TYPE_CHECKING:
    import pytest


class Output(io.RawIOBase):
    """Keeps what is written, call by call."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.pieces.append(bytes(data))  # type: ignore[call-overload]
        return len(self.pieces[-1])


def test_what_is_told_is_written_in_one_piece_also_without_a_buffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = Output()
    # As Python has it with PYTHONUNBUFFERED, which both engines set.
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, write_through=True))  # type: ignore[type-var]
    values.report("loss", 0.5)
    values.progress(1, 2)
    assert [piece for piece in output.pieces if piece] == [
        b'fedtest-value {"name": "loss", "value": 0.5}\n',
        b'fedtest-progress {"done": 1, "total": 2}\n',
    ]
