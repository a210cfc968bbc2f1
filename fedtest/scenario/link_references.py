"""What links, firewalls and taken ports refer to, and what they come to together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.scenario.declared import attached, known
from fedtest.scenario.links import contradictions, merged
from fedtest.scenario.problems import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.scenario.draft import Draft
    from fedtest.scenario.hosts import Host, Network
    from fedtest.scenario.links import Pair, PairLink
    from fedtest.scenario.problems import Loc

USUAL_MTU = 1500
MOST_WAYS = 10_000
"""From one host to another with conditions of their own, in all networks together."""


def findings(draft: Draft) -> Iterator[Finding]:
    """Everything that is wrong with conditions of networks and hosts."""
    for name, network in draft.networks.items():
        if network is not None:
            yield from _network(draft, name, network)
    yield from _ways(draft)
    for name, host in draft.hosts.items():
        if host is not None:
            yield from _attachments(draft, name, host)
            yield from _firewall(name, host, draft)
            yield from _ports(name, host)


def _network(draft: Draft, name: str, network: Network) -> Iterator[Finding]:
    loc: Loc = ("networks", name)
    yield from _contradictions((*loc, "link"), network.link, merged(network.link))
    seen: dict[tuple[str | None, str | None], int] = {}
    for at, pair in enumerate(network.pairs):
        here: Loc = (*loc, "pairs", at)
        for key, host in (("from", pair.sender), ("to", pair.receiver)):
            if host is not None:
                yield from known((*here, key), "host", host, draft.hosts)
                yield from attached(draft, (*here, key), host, name)
        first = seen.setdefault((pair.sender, pair.receiver), at)
        if first != at:
            message = f"pairs[{first}] is about the same hosts"
            yield Finding(here, message, allowed="each way once")
        yield from _contradictions((*here, "link"), pair.link, _under(draft, name, network, pair))
        if pair.link.queue is not None and pair.link.rate is None:
            message = "what waits for the rate of the interface waits there"
            yield Finding((*here, "link", "queue"), message, allowed="queue together with rate")


def _ways(draft: Draft) -> Iterator[Finding]:
    """A pair with one end is as many ways as there are other hosts."""
    ways = 0
    for name, network in draft.networks.items():
        if network is None or not network.pairs:
            continue
        others = sum(host is not None and name in host.nics for host in draft.hosts.values()) - 1
        for at, pair in enumerate(network.pairs):
            ways += 1 if pair.sender and pair.receiver else max(others, 1)
            if ways > MOST_WAYS:
                message = "too many ways from one host to another"
                allowed = f"{MOST_WAYS} in all; `link` says what is the same for many"
                yield Finding(("networks", name, "pairs", at), message, allowed=allowed)
                return


def _under(draft: Draft, name: str, network: Network, pair: Pair) -> PairLink:
    """What a pair comes to, by what is known of its sender."""
    host = draft.hosts.get(pair.sender or "")
    nic = host.nics.get(name) if host else None
    return merged(network.link, nic.link if nic else None, pair.link)


def _contradictions(loc: Loc, own: PairLink | None, whole: PairLink) -> Iterator[Finding]:
    """Where a part says something that contradicts what holds there; silence is not to blame."""
    if own is None:
        return
    for key, message, allowed in contradictions(whole):
        told = next((name for name in (key, "delay") if getattr(own, name) is not None), None)
        if told is not None:
            yield Finding((*loc, told), message, allowed=allowed)


def _attachments(draft: Draft, name: str, host: Host) -> Iterator[Finding]:
    for network_name, nic in host.nics.items():
        network = draft.networks.get(network_name)
        if nic.link is None or network is None:
            continue
        loc: Loc = ("hosts", name, "nics", network_name, "link")
        yield from _contradictions(loc, nic.link, merged(network.link, nic.link))
        most = (network.link.mtu if network.link else None) or USUAL_MTU
        if nic.link.mtu is not None and nic.link.mtu > most:
            message = f"network {network_name} does not carry packets of that size"
            allowed = f"at most {most}, or more at networks.{network_name}.link.mtu"
            yield Finding((*loc, "mtu"), message, found=str(nic.link.mtu), allowed=allowed)


def _firewall(name: str, host: Host, draft: Draft) -> Iterator[Finding]:
    for at, network in enumerate(host.firewall.networks or () if host.firewall else ()):
        loc: Loc = ("hosts", name, "firewall", "networks", at)
        yield from known(loc, "network", network, draft.networks)
        if network in draft.networks and network not in host.nics:
            message = f"the host is not on network {network}"
            yield Finding(loc, message, wrong=network, names=host.nics)


def _ports(name: str, host: Host) -> Iterator[Finding]:
    seen: set[int] = set()
    for at, item in enumerate(host.ports_in_use):
        if item.port in seen:
            message = "the port is in the list twice"
            loc: Loc = ("hosts", name, "ports_in_use", at)
            yield Finding(loc, message, found=str(item.port), allowed="each port once")
        seen.add(item.port)
