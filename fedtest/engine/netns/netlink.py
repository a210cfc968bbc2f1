"""Messages for the kernel's table of neighbours: which link address an address of the network has.

A table that a namespace fills itself, by ARP, is limited, and by one limit for
all namespaces of the machine: 1024 by default, which 64 hosts exceed when each
talks to each. What is over it is told "No route to host". Entries that were
learned elsewhere do not count. In all else they are as those of ARP: tried out,
corrected by it, and given up when nobody answers.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fedtest.engine.netns.channel import Message

_MANY = 16
"""Others on a network, from which on the kernel is told of each of them."""
_NEW_NEIGHBOUR = 28
_REQUEST, _ACKNOWLEDGE, _REPLACE, _CREATE = 1, 4, 0x100, 0x400
_STALE, _LEARNED_ELSEWHERE = 4, 0x10
_ADDRESS, _LINK_ADDRESS = 1, 2
_HEAD = struct.Struct("=IHHII")
_ERROR = 2


def link_address(address: str) -> str:
    """Of an interface with this address, as Docker makes it: a host keeps it when it restarts."""
    return "02:42:" + ":".join(f"{byte:02x}" for byte in socket.inet_aton(address))


def others_at(
    mine: Iterable[Message], all_there_are: Sequence[Message]
) -> dict[str, list[tuple[str, str]]]:
    """By interface of a host's attachments: who else is there, if they are many."""
    told = {}
    for one in mine:
        others = [
            (item["address"], item["mac"])
            for item in all_there_are
            if item["network"] == one["network"] and item["address"] != one["address"]
        ]
        if len(others) >= _MANY:
            told[one["interface"]] = others
    return told


def neighbour(index: int, address: str, link: str) -> bytes:
    """The request to know it on the interface with that index, and to answer."""
    body = struct.pack("=BxxxiHBB", socket.AF_INET, index, _STALE, _LEARNED_ELSEWHERE, 0)
    body += struct.pack("=HH4s", 8, _ADDRESS, socket.inet_aton(address))
    body += struct.pack("=HH6sxx", 10, _LINK_ADDRESS, bytes.fromhex(link.replace(":", "")))
    flags = _REQUEST | _ACKNOWLEDGE | _REPLACE | _CREATE
    return _HEAD.pack(_HEAD.size + len(body), _NEW_NEIGHBOUR, flags, 0, 0) + body


def error(answer: bytes) -> int:
    """The kernel's error number; 0 if it did what was asked for."""
    _, kind, _, _, _ = _HEAD.unpack_from(answer)
    return -int(struct.unpack_from("=i", answer, _HEAD.size)[0]) if kind == _ERROR else 0
