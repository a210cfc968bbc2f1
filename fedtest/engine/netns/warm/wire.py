"""What the engine and a zygote say to each other: JSON with file descriptors.

A message is a head (the length of its text and the number of descriptors, which
travel with it) and its text. Strings that are not UTF-8 survive, as Python keeps
them in `os.environ`.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEAD = struct.Struct("!II")
MOST_DESCRIPTORS = 64


def send(connection: socket.socket, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one message. OSError if nobody is there."""
    text = json.dumps(message).encode("ascii")
    socket.send_fds(connection, [HEAD.pack(len(text), len(fds))], fds)
    connection.sendall(text)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors, which no program started later gets.

    None if the other side is gone, or went in the middle of a message.
    """
    room = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
    try:
        head, ancillary, _, _ = connection.recvmsg(HEAD.size, room, socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        head += _exactly(connection, HEAD.size - len(head)) if head else b""
        length, number = HEAD.unpack(head)
        text = _exactly(connection, length)
    except (EOFError, ConnectionError, struct.error):
        return None
    if len(fds) != number:
        for fd in fds:
            os.close(fd)
        raise OSError(f"{number} file descriptors were sent, {len(fds)} came")
    message: dict[str, Any] = json.loads(text)
    return message, list(fds)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def readable(file: int | socket.socket, end: float) -> bool:
    """Whether there is something to read by `end`, which `time.monotonic` tells."""
    waiting = select.poll()  # Unlike `select`, whatever number a descriptor has.
    waiting.register(file, select.POLLIN | select.POLLHUP)
    return bool(waiting.poll(max(end - time.monotonic(), 0) * 1000))
