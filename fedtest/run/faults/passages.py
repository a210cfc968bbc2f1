"""Measures what faults of networks do: what is sent on each way, and whether it arrives."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from fedtest.errors import NotAsPlanned
from fedtest.links.passage import PORT, Passage, arrived, counting, sending, wrong
from fedtest.links.ways import Ways
from fedtest.run.faults.desired import cut_ways
from fedtest.run.faults.world import DEADLINE
from fedtest.scenario.faults import BlockFault, CutFault, PartitionFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fedtest.plan import Plan
    from fedtest.run.faults.world import World

_MOST = 200
"""Ways that are tried; of more, the first so many."""


def measure(
    world: World, spec: PartitionFault | CutFault | BlockFault, *, over: bool = False
) -> str:
    """Try every way that the fault is about, as the world is now; what was found.

    NotAsPlanned with the ways that are not as they should be. One that is `over`
    may have none left: other faults have switched off what it was between.
    """
    some = list(islice(_passages(world.now, spec, world.off), _MOST))
    if not some and over:
        return "read back"
    if not some:
        raise NotAsPlanned("there is no way to measure it on: hosts or interfaces are off")
    by_sender: dict[str, list[Passage]] = {}
    by_receiver: dict[str, list[Passage]] = {}
    for item in some:
        by_sender.setdefault(item.sender, []).append(item)
        by_receiver.setdefault(item.receiver, []).append(item)
    run, engine = world.run, world.engine
    engine.condition(run, {name: counting(items) for name, items in by_receiver.items()}, DEADLINE)
    engine.condition(run, {name: sending(items) for name, items in by_sender.items()}, DEADLINE)
    told = engine.condition(
        run, {name: arrived(items) for name, items in by_receiver.items()}, DEADLINE
    )
    found = [line for name, items in by_receiver.items() for line in wrong(items, told[name])]
    if found:
        raise NotAsPlanned("\n".join(found))
    # By whatever protocol.
    ways = {replace(item, protocol="udp") for item in some}
    closed = sum(not item.open for item in ways)
    return (
        f"nothing arrives on {closed} of {len(ways)} ways"
        if closed
        else f"what is sent arrives on {len(ways)} ways"
    )


def _passages(
    plan: Plan, spec: PartitionFault | CutFault | BlockFault, off: frozenset[str]
) -> Iterator[Passage]:
    known = Ways(plan)
    if isinstance(spec, BlockFault):
        yield from _to_ports(plan, known, spec, off)
        return
    every: Iterator[Passage] = (
        item
        for sender, receiver in cut_ways(plan, spec)
        if {sender, receiver}.isdisjoint(off)
        for item in _passage(plan, known, spec.network, sender, receiver, PORT)
    )
    if isinstance(spec, CutFault) and spec.sender is None:
        every = _one_to_each(every)
    yield from every


def _one_to_each(some: Iterable[Passage]) -> Iterator[Passage]:
    """One rule for whoever sends: one sender shows it, at each address and port."""
    shown = set()
    for item in some:
        if (item.target, item.port) not in shown:
            shown.add((item.target, item.port))
            yield item


def _to_ports(plan: Plan, known: Ways, spec: BlockFault, off: frozenset[str]) -> Iterator[Passage]:
    """One peer is enough to show it, on each port that begins a range, by UDP and by TCP."""
    target = plan.host(spec.host)
    for item in target.attachments:
        peers = [
            host.name
            for host in plan.hosts
            if host is not target
            and host.name not in off
            and spec.sender in (None, host.name)
            and any(nic.network == item.network and nic.up for nic in host.attachments)
        ]
        for passage in _one_to_each(
            passage
            for peer in peers
            for first, _ in spec.ports
            for passage in _passage(plan, known, item.network, peer, target.name, first)
        ):
            yield passage
            yield replace(passage, protocol="tcp")


def _passage(  # noqa: PLR0917 - a way is so much
    plan: Plan, known: Ways, network: str, sender: str, receiver: str, port: int
) -> Iterator[Passage]:
    """By each family: what keeps one out may let the other in."""
    source, target = plan.host(sender).on(network), plan.host(receiver).on(network)
    if not (source.up and target.up):
        return
    pairs = [
        (one.ip, other.ip)
        for one in source.addresses
        for other in target.addresses
        if one.version == other.version
    ]
    for one, other in pairs:
        yield Passage(
            sender,
            receiver,
            str(one),
            str(other),
            port,
            open=not barred(plan, network, sender, receiver, port),
            # Nothing is lost of IPv6: a network that has it has no such conditions.
            lossy=one.version == 4 and known.way(network, sender, receiver).link.loss is not None,
        )


def barred(plan: Plan, network: str, sender: str, receiver: str, port: int) -> bool:
    """Whether some fault keeps what is sent from arriving."""
    source, target = plan.host(sender).on(network), plan.host(receiver).on(network)
    if not (source.up and target.up):
        return True
    return any(
        item.interface in (None, target.interface)
        and item.source in (None, *(str(address.ip) for address in source.addresses))
        and (item.ports is None or any(low <= port <= high for low, high in item.ports))
        for item in plan.host(receiver).barriers
    )
