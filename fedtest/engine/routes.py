"""The kernel's table of IPv4 routes, as /proc/net/route prints it."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLACE = 8
"""The shortest prefix that stands for a place. Shorter ones are a default route in pieces, as
a VPN's 0.0.0.0/1 and 128.0.0.0/1: no private network is larger than 10.0.0.0/8."""


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


def collision(subnet: IPv4Network, taken: Iterable[Route]) -> Route | None:
    """The first route to a place that a route to `subnet` would cut off, or be cut off by.

    The more specific of two routes wins, and of two that are the same nobody can say which.
    What a default route leads to, whole or in pieces, is everything else: that is no place.
    """
    for route in taken:
        if route.destination.prefixlen >= _PLACE and route.destination.overlaps(subnet):
            return route
    return None


def _address(word: str) -> IPv4Address:
    """From the kernel's hexadecimal, in the byte order of the machine (little-endian)."""
    return IPv4Address(struct.pack("<I", int(word, 16)))
