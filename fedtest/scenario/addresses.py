"""What fixed subnets, gateways and addresses must satisfy together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.scenario.ip_types import NONE
from fedtest.scenario.problems import Finding, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address, IPv4Network

    from fedtest.scenario.draft import Draft
    from fedtest.scenario.problems import Loc

# Beside the hosts: the network's address, the broadcast address, the gateway.
BESIDE_HOSTS = 3


def findings(draft: Draft) -> Iterator[Finding]:
    """Everything that is wrong with addresses."""
    yield from _gateways(draft)
    yield from _overlaps(draft)
    yield from _sizes(draft)
    yield from _fixed(draft)


def _gateways(draft: Draft) -> Iterator[Finding]:
    for name, network in draft.networks.items():
        if network is None or network.gateway is None:
            continue
        loc: Loc = ("networks", name, "gateway")
        if network.subnet is None:
            message = "a gateway needs a subnet that it lies in"
            yield Finding(loc, message, found=str(network.gateway), allowed="subnet and gateway")
        else:
            yield from _inside(loc, network.gateway, network.subnet)


def _inside(loc: Loc, address: IPv4Address, subnet: IPv4Network) -> Iterator[Finding]:
    """The address is one that a host of the subnet can have."""
    if subnet.prefixlen > 30:
        return  # too small, which is said of the subnet
    allowed = f"{subnet.network_address + 1} to {subnet.broadcast_address - 1}"
    if address not in subnet:
        message = f"the address is not in the network's subnet {subnet}"
    elif address == subnet.network_address:
        message = "the address is that of the network itself"
    elif address == subnet.broadcast_address:
        message = "the address is the broadcast address"
    else:
        return
    yield Finding(loc, message, found=str(address), allowed=allowed)


def _overlaps(draft: Draft) -> Iterator[Finding]:
    """Of two prefixes that overlap, one contains the other: sorted, it comes before."""
    order = {name: at for at, name in enumerate(draft.networks)}
    fixed = sorted(
        (network.subnet, order[name], name)
        for name, network in draft.networks.items()
        if network is not None and network.subnet is not None
    )
    around = None
    for item in fixed:
        if around is None or not item[0].overlaps(around[0]):
            around = item
            continue
        first, second = sorted((item, around), key=lambda entry: entry[1])
        message = f"the subnet overlaps that of network {first[2]}, {first[0]}"
        yield Finding(
            ("networks", second[2], "subnet"),
            message,
            found=str(second[0]),
            allowed="subnets that do not overlap",
        )


def _sizes(draft: Draft) -> Iterator[Finding]:
    attached = dict.fromkeys(draft.networks, 0)
    for host in draft.hosts.values():
        for network in host.nics if host else ():
            if network in attached:
                attached[network] += 1
    later = _given_later(draft)
    for name, part in draft.networks.items():
        if part is None or part.subnet is None:
            continue
        room = part.subnet.num_addresses - BESIDE_HOSTS
        more = len(later.get(name, ()))
        if room < max(attached[name] + more, 1):
            needed = (max(attached[name] + more, 1) + BESIDE_HOSTS - 1).bit_length()
            message = f"the subnet has room for {max(room, 0)} hosts, {attached[name]} are on it"
            if more:
                message += f", and faults give {more} further addresses"
            yield Finding(
                ("networks", name, "subnet"),
                message,
                found=str(part.subnet),
                allowed=f"a prefix of /{32 - needed} or shorter",
            )


def _given_later(draft: Draft) -> dict[str, set[IPv4Address]]:
    """By network, the addresses that faults give to interfaces: kept free until then."""
    found: dict[str, set[IPv4Address]] = {}
    for fault in draft.faults:
        if fault is not None and fault.interface is not None and fault.interface.ip is not None:
            found.setdefault(fault.interface.network, set()).add(fault.interface.ip)
    return found


def _fixed(draft: Draft) -> Iterator[Finding]:
    owners: dict[tuple[str, IPv4Address], str] = {}
    for host_name, host in draft.hosts.items():
        for name, nic in host.nics.items() if host else ():
            network = draft.networks.get(name)
            if nic.ip is None or nic.ip == NONE or network is None or not network.ipv4:
                continue
            loc: Loc = ("hosts", host_name, "nics", name, "ip")
            if network.subnet is None:
                message = f"a fixed address needs a subnet, and network {name} has none"
                allowed = f"a subnet at networks.{name}, or no ip"
                yield Finding(loc, message, found=str(nic.ip), allowed=allowed)
                continue
            yield from _inside(loc, nic.ip, network.subnet)
            if nic.ip == network.gateway:
                message = f"the address is the gateway of network {name}"
                yield Finding(loc, message, found=str(nic.ip), allowed="an address of its own")
            other = owners.setdefault((name, nic.ip), host_name)
            if other != host_name:
                message = f"host {other} has this address already"
                yield Finding(
                    loc, message, found=shown(str(nic.ip)), allowed="an address of its own"
                )
