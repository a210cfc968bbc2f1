"""What each way between hosts does to packets, and each host to connections, made concrete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedtest.scenario.links import merged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.scenario.hosts import Host, Nic
    from fedtest.scenario.links import PairLink
    from fedtest.scenario.model import Scenario


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """What is done to packets on one way.

    `rate` in bits a second, `delay` and `jitter` in seconds, `queue` in bytes,
    the others are shares of packets. None: not asked for.
    """

    rate: int | None = None
    delay: float | None = None
    jitter: float | None = None
    loss: float | None = None
    duplicate: float | None = None
    reorder: float | None = None
    corrupt: float | None = None
    queue: int | None = None
    probe: bool = True

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for."""
        return self == LinkPlan(probe=self.probe)


@dataclass(frozen=True, slots=True)
class PairPlan:
    """The way from one host to another on a network, where it is not as the sender's others.

    `shares_rate`: its rate is that of the sender's attachment, not one of its own.
    """

    sender: str
    receiver: str
    link: LinkPlan
    shares_rate: bool


@dataclass(frozen=True, slots=True)
class FirewallPlan:
    """What a host lets in on some interfaces; `accept` has first and last of each range."""

    interfaces: tuple[str, ...]
    accept: tuple[tuple[int, int], ...]
    otherwise: Literal["reject", "drop"]


@dataclass(frozen=True, slots=True)
class PortPlan:
    """A port that something has taken, and what it tells who connects."""

    port: int
    answers: Literal["wrong", "nothing"]


@dataclass(frozen=True, slots=True)
class BarrierPlan:
    """Packets that a host does not let in, nor through: those that match all that is said.

    `source` is an address, `ports` has first and last of each range of TCP and
    UDP. None: any.
    """

    interface: str | None = None
    source: str | None = None
    ports: tuple[tuple[int, int], ...] | None = None
    answer: Literal["drop", "reject"] = "drop"


def network_mtu(scenario: Scenario, network: str) -> int | None:
    """The largest packet the network as a whole carries, if that is asked for."""
    link = scenario.networks[network].link
    return link.mtu if link else None


def nic_mtu(scenario: Scenario, network: str, nic: Nic) -> int | None:
    """The largest packet of an interface, if that is asked for."""
    return (nic.link.mtu if nic.link else None) or network_mtu(scenario, network)


def nic_link(scenario: Scenario, network: str, nic: Nic) -> LinkPlan:
    """What is done to all that a host sends over an interface, pairs aside."""
    return _plan(merged(scenario.networks[network].link, nic.link))


def pair_plans(scenario: Scenario, network: str) -> Iterator[PairPlan]:
    """Every way on the network that `pairs` make differ, by sender and receiver."""
    part = scenario.networks[network]
    if not part.pairs:
        return
    nics = {name: host.nics[network] for name, host in scenario.hosts.items()
            if network in host.nics}  # fmt: skip
    asked: dict[tuple[str, str], list[PairLink]] = {}
    for pair in part.pairs:
        for sender in [pair.sender] if pair.sender else nics:
            for receiver in [pair.receiver] if pair.receiver else nics:
                if sender != receiver:
                    asked.setdefault((sender, receiver), []).append(pair.link)
    for sender, nic in nics.items():
        usual = nic_link(scenario, network, nic)
        for receiver in nics:
            links = asked.get((sender, receiver))
            if links is None:
                continue  # That is nearly every way, and there are many.
            link = _plan(merged(part.link, nic.link, *links))
            own_rate = any(item.rate is not None for item in links)
            if own_rate or link != usual:
                yield PairPlan(sender, receiver, link, not own_rate)


def firewall_plan(host: Host) -> FirewallPlan | None:
    """The host's firewall, on the interfaces it stands at."""
    if host.firewall is None:
        return None
    networks = host.firewall.networks or tuple(host.nics)
    interfaces = tuple(nic.name for network, nic in host.nics.items() if network in networks)
    return FirewallPlan(interfaces, host.firewall.accept, host.firewall.otherwise)


def port_plans(host: Host) -> tuple[PortPlan, ...]:
    """The ports that something has taken."""
    return tuple(PortPlan(item.port, item.answers) for item in host.ports_in_use)


def _plan(link: PairLink) -> LinkPlan:
    return LinkPlan(
        rate=link.rate,
        delay=link.delay or None,
        jitter=link.jitter or None,
        loss=link.loss or None,
        duplicate=link.duplicate or None,
        reorder=link.reorder or None,
        corrupt=link.corrupt or None,
        queue=link.queue,
        probe=link.probe is not False,
    )
