"""Every way between two hosts, and what is done to packets on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Address

    from fedtest.plan import AttachmentPlan, HostPlan, NetworkPlan, Plan
    from fedtest.plan_links import LinkPlan, PairPlan


@dataclass(frozen=True, slots=True)
class Way:
    """From one host to another over a network. `own`: the pair has a condition of its own."""

    network: str
    sender: str
    receiver: str
    source: IPv4Address
    target: IPv4Address
    link: LinkPlan
    own: bool

    def __str__(self) -> str:
        return f"{self.sender} to {self.receiver} on {self.network}"


class Ways:
    """The ways of a plan, each made when it is asked for: there are as many as pairs of hosts."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._networks = {network.name: network for network in plan.networks}
        self._forwarding = {host.name for host in plan.hosts if host.forward is not None}
        self._members: dict[str, dict[str, AttachmentPlan]] = {name: {} for name in self._networks}
        for host in plan.hosts:
            for item in host.attachments:
                if item.ipv4:  # Who has no address can be sent nothing, and measured by nobody.
                    self._members[item.network][host.name] = item
        self._pairs = {
            network.name: {(pair.sender, pair.receiver): pair for pair in network.pairs}
            for network in plan.networks
        }

    @property
    def networks(self) -> tuple[NetworkPlan, ...]:
        """All networks, in the plan's order."""
        return tuple(self._networks.values())

    def forwards(self, host: str) -> bool:
        """Whether what it sends may come from others, whose addresses it then has."""
        return host in self._forwarding

    def members(self, network: str) -> tuple[str, ...]:
        """The hosts that have an IPv4 address on a network, in the plan's order."""
        return tuple(self._members[network])

    def attachment(self, network: str, host: str) -> AttachmentPlan:
        """A host's attachment to a network that it is on."""
        return self._members[network][host]

    def way(self, network: str, sender: str, receiver: str) -> Way:
        """The way between two hosts that are both on the network."""
        members = self._members[network]
        pair = self._pairs[network].get((sender, receiver))
        return Way(
            network,
            sender,
            receiver,
            members[sender].address.ip,
            members[receiver].address.ip,
            pair.link if pair else members[sender].link,
            pair is not None,
        )

    def into(self, host: HostPlan, network: str) -> Iterator[Way]:
        """The ways on which a host receives; none if it has no address there."""
        members = self._members[network]
        for sender in members if host.name in members else ():
            if sender != host.name:
                yield self.way(network, sender, host.name)

    def pairs_from(self, host: str, network: str) -> list[PairPlan]:
        """The ways on which a host sends that are not as its attachment says."""
        return [pair for pair in self._pairs[network].values() if pair.sender == host]
