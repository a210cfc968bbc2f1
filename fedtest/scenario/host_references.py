"""What hosts' names, routes and gateways refer to, and whether they can be as asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.scenario.declared import known
from fedtest.scenario.families import has_ipv4, has_ipv6, resolving
from fedtest.scenario.ip_types import address_in, subnet_in
from fedtest.scenario.problems import Finding, listed, shown
from fedtest.scenario.resolution import FAILURES, MISSING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from fedtest.scenario.checks.reach import ReachCheck
    from fedtest.scenario.draft import Draft
    from fedtest.scenario.hosts import Host
    from fedtest.scenario.problems import Loc


def findings(draft: Draft) -> Iterator[Finding]:
    """Everything that is wrong between hosts."""
    yield from _aliases(draft)
    yield from _answers(draft, ("dns",), draft.dns)
    for name, host in draft.hosts.items():
        if host is not None:
            yield from _names(draft, name, host)
            yield from _answers(draft, ("hosts", name, "dns"), host.dns)
            yield from _forward(draft, name, host)
            yield from _routes(draft, name, host)
            if host.gateway is not None:
                yield from _via(draft, name, ("hosts", name, "gateway"), host.gateway)
    for name, group in draft.groups.items():
        master = group.members[0] if group else ""
        if group and _families(draft, master, group.network) == set():
            message = f"the group's master, {master}, has no address on network {group.network}"
            yield Finding(("groups", name, "members", 0), message, allowed="a host with an address")
    for at, check in enumerate(draft.checks):
        if check is not None and check.reach is not None:
            yield from _reach(draft, ("checks", at, "reach", "to"), check.reach)


def _reach(draft: Draft, loc: Loc, check: ReachCheck) -> Iterator[Finding]:
    """There is an address to connect to."""
    start, to = draft.hosts.get(check.start), draft.hosts.get(check.to)
    if start is None or to is None:
        return
    networks = (
        [check.network] if check.network else [item for item in to.nics if item in start.nics]
    )
    if networks and all(_families(draft, check.to, network) == set() for network in networks):
        message = f"host {check.to} has no address on network {' or '.join(networks)}"
        yield Finding(loc, message, allowed="a host with an address")


def _aliases(draft: Draft) -> Iterator[Finding]:
    owners = {name: name for name in draft.hosts}
    for name, host in draft.hosts.items():
        for at, alias in enumerate(host.aliases if host else ()):
            other = owners.setdefault(alias, f"{name}[{at}]")
            if other != f"{name}[{at}]":
                whose = other.partition("[")[0]
                message = f"host {whose} is called that, too"
                loc: Loc = ("hosts", name, "aliases", at)
                yield Finding(loc, message, found=shown(alias), allowed="names of one host each")


def _names(draft: Draft, name: str, host: Host) -> Iterator[Finding]:
    there = [*draft.hosts, *(alias for part in draft.hosts.values() if part
                             for alias in part.aliases)]  # fmt: skip
    for key, value in host.names.items():
        loc: Loc = ("hosts", name, "names", key)
        if value == MISSING:
            yield from known(loc, "host", key, there, at_key=True)
        else:
            yield from _has_address(draft, loc, value)


def _answers(draft: Draft, loc: Loc, answers: Mapping[str, str]) -> Iterator[Finding]:
    for key, value in answers.items():
        if value not in FAILURES:
            yield from _has_address(draft, (*loc, key), value)


def _has_address(draft: Draft, loc: Loc, value: str) -> Iterator[Finding]:
    """A host that a name leads to has an address where names resolve."""
    if address_in(value) is not None:
        return
    yield from known(loc, "host", value, draft.hosts)
    host = draft.hosts.get(value)
    if host and _families(draft, value, resolving(draft.resolve, host.nics)) == set():
        message = f"host {value} has no address where names resolve"
        yield Finding(loc, message, found=shown(value), allowed="a host with one, or an address")


def _forward(draft: Draft, name: str, host: Host) -> Iterator[Finding]:
    if host.forward is None:
        return
    loc: Loc = ("hosts", name, "forward")
    if len(host.nics) < 2:
        message = "the host is on one network only"
        yield Finding(loc, message, allowed="a host on several networks")
    nat = host.forward.nat
    if nat is not None:
        yield from known((*loc, "nat"), "network", nat, draft.networks)
        if nat in draft.networks and nat not in host.nics:
            message = f"the host is not on network {nat}"
            yield Finding((*loc, "nat"), message, wrong=nat, names=host.nics)


def _routes(draft: Draft, name: str, host: Host) -> Iterator[Finding]:
    seen: set[str] = set()
    for at, route in enumerate(host.routes):
        loc: Loc = ("hosts", name, "routes", at)
        if route.to in seen:
            message = "there is a route to it already"
            yield Finding((*loc, "to"), message, found=shown(route.to), allowed="each network once")
        seen.add(route.to)
        subnet = subnet_in(route.to)
        if subnet is not None and subnet.prefixlen == 0:
            message = "a route to everywhere is the gateway"
            yield Finding((*loc, "to"), message, found=shown(route.to), allowed="`gateway`")
        if subnet is None:
            yield from known((*loc, "to"), "network", route.to, draft.networks)
            if route.to in host.nics:
                message = "the host is on that network itself"
                allowed = "a network that it is not on"
                yield Finding((*loc, "to"), message, found=shown(route.to), allowed=allowed)
        families: set[int] | None = None if subnet is None else {subnet.version}
        part = draft.networks.get(route.to)
        if part is not None:
            families = {version for version, there in ((4, part.ipv4), (6, part.has_ipv6)) if there}
        yield from _via(draft, name, (*loc, "via"), route.via, families)


def _via(
    draft: Draft, name: str, loc: Loc, via: str, families: set[int] | None = None
) -> Iterator[Finding]:
    """The next hop is on a network of the host, in a family (None: any) that both have."""
    host = draft.hosts[name]
    assert host is not None  # noqa: S101 - who calls has looked
    address = address_in(via)
    if address is not None:
        yield from _via_address(draft, name, host, loc, via)
        common: set[int] = {address.version}
    else:
        yield from known(loc, "host", via, draft.hosts)
        other = draft.hosts.get(via)
        if other is None:
            return
        if via == name:
            message = "the host itself"
            yield Finding(loc, message, found=shown(via), allowed="another host")
            return
        shared = [network for network in host.nics if network in other.nics]
        if any(draft.networks.get(network) is None for network in shared):
            return  # It is wrong itself.
        common = {
            version
            for network in shared
            for version in (_families(draft, name, network) or set())
            & (_families(draft, via, network) or set())
        }
        if not common:
            message = f"hosts {name} and {via} share no network on which both have an address"
            yield Finding(loc, message, found=shown(via), allowed="a host on one of its networks")
            return
        if other.forward is None:
            message = f"host {via} does not forward"
            allowed = f"a host that does: `forward: true` at hosts.{via}"
            yield Finding(loc, message, found=shown(via), allowed=allowed)
    if families is not None and not common & families:
        wanted = " or ".join(f"IPv{version}" for version in sorted(families))
        yield Finding(loc, "the next hop has no address of that family", allowed=f"one by {wanted}")


def _via_address(draft: Draft, name: str, host: Host, loc: Loc, via: str) -> Iterator[Finding]:
    address = address_in(via)
    own = {str(item) for nic in host.nics.values() for item in (nic.ip, nic.ip6)}
    if str(address) in own:
        yield Finding(loc, "the host's own address", found=via, allowed="another host's address")
    for network in host.nics:
        part = draft.networks.get(network)
        if part is not None and part.internal and address in _engines(draft, network):
            message = f"nobody is at that address of network {network}, which is internal"
            yield Finding(loc, message, found=via, allowed="a host's name or address")
            return
    subnets = [
        subnet
        for network in host.nics
        if (part := draft.networks.get(network)) is not None
        for subnet, there in (
            (part.subnet, 4 in (_families(draft, name, network) or ())),
            (part.subnet6, 6 in (_families(draft, name, network) or ())),
        )
        if subnet is not None and there
    ]
    wrong = any(draft.networks.get(network) is None for network in host.nics)
    if not wrong and not any(address in subnet for subnet in subnets):
        message = "the address is in no subnet that the host has an address in"
        allowed = f"an address in {listed([*map(str, subnets)])}" if subnets else (
            "a host's name; or a `subnet` for the network"
        )  # fmt: skip
        yield Finding(loc, message, found=via, allowed=allowed)


def _engines(draft: Draft, network: str) -> Collection[object]:
    """The address that an engine may have on a network."""
    part = draft.networks.get(network)
    if part is None or part.subnet is None:
        return set()
    hosts = {
        host.nics[network].ip for host in draft.hosts.values() if host and network in host.nics
    }
    return {part.gateway or part.subnet.network_address + 1} - hosts


def _families(draft: Draft, host: str, network: str) -> set[int] | None:
    """4 and 6, as far as the host has such addresses there; None if it cannot be said."""
    part, segment = draft.hosts.get(host), draft.networks.get(network)
    if part is None or segment is None or network not in part.nics:
        return None
    nic = part.nics[network]
    has = ((4, has_ipv4(segment, nic)), (6, has_ipv6(segment, nic)))
    return {version for version, there in has if there}
