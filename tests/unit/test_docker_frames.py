"""The engine's stream of frames, over a real socket with the engine played by the test."""

from __future__ import annotations

import socket
import struct
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.docker.frames import Frames, described
from fedtest.errors import DeadlineError, EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator


def frame(stream: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(data)) + data


def attached(engine: socket.socket, ours: socket.socket, ahead: bytes = b"") -> Frames:
    """As the SDK hands it out: a file whose socket and response hang on it.

    The head of the answer is read; `ahead` came in one piece with it.
    """
    engine.sendall(b"HTTP/1.1 101 UPGRADED\r\n\r\n" + ahead)
    reader = ours.makefile("rb")
    while reader.readline() != b"\r\n":
        pass
    raw = SimpleNamespace(_fp=SimpleNamespace(fp=reader))
    response = SimpleNamespace(raw=raw, close=reader.close)
    return Frames(SimpleNamespace(_sock=ours, _response=response))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, Frames]]:
    engine, ours = socket.socketpair()
    frames = attached(engine, ours)
    with engine:
        yield engine, frames
    frames.close()


@pytest.mark.parametrize("split", [0, 3, 12, 40])
def test_what_comes_with_the_head_of_the_answer_is_not_lost(split: int) -> None:
    engine, ours = socket.socketpair()
    whole = frame(1, b"fedtest-pid 7\n") + frame(2, b"oh\n") + frame(1, b"more")
    frames = attached(engine, ours, whole[:split])
    engine.sendall(whole[split:])
    engine.close()
    found = list(frames.read(10, limit=10))
    frames.close()
    assert found == [("stdout", b"fedtest-pid 7\n"), ("stderr", b"oh\n"), ("stdout", b"more")]


def test_frames_come_by_stream_however_they_are_cut(pair: tuple[socket.socket, Frames]) -> None:
    engine, frames = pair
    whole = frame(1, b"out") + frame(2, b"err") + frame(1, b"")
    found = []
    for position in range(len(whole)):
        engine.sendall(whole[position : position + 1])
        found += list(frames.read(0, limit=1))
    assert found == [("stdout", b"out"), ("stderr", b"err"), ("stdout", b"")]
    assert not frames.ended


def test_the_end_is_known_and_comes_after_the_last_frame(
    pair: tuple[socket.socket, Frames],
) -> None:
    engine, frames = pair
    engine.sendall(frame(1, b"last"))
    engine.close()
    assert list(frames.read(10, limit=10)) == [("stdout", b"last")]
    assert frames.ended


def test_silence_ends_a_read_and_so_does_endless_talk(pair: tuple[socket.socket, Frames]) -> None:
    engine, frames = pair
    assert list(frames.read(0.01, limit=1000)) == []
    for _ in frames.read(1000, limit=0.1):
        engine.sendall(frame(1, b"more"))
    engine.sendall(frame(1, b"more"))
    for _ in frames.read(1000, limit=0.1):
        engine.sendall(frame(1, b"more"))


def test_a_description_is_read_up_to_its_closing_line(pair: tuple[socket.socket, Frames]) -> None:
    engine, frames = pair
    engine.sendall(frame(1, b"==> links <==\n") + frame(1, b"==> end <==\n"))
    assert described(frames, "host a", time.monotonic() + 10).endswith("==> end <==\n")


def test_a_description_that_stops_short_is_an_error_with_what_was_said(
    pair: tuple[socket.socket, Frames],
) -> None:
    engine, frames = pair
    engine.sendall(frame(2, b"sh: tail: not found\n"))
    engine.close()
    with pytest.raises(EngineError, match=r"host a: did not describe itself.*tail: not found"):
        described(frames, "host a", time.monotonic() + 10)


def test_a_description_that_does_not_come_is_waited_for_up_to_the_deadline(
    pair: tuple[socket.socket, Frames],
) -> None:
    with pytest.raises(DeadlineError, match="host a: not ready in time"):
        described(pair[1], "host a", time.monotonic() + 0.05)
