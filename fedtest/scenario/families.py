"""Which addresses an interface has: IPv4, IPv6, both or none."""

from __future__ import annotations

from ipaddress import IPv6Network
from typing import TYPE_CHECKING

from fedtest.scenario.ip_types import NONE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fedtest.scenario.hosts import Network, Nic

OWN6 = IPv6Network("fdfe:d7e5::/32")
"""Of the unique local addresses, fedtest's own: for networks whose addresses do not matter."""


def has_ipv4(network: Network, nic: Nic) -> bool:
    """Whether the interface has an IPv4 address."""
    return network.ipv4 and nic.ip != NONE


def has_ipv6(network: Network, nic: Nic) -> bool:
    """Whether the interface has an IPv6 address."""
    return network.has_ipv6 and nic.ip6 != NONE


def resolving(resolve: str, nics: Iterable[str]) -> str:
    """The network at whose addresses a host's name resolves."""
    own = list(nics)
    return resolve if resolve in own else own[0]
