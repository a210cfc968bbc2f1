"""Which address each host of a network gets, and which the gateway keeps."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, IPv6Network
from itertools import islice
from typing import TYPE_CHECKING

from fedtest.scenario.families import OWN6, has_ipv4
from fedtest.scenario.ip_types import NONE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from ipaddress import IPv4Address, IPv4Network, IPv6Address

    from fedtest.scenario.model import Scenario


@dataclass(frozen=True, slots=True)
class Allocation:
    """The addresses of one network."""

    gateway: IPv4Address
    hosts: Mapping[str, IPv4Address]


def allocate(
    subnet: IPv4Network,
    gateway: IPv4Address | None,
    wanted: Mapping[str, IPv4Address | None],
    kept: Collection[IPv4Address] = (),
) -> Allocation:
    """Fixed addresses as wanted, the others the lowest free ones in the order of hosts.

    Those `kept` are nobody's: faults give them to hosts later.

    The gateway is the first address, unless a host wants that one: a host may
    be 192.168.0.1 although an engine would rather have it, and then the gateway
    is out of the way, at the highest address that nobody wants.
    """
    fixed = {address for address in wanted.values() if address is not None} | set(kept)
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


def own_subnet6(subnet: IPv4Network) -> IPv6Network:
    """The IPv6 network beside an IPv4 one: as much a run's own as that is."""
    return IPv6Network((int(OWN6.network_address) | int(subnet.network_address) << 64, 64))


def allocate6(
    subnet: IPv6Network, wanted: Mapping[str, IPv6Address | None]
) -> dict[str, IPv6Interface]:
    """Fixed addresses as wanted, the others the lowest free ones in the order of hosts."""
    fixed = {address for address in wanted.values() if address is not None}
    free = (
        address
        for offset in range(1, len(wanted) + len(fixed) + 1)
        if (address := subnet.network_address + offset) not in fixed
    )
    return {
        host: IPv6Interface((next(free) if address is None else address, subnet.prefixlen))
        for host, address in wanted.items()
    }


@dataclass(frozen=True, slots=True)
class Segment:
    """One network's addresses, by host: what an engine gives each, and what each has."""

    subnet: IPv4Network
    gateway: IPv4Address
    given: Mapping[str, IPv4Interface]
    subnet6: IPv6Network | None
    own: Mapping[str, tuple[IPv4Interface | IPv6Interface, ...]]

    def ipv6(self, host: str) -> IPv6Interface | None:
        """The host's IPv6 address, if it has one."""
        return next((item for item in self.own[host] if isinstance(item, IPv6Interface)), None)


def segments(scenario: Scenario, subnets: Mapping[str, IPv4Network]) -> dict[str, Segment]:
    """All networks' addresses; `subnets` for those that have none of their own."""
    return {name: _segment(scenario, name, subnets) for name in scenario.networks}


def _segment(scenario: Scenario, name: str, subnets: Mapping[str, IPv4Network]) -> Segment:
    network = scenario.networks[name]
    nics = {host: part.nics[name] for host, part in scenario.hosts.items() if name in part.nics}
    subnet = network.subnet or subnets[name]
    # One that keeps none is given one all the same, lest an engine give it another's.
    wanted = {host: None if nic.ip == NONE else nic.ip for host, nic in nics.items()}
    kept = {
        fault.interface.ip
        for fault in scenario.faults
        if fault.interface is not None
        and fault.interface.network == name
        and fault.interface.ip is not None
    }
    found = allocate(subnet, network.gateway, wanted, kept)
    given = {
        host: IPv4Interface((address, subnet.prefixlen)) for host, address in found.hosts.items()
    }
    subnet6 = None
    given6: dict[str, IPv6Interface] = {}
    if network.has_ipv6:
        subnet6 = network.subnet6 or own_subnet6(subnet)
        given6 = allocate6(
            subnet6,
            {host: nic.ip6 for host, nic in nics.items() if nic.ip6 != NONE},
        )
    own: dict[str, tuple[IPv4Interface | IPv6Interface, ...]] = {
        host: (given[host],) if has_ipv4(network, nic) else () for host, nic in nics.items()
    }
    for host, address in given6.items():
        own[host] = (*own[host], address)
    return Segment(subnet, found.gateway, given, subnet6, own)
