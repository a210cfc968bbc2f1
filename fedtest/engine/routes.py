"""The kernel's table of IPv4 routes, as /proc/net/route prints it."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network
from typing import NamedTuple


class Route(NamedTuple):
    """One route that is no default route. `connected`: without a gateway."""

    interface: str
    destination: IPv4Network
    connected: bool


def routes(text: str) -> list[Route]:
    """All routes but default ones."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        mask = _address(words[7])
        if int(mask):
            network = IPv4Network(f"{_address(words[1])}/{mask}")
            found.append(Route(words[0], network, int(words[2], 16) == 0))
    return found


def _address(word: str) -> IPv4Address:
    """From the kernel's hexadecimal, in the byte order of the machine (little-endian)."""
    return IPv4Address(struct.pack("<I", int(word, 16)))
