"""What a host lets in, and which of its ports something has taken.

After the measuring of links: a firewall would keep the probe out.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.links.commands import Commands
from fedtest.links.shell import end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedtest.plan import HostPlan, Plan
    from fedtest.plan_links import FirewallPlan

CHAIN = "fedtest-firewall"
_TAKEN, _TRIAL = "listen", "trial"
_LISTEN = Path(__file__).with_name("inside") / "listen.py"
_CONNECT = Path(__file__).with_name("inside") / "connect.py"
_TRIAL_PORTS = range(47114, 65536)
_ANSWERS = {"wrong": "answered", "nothing": "silent"}
_OTHERWISE = {"reject": "refused", "drop": "unanswered"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A connection that is tried from `origin`, and what must become of it."""

    origin: str
    host: str
    address: str
    port: int
    expected: str

    def __str__(self) -> str:
        return f"a connection from {self.origin} to port {self.port} of {self.host}"


def wanted(plan: Plan) -> list[HostPlan]:
    """The hosts that have a firewall or taken ports."""
    return [host for host in plan.hosts if host.firewall is not None or host.ports_in_use]


def plan_admission(host: HostPlan) -> Commands:
    """Takes ports and stands up the firewall.

    For the time of the attempts something listens at an open and at a closed
    port, because a port where nobody listens refuses just like a firewall.
    """
    found = Commands()
    if host.ports_in_use:
        ports = [f"{item.port}:{item.answers}" for item in host.ports_in_use]
        _listen(found, _TAKEN, ports)
    if host.firewall is not None:
        if trial := _trial_ports(host, host.firewall):
            _listen(found, _TRIAL, [f"{port}:nothing" for port in trial])
        found.shell(f"iptables -w -F {CHAIN} 2>/dev/null || iptables -w -N {CHAIN}")
        for rule in rules(host.firewall):
            found.run("iptables", "-w", *rule)
        for interface in host.firewall.interfaces:
            jump = shlex.join(_jump(interface))
            found.shell(f"iptables -w -C INPUT {jump} 2>/dev/null || iptables -w -A INPUT {jump}")
    return found


def script(commands: Commands) -> str:
    """Does it, and prints the rules that are there then."""
    return "\n".join(["set -eu", *commands.lines, "iptables -w -S"]) + "\n"


def after_attempts() -> str:
    """Script that ends what listened for the attempts alone."""
    return end(_TRIAL)


def rules(firewall: FirewallPlan) -> list[tuple[str, ...]]:
    """The chain's rules, as iptables prints them."""
    answers = ("-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED")
    found: list[tuple[str, ...]] = [("-A", CHAIN, *answers, "-j", "ACCEPT")]
    for first, last in firewall.accept:
        ports = str(first) if first == last else f"{first}:{last}"
        found += [
            ("-A", CHAIN, "-p", kind, "-m", kind, "--dport", ports, "-j", "ACCEPT")
            for kind in ("tcp", "udp")
        ]
    for kind, refusal in (("tcp", "tcp-reset"), ("udp", "icmp-port-unreachable")):
        verdict: tuple[str, ...] = ("REJECT", "--reject-with", refusal)
        if firewall.otherwise == "drop":
            verdict = ("DROP",)
        found.append(("-A", CHAIN, "-p", kind, "-j", *verdict))
    return found


def differences(host: HostPlan, told: str) -> list[str]:
    """What of the firewall is not as asked for; `told` is what `script` printed."""
    if host.firewall is None:
        return []
    there = [tuple(shlex.split(line)) for line in told.splitlines() if line.startswith("-A ")]
    found = []
    if [rule for rule in there if rule[1] == CHAIN] != rules(host.firewall):
        found.append(f"the rules of {CHAIN} are not those asked for: {told.strip() or 'none'}")
    found += [
        f"what comes in by {interface} does not come by {CHAIN}"
        for interface in host.firewall.interfaces
        if ("-A", "INPUT", *_jump(interface)) not in there
    ]
    return found


def attempts(plan: Plan) -> list[Attempt]:
    """Connections that tell whether it works: from a peer to a firewall, from within to a port."""
    found = []
    for host in wanted(plan):
        inside = next((str(item.address.ip) for item in host.attachments if item.ipv4), "127.0.0.1")
        found += [
            Attempt(host.name, host.name, inside, item.port, _ANSWERS[item.answers])
            for item in host.ports_in_use
        ]
        if host.firewall is None:
            continue
        for item in host.attachments:
            peer = _peer(plan, host, item.network)
            if peer is None or not item.ipv4 or item.interface not in host.firewall.interfaces:
                continue
            found += [
                Attempt(
                    peer, host.name, str(item.address.ip), port,
                    "silent" if _is_open(host.firewall, port)
                    else _OTHERWISE[host.firewall.otherwise],
                )
                for port in _trial_ports(host, host.firewall)
            ]  # fmt: skip
    return found


def trying(some: Sequence[Attempt]) -> str:
    """Script that tries connections and prints what became of each."""
    places = [f"{item.address}:{item.port}" for item in some]
    return shlex.join(["python3", "-c", _CONNECT.read_text(encoding="utf-8"), *places])


def outcomes(told: str) -> list[str]:
    """What `trying` printed; nothing if that cannot be read."""
    try:
        found = json.loads(told)
    except ValueError:
        return []
    return [str(item) for item in found] if isinstance(found, list) else []


def _listen(to: Commands, name: str, ports: list[str]) -> None:
    numbers = " or ".join(f"sport = :{port.partition(':')[0]}" for port in ports)
    ready = f"[ $(ss -Hltn '( {numbers} )' | grep -c .) -ge {len(ports)} ]"
    to.start(name, _LISTEN, *ports, ready=ready)


def _jump(interface: str) -> tuple[str, ...]:
    return ("-i", interface, "-j", CHAIN)


def _trial_ports(host: HostPlan, firewall: FirewallPlan) -> list[int]:
    """One that is open and one that is not, neither taken."""
    taken = {item.port for item in host.ports_in_use}
    opened = (port for first, last in firewall.accept for port in range(first, last + 1))
    closed = (port for port in _TRIAL_PORTS if not _is_open(firewall, port))
    some = (next((port for port in ports if port not in taken), None) for ports in (opened, closed))
    return [port for port in some if port is not None]


def _is_open(firewall: FirewallPlan, port: int) -> bool:
    return any(first <= port <= last for first, last in firewall.accept)


def _peer(plan: Plan, host: HostPlan, network: str) -> str | None:
    return next(
        (
            other.name
            for other in plan.hosts
            if other is not host
            and any(item.network == network and item.ipv4 for item in other.attachments)
        ),
        None,
    )
