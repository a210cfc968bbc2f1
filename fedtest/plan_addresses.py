"""Which address each host of a network gets, and which the gateway keeps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from ipaddress import IPv4Address, IPv4Network


@dataclass(frozen=True, slots=True)
class Allocation:
    """The addresses of one network."""

    gateway: IPv4Address
    hosts: Mapping[str, IPv4Address]


def allocate(
    subnet: IPv4Network, gateway: IPv4Address | None, wanted: Mapping[str, IPv4Address | None]
) -> Allocation:
    """Fixed addresses as wanted, the others the lowest free ones in the order of hosts.

    The gateway is the first address, unless a host wants that one: a host may
    be 192.168.0.1 although an engine would rather have it, and then the gateway
    is out of the way, at the highest address that nobody wants.
    """
    fixed = {address for address in wanted.values() if address is not None}
    if gateway is None:
        first = subnet.network_address + 1
        gateway = first if first not in fixed else next(_downwards(subnet, fixed))
    free = islice(_upwards(subnet, fixed | {gateway}), len(wanted))
    return Allocation(
        gateway,
        {host: next(free) if address is None else address for host, address in wanted.items()},
    )


def _upwards(subnet: IPv4Network, taken: set[IPv4Address]) -> Iterator[IPv4Address]:
    return (
        address
        for offset in range(1, subnet.num_addresses - 1)
        if (address := subnet.network_address + offset) not in taken
    )


def _downwards(subnet: IPv4Network, taken: set[IPv4Address]) -> Iterator[IPv4Address]:
    return (
        address
        for offset in range(1, subnet.num_addresses - 1)
        if (address := subnet.broadcast_address - offset) not in taken
    )
