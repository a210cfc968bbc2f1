"""The plan as the faults in effect make it. Pure: what is there is made to match it elsewhere.

Interfaces first, because everything else speaks of their names and addresses;
then the others in the order in which they came.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from ipaddress import IPv4Interface
from itertools import permutations
from typing import TYPE_CHECKING, Any

from fedtest.links.ways import Ways
from fedtest.plan_links import BarrierPlan, LinkPlan, PairPlan
from fedtest.plan_names import DnsPlan, overridden
from fedtest.scenario.faults import (
    BlockFault,
    CutFault,
    InterfaceFault,
    LinkFault,
    PartitionFault,
    ResolveFault,
)
from fedtest.scenario.resolution import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fedtest.plan import HostPlan, NetworkPlan, Plan
    from fedtest.plan_names import Names
    from fedtest.scenario.base import Part
    from fedtest.scenario.links import PairLink


def desired(plan: Plan, active: Iterable[Part]) -> Plan:
    """`plan` with the faults `active` in effect."""
    specs = list(active)
    for spec in specs:
        if isinstance(spec, InterfaceFault):
            plan = _interface(plan, spec)
    for spec in specs:
        match spec:
            case PartitionFault() | CutFault() | BlockFault():
                plan = _barriers(plan, spec)
            case LinkFault():
                plan = _link(plan, spec)
            case ResolveFault():
                plan = _resolve(plan, spec)
    return plan


def called_alike(plan: Plan) -> list[str]:
    """Two faults may give one name to two interfaces: told before anything is touched."""
    return [
        f"host {host.name}: {count} interfaces would be called {name}"
        for host in plan.hosts
        for name, count in Counter(item.interface for item in host.attachments).items()
        if count > 1
    ]


def cut_ways(plan: Plan, spec: PartitionFault | CutFault) -> list[tuple[str, str]]:
    """Sender and receiver of each way on which nothing comes through."""
    if isinstance(spec, PartitionFault):
        sides = [_members(plan, side) for side in spec.sides]
        return [
            (one, other)
            for sender, receiver in permutations(range(len(sides)), 2)
            if spec.way == "both" or sender < receiver
            for one in sides[sender]
            for other in sides[receiver]
        ]
    members = [
        host.name
        for host in plan.hosts
        if any(item.network == spec.network and item.addresses for item in host.attachments)
    ]
    return list(_ways(members, spec.sender, spec.receiver))


def _members(plan: Plan, side: Iterable[str]) -> list[str]:
    hosts = {host.name for host in plan.hosts}
    groups = {group.name: group.members for group in plan.groups}
    found = [member for name in side for member in ((name,) if name in hosts else groups[name])]
    return list(dict.fromkeys(found))


def _ways(
    members: Iterable[str], sender: str | None, receiver: str | None
) -> Iterator[tuple[str, str]]:
    for one, other in permutations(members, 2):
        if sender in (None, one) and receiver in (None, other):
            yield one, other


def _with_host(plan: Plan, changed: Mapping[str, HostPlan]) -> Plan:
    return replace(plan, hosts=tuple(changed.get(host.name, host) for host in plan.hosts))


def _interface(plan: Plan, spec: InterfaceFault) -> Plan:
    host = plan.host(spec.host)
    old = host.on(spec.network).interface
    items = []
    for item in host.attachments:
        changed = item
        if item.network == spec.network:
            changed = replace(
                item,
                up=item.up and spec.down is None,
                interface=spec.name or item.interface,
                address=IPv4Interface((spec.ip, item.address.network.prefixlen))
                if spec.ip is not None
                else item.address,
            )
        items.append(changed)
    firewall = host.firewall
    if firewall is not None and spec.name is not None:
        names = tuple(spec.name if name == old else name for name in firewall.interfaces)
        firewall = replace(firewall, interfaces=names)
    changed_host = replace(host, attachments=tuple(items), firewall=firewall)
    return _with_host(plan, {host.name: changed_host})


def _barriers(plan: Plan, spec: PartitionFault | CutFault | BlockFault) -> Plan:
    found: dict[str, list[BarrierPlan]] = {}
    if isinstance(spec, BlockFault):
        found[spec.host] = [
            BarrierPlan(source=source, ports=spec.ports, answer=spec.answer)
            for source in _sources(plan, spec)
        ]
    elif isinstance(spec, CutFault) and spec.sender is None:
        # Whoever sends: what comes from beyond the testbed as well.
        for receiver in {receiver for _, receiver in cut_ways(plan, spec)}:
            item = plan.host(receiver).on(spec.network)
            found[receiver] = [BarrierPlan(item.interface)]
    else:
        for sender, receiver in cut_ways(plan, spec):
            item = plan.host(receiver).on(spec.network)
            found.setdefault(receiver, []).extend(
                BarrierPlan(item.interface, str(address.ip))
                for address in plan.host(sender).on(spec.network).addresses
            )
    hosts = {name: plan.host(name) for name in found}
    return _with_host(
        plan,
        {
            name: replace(host, barriers=(*host.barriers, *found[name]))
            for name, host in hosts.items()
        },
    )


def _sources(plan: Plan, spec: BlockFault) -> list[str | None]:
    if spec.sender is None:
        return [None]
    return [
        str(address.ip) for item in plan.host(spec.sender).attachments for address in item.addresses
    ]


def _link(plan: Plan, spec: LinkFault) -> Plan:
    if spec.receiver is None:
        hosts = {
            host.name: replace(
                host,
                attachments=tuple(
                    replace(item, link=_changed(item.link, spec.change))
                    if item.network == spec.network
                    else item
                    for item in host.attachments
                ),
            )
            for host in plan.hosts
            if spec.sender in (None, host.name)
        }
        plan = _with_host(plan, hosts)
    networks = [
        _pairs(plan, item, spec) if item.name == spec.network else item for item in plan.networks
    ]
    return replace(plan, networks=tuple(networks))


def _pairs(plan: Plan, network: NetworkPlan, spec: LinkFault) -> NetworkPlan:
    pairs = {(pair.sender, pair.receiver): pair for pair in network.pairs}
    # Conditions are IPv4's: who has no such address has none.
    members = Ways(plan).members(network.name)
    for sender, receiver in _ways(members, spec.sender, spec.receiver):
        pair = pairs.get((sender, receiver))
        if pair is None and spec.receiver is None:
            continue  # It is as the attachment says, and that has changed.
        usual = plan.host(sender).on(network.name).link
        link = _changed(pair.link if pair else usual, spec.change)
        shares = (pair is None or pair.shares_rate) and spec.change.rate is None
        pairs[sender, receiver] = PairPlan(sender, receiver, link, shares)
    return replace(network, pairs=tuple(pairs.values()))


def _changed(link: LinkPlan, change: PairLink) -> LinkPlan:
    """Each key that is said; 0 switches off what the scenario asks for."""
    said: dict[str, Any] = {
        key: value if key in {"rate", "queue", "probe"} else value or None
        for key, value in change
        if value is not None
    }
    return replace(link, **said)


def _resolve(plan: Plan, spec: ResolveFault) -> Plan:
    hosts = [host for host in plan.hosts if spec.host in (None, host.name)]
    return _with_host(
        plan,
        {
            host.name: replace(host, names=_renamed(host.names, spec), dns=_answers(host.dns, spec))
            for host in hosts
        },
    )


def _answers(dns: tuple[DnsPlan, ...], spec: ResolveFault) -> tuple[DnsPlan, ...]:
    """An engine's DNS knows every host: a name that is missing must be missing there, too."""
    missing = [name for name, target in spec.names.items() if target == MISSING]
    kept = tuple(item for item in dns if item.name not in missing)
    return (*kept, *(DnsPlan(name, failure="nxdomain") for name in missing))


def _renamed(names: Names, spec: ResolveFault) -> Names:
    known: dict[str, tuple[str, ...]] = {}
    for address, some in names:
        for name in some:
            known[name] = (*known.get(name, ()), address)
    return overridden(
        names,
        {
            name: ()
            if target == MISSING
            else known.get(target, ())
            if isinstance(target, str)
            else (str(target),)
            for name, target in spec.names.items()
        },
    )
