"""What IPv6 subnets and addresses, and MAC addresses, must satisfy together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.scenario.families import OWN6
from fedtest.scenario.faults import LinkFault
from fedtest.scenario.ip_types import NONE
from fedtest.scenario.problems import Finding, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv6Address

    from fedtest.scenario.draft import Draft
    from fedtest.scenario.hosts import Host, Network, Nic
    from fedtest.scenario.links import PairLink
    from fedtest.scenario.problems import Loc

_BY_IPV4 = ("delay", "jitter", "loss", "duplicate", "reorder", "corrupt")
"""What may be made by IPv4's own means, where the kernel has no netem."""


def findings(draft: Draft) -> Iterator[Finding]:
    """Everything that is wrong with them."""
    yield from _subnets(draft)
    owners: dict[tuple[str, IPv6Address], str] = {}
    macs: dict[tuple[str, str], str] = {}
    for host_name, host in draft.hosts.items():
        for name, nic in host.nics.items() if host else ():
            loc: Loc = ("hosts", host_name, "nics", name)
            network = draft.networks.get(name)
            if network is not None:
                yield from _nic(loc, name, network, nic)
            if nic.ip6 is not None and nic.ip6 != NONE:
                other = owners.setdefault((name, nic.ip6), host_name)
                yield from _own((*loc, "ip6"), other, host_name, str(nic.ip6))
            if nic.mac is not None:
                other = macs.setdefault((name, nic.mac), host_name)
                yield from _own((*loc, "mac"), other, host_name, nic.mac)
        if host is not None:
            yield from _firewall(draft, host_name, host)
    for name, network in draft.networks.items():
        if network is not None:
            yield from _links(("networks", name), network, network.link)
            for at, pair in enumerate(network.pairs):
                yield from _links(("networks", name, "pairs", at), network, pair.link, pair=True)
    yield from _faults(draft)


def _own(loc: Loc, other: str, host: str, value: str) -> Iterator[Finding]:
    if other != host:
        message = f"host {other} has this address already"
        yield Finding(loc, message, found=shown(value), allowed="an address of its own")


def _subnets(draft: Draft) -> Iterator[Finding]:
    attached = dict.fromkeys(draft.networks, 0)
    for host in draft.hosts.values():
        for network in host.nics if host else ():
            if network in attached:
                attached[network] += 1
    fixed = [
        (name, network.subnet6)
        for name, network in draft.networks.items()
        if network is not None and network.subnet6 is not None
    ]
    # Of two prefixes that overlap, one contains the other: sorted, it comes before.
    around = None
    for name, subnet in sorted(fixed, key=lambda item: item[1]):
        loc: Loc = ("networks", name, "subnet6")
        if subnet.overlaps(OWN6):
            message = f"the subnet is in {OWN6}, which is fedtest's own range"
            yield Finding(loc, message, found=str(subnet), allowed="another, or `ipv6: true`")
        if attached[name] > subnet.num_addresses - 2:
            message = f"the subnet has no room for {attached[name]} hosts"
            yield Finding(loc, message, found=str(subnet), allowed="a /64")
        if around is not None and subnet.overlaps(around[1]):
            message = f"the subnet overlaps that of network {around[0]}, {around[1]}"
            allowed = "subnets that do not overlap"
            yield Finding(loc, message, found=str(subnet), allowed=allowed)
        else:
            around = (name, subnet)


def _nic(loc: Loc, name: str, network: Network, nic: Nic) -> Iterator[Finding]:
    if nic.ip is not None and nic.ip != NONE and not network.ipv4:
        message = f"network {name} has no IPv4"
        yield Finding((*loc, "ip"), message, found=str(nic.ip), allowed="`ip6`")
    if nic.ip6 is not None and nic.ip6 != NONE:
        here: Loc = (*loc, "ip6")
        subnet = network.subnet6
        if subnet is None:
            message = f"a fixed address needs a subnet6, and network {name} has none"
            allowed = f"a subnet6 at networks.{name}, or no ip6"
            yield Finding(here, message, found=str(nic.ip6), allowed=allowed)
        elif nic.ip6 not in subnet or nic.ip6 == subnet.network_address:
            message = f"the address is none for a host of the network's subnet {subnet}"
            allowed = f"{subnet.network_address + 1} to {subnet.broadcast_address}"
            yield Finding(here, message, found=str(nic.ip6), allowed=allowed)
    yield from _links(loc, network, nic.link)


def _faults(draft: Draft) -> Iterator[Finding]:
    for at, fault in enumerate(draft.faults):
        if fault is not None and isinstance(fault.spec, LinkFault):
            network = draft.networks.get(fault.spec.network)
            if network is not None:
                loc: Loc = ("faults", at, "link")
                pair = fault.spec.receiver is not None
                yield from _links(loc, network, fault.spec.change, key="change", pair=pair)


def _links(
    loc: Loc, network: Network, link: PairLink | None, *, key: str = "link", pair: bool = False
) -> Iterator[Finding]:
    """Conditions are made, and measured, by IPv4: nothing may claim that they hold for IPv6."""
    if not network.has_ipv6 or link is None:
        return
    asked = [what for what, value in link if value is not None and what not in ("mtu", "probe")]
    for what in asked:
        if pair or not network.ipv4 or what in _BY_IPV4:
            message = "this would not hold for IPv6, which the network has"
            yield Finding((*loc, key, what), message, allowed="a network without IPv6")


def _firewall(draft: Draft, name: str, host: Host) -> Iterator[Finding]:
    if host.firewall is None:
        return
    at = host.firewall.networks or tuple(host.nics)
    for network in at:
        part = draft.networks.get(network)
        nic = host.nics.get(network)
        if part is not None and nic is not None and part.has_ipv6 and nic.ip6 != NONE:
            message = f"a firewall looks at IPv4 only, and network {network} has IPv6"
            allowed = "`networks` without it, or `ip6: none` for the host there"
            yield Finding(("hosts", name, "firewall"), message, allowed=allowed)
