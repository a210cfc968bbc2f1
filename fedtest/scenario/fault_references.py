"""What faults refer to, and what they need of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.scenario.declared import attached, known
from fedtest.scenario.faults import (
    AnyOf,
    BlockFault,
    CutFault,
    FillFault,
    InterfaceFault,
    KillFault,
    LinkFault,
    PartitionFault,
    PauseFault,
    ResolveFault,
    RestartFault,
    StopFault,
)
from fedtest.scenario.moment_references import of_moment
from fedtest.scenario.moments import FaultMoment
from fedtest.scenario.problems import Finding, listed, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.scenario.draft import Draft
    from fedtest.scenario.faults.triggers import Occasion
    from fedtest.scenario.problems import Loc


def findings(draft: Draft) -> Iterator[Finding]:
    """What is wrong with them."""
    ids: set[str] = set()
    for at, fault in enumerate(draft.faults):
        if fault is None:
            continue
        loc: Loc = ("faults", at)
        name = fault.id or f"{fault.kind}-{at + 1}"
        if name in ids:
            message = "another fault has this id"
            where = (*loc, "id") if fault.id is not None else loc
            yield Finding(where, message, found=shown(name), allowed="unique ids")
        ids.add(name)
        for key, occasion in (("when", fault.when), ("until", fault.until)):
            if occasion is not None:
                yield from _occasion(draft, (*loc, key), occasion, fault.id)
        yield from _spec(draft, (*loc, fault.kind), fault.spec)
    yield from _circles(draft)


def _circles(draft: Draft) -> Iterator[Finding]:
    """Faults of which each waits for the next; told of the first of them."""
    waits = {
        fault.id: (at, fault.when.fault)
        for at, fault in enumerate(draft.faults)
        if fault is not None and fault.id is not None and isinstance(fault.when, FaultMoment)
    }
    told: set[str] = set()
    for name, (at, following) in waits.items():
        circle, other = [name], following
        while other in waits and other not in circle:
            circle.append(other)
            other = waits[other][1]
        if other == name and len(circle) > 1 and told.isdisjoint(circle):
            told.update(circle)
            message = f"faults that wait for each other: {', '.join(circle)}"
            allowed = "one that waits for none of the others"
            yield Finding(("faults", at, "when"), message, allowed=allowed)


def _occasion(
    draft: Draft, loc: Loc, occasion: Occasion | FaultMoment, own: str | None
) -> Iterator[Finding]:
    if isinstance(occasion, FaultMoment) and occasion.fault == own:
        message = "a fault cannot wait for itself"
        yield Finding(loc, message, found=shown(str(occasion)), allowed="another fault's id")
        return
    if not isinstance(occasion, FaultMoment) and occasion.network is not None:
        host = occasion.host or ""
        yield from known((*loc, "host"), "host", host, draft.hosts)
        yield from known((*loc, "network"), "network", occasion.network, draft.networks)
        yield from attached(draft, (*loc, "host"), host, occasion.network)
        return
    yield from of_moment(draft, loc, occasion)


def _spec(draft: Draft, loc: Loc, spec: object) -> Iterator[Finding]:
    match spec:
        case KillFault() | PauseFault() | RestartFault() | StopFault():
            process = None if isinstance(spec, StopFault) else spec.process
            yield from _machine(draft, loc, process, spec.host)
        case PartitionFault():
            yield from known((*loc, "network"), "network", spec.network, draft.networks)
            yield from _sides(draft, loc, spec)
        case CutFault() | LinkFault():
            yield from known((*loc, "network"), "network", spec.network, draft.networks)
            for key, host in (("from", spec.sender), ("to", spec.receiver)):
                if host is not None:
                    yield from _on(draft, (*loc, key), host, spec.network)
        case InterfaceFault():
            yield from known((*loc, "network"), "network", spec.network, draft.networks)
            yield from _on(draft, (*loc, "host"), spec.host, spec.network)
            yield from _interface(draft, loc, spec)
        case BlockFault():
            yield from known((*loc, "host"), "host", spec.host, draft.hosts)
            if spec.sender is not None:
                yield from _blocked(draft, (*loc, "from"), spec.host, spec.sender)
        case ResolveFault():
            yield from _names(draft, loc, spec)
        case FillFault():
            yield from known((*loc, "host"), "host", spec.host, draft.hosts)


def _machine(
    draft: Draft, loc: Loc, process: str | None, host: str | AnyOf | None
) -> Iterator[Finding]:
    hosts: list[tuple[Loc, str]] = []
    if isinstance(host, str):
        hosts = [((*loc, "host"), host)]
    elif isinstance(host, AnyOf) and isinstance(host.any, str):
        yield from known((*loc, "host", "any"), "group", host.any, draft.groups)
        group = draft.groups.get(host.any)
        hosts = [((*loc, "host", "any"), member) for member in group.members] if group else []
    elif isinstance(host, AnyOf):
        hosts = [((*loc, "host", "any", at), name) for at, name in enumerate(host.any)]
    if process is not None:
        yield from known((*loc, "process"), "process", process, draft.processes)
    runs = draft.hosts_of(process) if process is not None else None
    for where, name in hosts:
        yield from known(where, "host", name, draft.hosts)
        if runs is not None and name in draft.hosts and name not in runs:
            message = f"process {process} does not run on host {name}"
            yield Finding(where, message, wrong=name, names=runs)


def _on(draft: Draft, loc: Loc, host: str, network: str) -> Iterator[Finding]:
    yield from known(loc, "host", host, draft.hosts)
    yield from attached(draft, loc, host, network)


def _blocked(draft: Draft, loc: Loc, host: str, sender: str) -> Iterator[Finding]:
    yield from known(loc, "host", sender, draft.hosts)
    one, other = draft.hosts.get(host), draft.hosts.get(sender)
    if sender == host:
        message = "from and host are the same host"
        yield Finding(loc, message, found=shown(sender), allowed="another host")
    elif one and other and not set(one.nics) & set(other.nics):
        message = f"host {sender} is on no network with host {host}"
        yield Finding(loc, message, found=shown(sender), allowed="a host on one of its networks")


def _sides(draft: Draft, loc: Loc, spec: PartitionFault) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for side, names in enumerate(spec.sides):
        for at, name in enumerate(names):
            where: Loc = (*loc, "sides", side, at)
            group = draft.groups.get(name)
            if name not in draft.hosts and name not in draft.groups:
                every = [*draft.hosts, *draft.groups]
                yield Finding(where, "no host or group is called that", wrong=name, names=every)
                continue
            for host in group.members if group and name not in draft.hosts else (name,):
                yield from attached(draft, where, host, spec.network)
                other = seen.setdefault(host, side)
                if other != side:
                    message = f"host {host} is on side {other + 1} already"
                    yield Finding(where, message, found=shown(name), allowed="each host once")


def _interface(draft: Draft, loc: Loc, spec: InterfaceFault) -> Iterator[Finding]:
    host, network = draft.hosts.get(spec.host), draft.networks.get(spec.network)
    if spec.name is not None and host is not None:
        taken = [nic.name for nic in host.nics.values()]
        if spec.name in taken:
            message = f"host {spec.host} has an interface of that name"
            yield Finding(
                (*loc, "name"), message, found=shown(spec.name), allowed=f"none of {listed(taken)}"
            )
    if spec.ip is None or network is None:
        return
    where: Loc = (*loc, "ip")
    if network.subnet is None:
        message = f"a fixed address needs a subnet, and network {spec.network} has none"
        yield Finding(where, message, found=str(spec.ip), allowed="a network with a subnet")
    elif spec.ip not in network.subnet:
        message = f"the address is not in the network's subnet {network.subnet}"
        yield Finding(where, message, found=str(spec.ip), allowed="an address in it")
    elif spec.ip in {network.subnet.network_address, network.subnet.broadcast_address}:
        message = "no host can have the subnet's first or last address"
        yield Finding(where, message, found=str(spec.ip), allowed="another address in it")
    elif spec.ip == network.gateway:
        message = "it is the gateway's address"
        yield Finding(where, message, found=str(spec.ip), allowed="a free address")
    else:
        for name, other in draft.hosts.items():
            nic = other.nics.get(spec.network) if other else None
            if nic is not None and nic.ip == spec.ip:
                message = f"host {name} has this address"
                yield Finding(where, message, found=str(spec.ip), allowed="a free address")


def _names(draft: Draft, loc: Loc, spec: ResolveFault) -> Iterator[Finding]:
    if spec.host is not None:
        yield from known((*loc, "host"), "host", spec.host, draft.hosts)
    for name, target in spec.names.items():
        if isinstance(target, str) and target != "missing":
            yield from known((*loc, "names", name), "host", target, draft.hosts)
