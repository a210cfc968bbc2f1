"""Which way each host sends packets for networks that it is not on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtest.scenario.ip_types import ANY, address_in, subnet_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    from fedtest.plan_addresses import Segment
    from fedtest.scenario.model import Scenario


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """Packets to a network go to an address that an interface leads to."""

    to: IPv4Network | IPv6Network
    via: IPv4Address | IPv6Address
    interface: str

    @property
    def default(self) -> bool:
        """Whether it is for all that has no other way."""
        return self.to.prefixlen == 0


def forwarded(scenario: Scenario, network: str) -> bool:
    """Whether packets of other networks pass on the network, over a host that forwards."""
    return any(host.forward and network in host.nics for host in scenario.hosts.values())


def closed_plans(
    scenario: Scenario, segments: Mapping[str, Segment], host: str
) -> tuple[RoutePlan, ...]:
    """Ways out that an engine may have opened, because it must let other networks' packets pass."""
    return tuple(
        RoutePlan(ANY[0], segments[network].gateway, nic.name)
        for network, nic in scenario.hosts[host].nics.items()
        if scenario.networks[network].internal and forwarded(scenario, network)
    )


@dataclass(frozen=True, slots=True)
class ForwardPlan:
    """A host passes packets on. `nat`: by this interface under the host's own address."""

    nat: str | None = None


def route_plans(
    scenario: Scenario, segments: Mapping[str, Segment], host: str
) -> tuple[RoutePlan, ...]:
    """The host's routes, and then its gateway."""
    part = scenario.hosts[host]
    found: list[RoutePlan] = []
    for route in part.routes:
        subnet = subnet_in(route.to)
        to = (subnet,) if subnet is not None else _subnets(scenario, segments, route.to)
        found += _towards(scenario, segments, host, to=to, via=route.via)
    if part.gateway is not None:
        found += _towards(scenario, segments, host, to=ANY, via=part.gateway)
    elif closed_plans(scenario, segments, host):
        # The engine has put its way out there perhaps, and not where it is asked for.
        ways = [
            RoutePlan(ANY[0], segments[network].gateway, nic.name)
            for network, nic in part.nics.items()
            if not scenario.networks[network].internal
            and any(item.version == 4 for item in segments[network].own[host])
        ]
        found += ways[:1]
    return tuple(found)


def _subnets(
    scenario: Scenario, segments: Mapping[str, Segment], network: str
) -> tuple[IPv4Network | IPv6Network, ...]:
    segment = segments[network]
    ipv4 = (segment.subnet,) if scenario.networks[network].ipv4 else ()
    return (*ipv4, segment.subnet6) if segment.subnet6 is not None else ipv4


def _towards(
    scenario: Scenario,
    segments: Mapping[str, Segment],
    host: str,
    *,
    to: tuple[IPv4Network | IPv6Network, ...],
    via: str,
) -> Iterator[RoutePlan]:
    """One for each family that the host and its next hop have in common."""
    hops = list(_hops(scenario, segments, host, via))
    for subnet in to:
        for address, interface in hops:
            if address.version == subnet.version:
                yield RoutePlan(subnet, address, interface)
                break


def _hops(
    scenario: Scenario, segments: Mapping[str, Segment], host: str, via: str
) -> Iterator[tuple[IPv4Address | IPv6Address, str]]:
    """The next hop's addresses, and the host's interface towards each."""
    address = address_in(via)
    for network, nic in scenario.hosts[host].nics.items():
        own = segments[network].own
        for item in own[host]:
            if address is not None and address in item.network:
                yield address, nic.name
            for other in own.get(via, ()):
                if other.version == item.version:
                    yield other.ip, nic.name
