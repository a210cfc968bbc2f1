"""Messages between an engine and what runs beside its hosts: JSON, and open files with it.

Over a Unix socket, each message after its length in four bytes.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Message = dict[str, Any]

_LENGTH = struct.Struct("!I")
_FILE = array("i").itemsize
_ROOM = socket.CMSG_SPACE(16 * _FILE)


class Gone(Exception):
    """The other end closed the connection before a message was whole."""


def send(connection: socket.socket, message: Message, files: Sequence[int] = ()) -> None:
    """One message; the other end gets the files that are open here."""
    body = json.dumps(message).encode()
    whole = _LENGTH.pack(len(body)) + body
    sent = 0
    if files:
        sent = socket.send_fds(connection, [whole], list(files))
    connection.sendall(whole[sent:])


def receive(connection: socket.socket) -> tuple[Message, list[int]]:
    """The next message, and the files that came with it. Gone if there is no more."""
    files: list[int] = []
    try:
        head = _exactly(connection, _LENGTH.size, files)
        body = _exactly(connection, _LENGTH.unpack(head)[0], files)
    except (Gone, OSError):
        for descriptor in files:
            os.close(descriptor)
        raise
    message: Message = json.loads(body)
    return message, files


def _exactly(connection: socket.socket, size: int, files: list[int]) -> bytes:
    read = bytearray()
    while len(read) < size:
        # Not `recv_fds`: it forgets the flag in some versions, and a command
        # would have two more ends of its own pipes.
        data, came, _, _ = connection.recvmsg(size - len(read), _ROOM, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in came:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                files += array("i", content[: len(content) - len(content) % _FILE])
        if not data:
            raise Gone
        read += data
    return bytes(read)


def listen(directory: int, name: str) -> socket.socket:
    """A socket with that name in the directory that is open there."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # By way of the descriptor: a socket's path may have 107 bytes only.
    listener.bind(f"/proc/self/fd/{directory}/{name}")
    listener.listen(256)
    return listener


def connect(path: str, timeout: float) -> socket.socket:
    """A connection to the socket at `path`. OSError if nobody listens there."""
    parent, _, name = path.rpartition("/")
    directory = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(f"/proc/self/fd/{directory}/{name}")
    except OSError:
        connection.close()
        raise
    finally:
        os.close(directory)
    return connection
