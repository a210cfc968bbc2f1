"""The programs by which hosts' networks become as planned, wherever those programs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.plan import HostPlan, Plan

_BARRING = ("partition", "cut", "block")


def tools(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Program -> what of the plan needs it, for those that hosts' networks are made with."""
    found: dict[str, dict[str, None]] = {}
    for program, what in _wanted(plan):
        found.setdefault(program, {})[what] = None
    return {program: tuple(found[program]) for program in sorted(found)}


def _wanted(plan: Plan) -> Iterator[tuple[str, str]]:
    ipv6 = any(network.subnet6 is not None for network in plan.networks)
    if _has_links(plan):
        yield from ((program, "links") for program in ("tc", "iptables", "ss"))
    for host in plan.hosts:
        yield from _host(host)
    for fault in plan.faults:
        what = f"fault {fault.kind}"
        if fault.kind == "link":
            yield from ((program, what) for program in ("tc", "iptables", "ss"))
        elif fault.kind in _BARRING:
            yield "iptables", what
            if ipv6:
                yield "ip6tables", what


def _has_links(plan: Plan) -> bool:
    return any(network.pairs for network in plan.networks) or any(
        item.mtu is not None or not item.link.empty
        for host in plan.hosts
        for item in host.attachments
    )


def _host(host: HostPlan) -> Iterator[tuple[str, str]]:
    if host.firewall is not None:
        yield from (("iptables", "firewall"), ("ss", "firewall"))
    if host.ports_in_use:
        yield from (("iptables", "ports_in_use"), ("ss", "ports_in_use"))
    if host.dns:
        yield "ss", "DNS"
    if host.forward is None or host.forward.nat is None:
        return
    for item in host.attachments:
        if item.interface == host.forward.nat:
            for address in item.addresses:
                yield "iptables" if address.version == 4 else "ip6tables", "nat"
