"""What was asked for against what is there: a difference makes a run invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.engine.inside import hosts_file, resolv_conf
from fedtest.errors import NotAsPlanned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fedtest.engine.snapshot import Interface, Snapshot
    from fedtest.plan import AttachmentPlan, HostPlan, Plan


def compare(plan: Plan, snapshots: Mapping[str, Snapshot], *, settled: bool = True) -> None:
    """Raises NotAsPlanned with every difference, by host.

    Unless `settled`, hosts have from their engine what engines give, and no more.
    """
    found = []
    for host in plan.hosts:
        snapshot = snapshots.get(host.name)
        found += (
            _differences(host, snapshot, settled=settled)
            if snapshot
            else [f"host {host.name}: is not there"]
        )
    if found:
        raise NotAsPlanned(
            "the hosts are not as the scenario asks:\n" + "\n".join(f"  {line}" for line in found),
            remedy="This is the engine's doing, not the scenario's: "
            "`python -m fedtest engine` tells what it can do.",
        )


def compare_again(
    plan: Plan, before: Mapping[str, Snapshot], after: Mapping[str, Snapshot]
) -> None:
    """Raises NotAsPlanned if somebody changed the hosts while the processes ran.

    What a check would find then says nothing of the scenario. Names are left
    out: a process that runs as root may well change its host's.
    """
    found = []
    for host in plan.hosts:
        if host.name not in after:
            continue
        found += _interfaces(host, after[host.name], settled=True)
        if after[host.name].born != before[host.name].born:
            found.append(f"host {host.name}: was started anew")
    if found:
        raise NotAsPlanned(
            "the hosts were changed while the processes ran:\n"
            + "\n".join(f"  {line}" for line in found),
            remedy="Leave the engine's containers and networks to fedtest during a run.",
        )


def _differences(host: HostPlan, snapshot: Snapshot, *, settled: bool) -> list[str]:
    found = _interfaces(host, snapshot, settled=settled)
    if snapshot.hosts_file.rstrip("\n") != hosts_file(host.names).rstrip("\n"):
        found.append(f"host {host.name}: /etc/hosts is not what it should be")
    wanted = resolv_conf(host.dns)
    if wanted and snapshot.resolv_conf.rstrip("\n") != wanted.rstrip("\n"):
        found.append(f"host {host.name}: /etc/resolv.conf is not what it should be")
    return found


def _interfaces(host: HostPlan, snapshot: Snapshot, *, settled: bool) -> list[str]:
    found = []
    actual = {name: item for name, item in snapshot.interfaces.items() if name != "lo"}
    for item in host.attachments:
        interface = actual.pop(item.interface, None)
        where = f"host {host.name}: interface {item.interface} (network {item.network})"
        if interface is None:
            there = ", ".join(sorted(snapshot.interfaces)) or "none"
            found.append(f"{where} is not there; there are: {there}")
            continue
        if settled:
            found += [f"{where} {line}" for line in _settings(item, interface)]
        elif item.ipv4 and item.address not in interface.addresses:
            has = ", ".join(map(str, interface.addresses)) or "no address"
            found.append(f"{where} should have {item.address}, it has {has}")
        if not interface.up:
            found.append(f"{where} is down")
    # A tunnel that the kernel gives to every namespace has no address and is down.
    found += [
        f"host {host.name}: has an interface {name} that nobody asked for"
        for name, interface in actual.items()
        if interface.addresses or interface.up
    ]
    return found


def _settings(item: AttachmentPlan, interface: Interface) -> Iterator[str]:
    has = ", ".join(map(str, interface.addresses)) or "no address"
    for address in item.addresses:
        if address not in interface.addresses:
            yield f"should have {address}, it has {has}"
    for version, wanted in ((4, item.ipv4), (6, item.address6 is not None)):
        if not wanted and any(address.version == version for address in interface.addresses):
            yield f"should have no IPv{version} address, it has {has}"
    if item.mac is not None and interface.mac != item.mac:
        yield f"should have the MAC address {item.mac}, it has {interface.mac}"
