"""The routes of the machine that the engine makes its bridges on."""

from __future__ import annotations

import platform
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.engine.routes import Route, routes

if TYPE_CHECKING:
    from fedtest.engine.docker.client import DockerClient

_PATIENCE = 5.0
_PROC = Path("/proc")
_PEER = struct.Struct("3i")
"""What SO_PEERCRED gives: process, user, group."""


def machine_routes(client: DockerClient) -> list[Route]:
    """Routes that this process sees, and those of the engine's network namespace.

    Nothing of an engine on another machine, or on a virtual one: those cannot be seen from here.
    """
    path = client.endpoint.socket
    if path is None or client.version.get("KernelVersion") != platform.release():
        return []
    found = []
    for process in ("self", listener(path)):
        table = _PROC / process / "net/route"
        try:
            found += routes(table.read_text(encoding="ascii"))
        except OSError:
            continue  # Not of our pid namespace, or of a kernel without IPv4.
    return list(dict.fromkeys(found))


def listener(path: str) -> str:
    """The process that listens at a socket; 0 if it is not of our pid namespace."""
    with socket.socket(socket.AF_UNIX) as end:
        end.settimeout(_PATIENCE)
        try:
            end.connect(path)
            found = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        except OSError:
            return "0"
    return str(_PEER.unpack(found)[0])
