"""The script that sets up one host's network, and what must be found afterwards."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtest.links.commands import Commands
from fedtest.links.readback import objects
from fedtest.links.shell import IPTABLES, end
from fedtest.plan_names import DNS_ADDRESS
from fedtest.sections import sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.plan import AttachmentPlan, HostPlan
    from fedtest.plan_routes import RoutePlan

CHAIN = "fedtest-nat"
DNS_PORT = 53
_DNS = "dns"
_SERVER = Path(__file__).with_name("inside") / "dns.py"
_SYS4 = "/proc/sys/net/ipv4/ip_forward"
_SYS6 = "/proc/sys/net/ipv6/conf"


def plan_settings(host: HostPlan) -> Commands:
    """What makes a host's network as it is planned; done again, it changes nothing."""
    found = Commands()
    if any(item.address6 is not None for item in host.attachments):
        found.shell(f"[ -d {_SYS6} ] || {{ echo 'the kernel has no IPv6' >&2; exit 1; }}")
        _write(found, f"{_SYS6}/lo/disable_ipv6", 0)
    for item in host.attachments:
        _attachment(found, item)
    _forward(found, host)
    for route in host.closed:
        found.shell(f"{_ip_route('del', route)} 2>/dev/null || true")
    for route in host.routes:
        found.shell(_ip_route("replace", route))
    found.lines.append(end(_DNS))
    if host.dns:
        answers = {item.name: item.failure or list(item.addresses) for item in host.dns}
        found.start(
            _DNS, _SERVER, DNS_ADDRESS, str(DNS_PORT), json.dumps(answers),
            ready=f"ss -Hlun 'src {DNS_ADDRESS} and sport = :{DNS_PORT}' | grep -q .",
        )  # fmt: skip
    return found


def script(commands: Commands) -> str:
    """Does it, and prints what is there for `differences`."""
    return "\n".join(["set -eu", *commands.lines, _READING]) + "\n"


def _ip_route(verb: str, route: RoutePlan) -> str:
    family = f"-{route.to.version}"
    words = ("ip", family, "route", verb, route.to, "via", route.via, "dev", route.interface)
    return shlex.join(map(str, words))


def _attachment(to: Commands, item: AttachmentPlan) -> None:
    name = item.interface
    if item.mac is not None:
        to.run("ip", "link", "set", "dev", name, "address", item.mac)
    if not item.ipv4:
        to.run("ip", "-4", "address", "flush", "dev", name)
    if item.address6 is not None:
        _write(to, f"{_SYS6}/{name}/accept_ra", 0)
        _write(to, f"{_SYS6}/{name}/disable_ipv6", 0)
        to.run("ip", "-6", "address", "replace", item.address6, "dev", name, "nodad")


def _forward(to: Commands, host: HostPlan) -> None:
    wanted = 0 if host.forward is None else 1
    _write(to, _SYS4, wanted)
    versions = {address.version for item in host.attachments for address in item.addresses}
    if 6 in versions:
        _write(to, f"{_SYS6}/all/forwarding", wanted)
    for version in _nat_versions(host):
        tables = f"{IPTABLES[version]} -w -t nat"
        jump = f"POSTROUTING -j {CHAIN}"
        to.shell(f"{tables} -F {CHAIN} 2>/dev/null || {tables} -N {CHAIN}")
        to.shell(f"{tables} {shlex.join(_masquerade(host))}")
        to.shell(f"{tables} -C {jump} 2>/dev/null || {tables} -A {jump}")


def _nat_versions(host: HostPlan) -> list[int]:
    nat = host.forward.nat if host.forward else None
    return [
        address.version
        for item in host.attachments
        if item.interface == nat
        for address in item.addresses
    ]


def _masquerade(host: HostPlan) -> tuple[str, ...]:
    nat = host.forward.nat if host.forward else None
    return ("-A", CHAIN, "-o", str(nat), "-j", "MASQUERADE")


def _write(to: Commands, path: str, value: int) -> None:
    to.shell(f"echo {value} > {shlex.quote(path)}")


_READING = f"""\
echo "==> routes 4 <=="; ip -j -4 route show
echo "==> routes 6 <=="; ip -j -6 route show 2>/dev/null || true
echo "==> forwarding 4 <=="; cat {_SYS4}
echo "==> forwarding 6 <=="; cat {_SYS6}/all/forwarding 2>/dev/null || true
echo "==> nat 4 <=="; iptables -w -t nat -S 2>/dev/null || true
echo "==> nat 6 <=="; ip6tables -w -t nat -S 2>/dev/null || true"""


def differences(host: HostPlan, told: str) -> Iterator[str]:
    """What is not as planned, in words; addresses are read back from within the host."""
    parts = sections(told)
    for version in IPTABLES:
        routes = objects(parts.get(f"routes {version}", ""))
        for route in host.routes:
            if route.to.version == version:
                yield from _route(route, routes)
        yield from (
            f"there is a way out via {route.via} dev {route.interface}"
            for route in host.closed
            if route.to.version == version
            and (str(route.via), route.interface) in _ways(routes, "default")
            and route not in host.routes
        )
        forwards = parts.get(f"forwarding {version}") == "1"
        if host.forward is not None and _has(host, version) and not forwards:
            yield f"it does not forward IPv{version}"
    for version in _nat_versions(host):
        there = parts.get(f"nat {version}", "").splitlines()
        ours = [line for line in there if line.startswith(f"-A {CHAIN} ")]
        if ours != [shlex.join(_masquerade(host))] or f"-A POSTROUTING -j {CHAIN}" not in there:
            yield f"it does not masquerade IPv{version}: {'; '.join(there) or 'no rules'}"


def _has(host: HostPlan, version: int) -> bool:
    return any(
        address.version == version for item in host.attachments for address in item.addresses
    )


def _ways(there: list[dict[str, Any]], name: str) -> list[tuple[Any, Any]]:
    return [(item.get("gateway"), item.get("dev")) for item in there if item.get("dst") == name]


def _route(route: RoutePlan, there: list[dict[str, Any]]) -> Iterator[str]:
    """Exactly one, and that as planned: of two the kernel would take one."""
    single = route.to.prefixlen == route.to.max_prefixlen
    name = "default" if route.default else str(route.to.network_address if single else route.to)
    ways = _ways(there, name)
    if ways != [(str(route.via), route.interface)]:
        has = ", ".join(f"via {via} dev {device}" for via, device in ways) or "none"
        yield f"the route to {name} should be via {route.via} dev {route.interface}, it is {has}"
