"""Packets that are dropped where they arrive, whatever else a host lets in.

In a chain of our own, first in INPUT and FORWARD, so that links' delay and
loss come before it and a firewall after it. The whole chain is put in place at
once, so that nothing slips through between two sets of rules.

What comes by IPv6 is dropped by ip6tables. Where that does not work it is not
needed if the host has no IPv6 address: on a kernel without IPv6, for one.
Neighbours find each other all the same, as by ARP, which is no packet of IPv4.
"""

from __future__ import annotations

import shlex
from ipaddress import ip_address
from typing import TYPE_CHECKING

from fedtest.links.shell import IPTABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fedtest.plan import HostPlan
    from fedtest.plan_links import BarrierPlan

CHAIN = "fedtest-faults"
_HOOKS = ("INPUT", "FORWARD")
_END = "FEDTEST_RULES"
_ADDRESSES6 = "/proc/net/if_inet6"
_NO_IPV6 = "no IPv6"
_MOST_PORTS = 7
"""Ranges of ports that one rule of iptables' multiport can hold."""

Rule = tuple[str, ...]

_NEIGHBOURS: tuple[Rule, ...] = tuple(
    ("-A", CHAIN, "-p", "ipv6-icmp", "-m", "icmp6", "--icmpv6-type", kind, "-j", "RETURN")
    for kind in ("135", "136")
)


def script(host: HostPlan) -> str:
    """Puts the host's barriers up, in place of earlier ones, and prints the rules that are there.

    Without barriers what is left of them is removed.
    """
    four, six = (_family(host, family) for family in (4, 6))
    lines = ["set -eu", *four]
    lines.append("if ip6tables -w -S >/dev/null 2>&1 ||")
    lines.append(f"  grep -qsv ' lo$' {_ADDRESSES6}; then")
    lines += [*six, f"else echo '{_NO_IPV6}'; fi"]
    return "\n".join(lines) + "\n"


def _family(host: HostPlan, family: int) -> list[str]:
    command = IPTABLES[family]
    if rules := list(_rules(host.barriers, family)):
        text = "\n".join(["*filter", f":{CHAIN} - [0:0]", *map(shlex.join, rules), "COMMIT"])
        lines = [f"{command}-restore -w --noflush <<'{_END}'\n{text}\n{_END}"]
        lines += [
            f"{command} -w -C {hook} -j {CHAIN} 2>/dev/null || {command} -w -I {hook} 1 -j {CHAIN}"
            for hook in _HOOKS
        ]
    else:
        lines = [f"{command} -w -D {hook} -j {CHAIN} 2>/dev/null || true" for hook in _HOOKS]
        lines += [f"{command} -w -{letter} {CHAIN} 2>/dev/null || true" for letter in "FX"]
    return [*lines, f"{command} -w -S 2>/dev/null || true"]


def differences(host: HostPlan, told: str) -> list[str]:
    """What is not as asked for; `told` is what `script` printed."""
    there = [_words(line[3:]) for line in told.splitlines() if line.startswith("-A ")]
    found = [("-A", *rule) for rule in there if rule[:1] == (CHAIN,)]
    families = (4,) if _NO_IPV6 in told.splitlines() else (4, 6)
    wanted = [rule for family in families for rule in _rules(host.barriers, family)]
    jumps = [rule for rule in there if rule[-1:] == (CHAIN,) and rule[0] in _HOOKS]
    used = sum(any(True for _ in _rules(host.barriers, family)) for family in families)
    if found == wanted and len(jumps) == 2 * used:
        return []
    listed = "; ".join(map(shlex.join, found)) or "none"
    return [f"the rules of {CHAIN} should be {_shown(wanted)}, they are {listed}"]


def _words(rule: str) -> Rule:
    try:
        return tuple(shlex.split(rule))
    except ValueError:  # not as iptables writes it
        return tuple(rule.split())


def _shown(rules: Iterable[Rule]) -> str:
    return "; ".join(map(shlex.join, rules)) or "none"


def _rules(barriers: Iterable[BarrierPlan], family: int) -> Iterator[Rule]:
    """As iptables prints them, so that they can be compared."""
    mine = [
        item
        for item in barriers
        if item.source is None or ip_address(item.source).version == family
    ]
    if family == 6 and any(item.ports is None for item in mine):
        yield from _NEIGHBOURS
    for item in mine:
        match: Rule = ()
        if item.source is not None:
            match += ("-s", f"{item.source}/{32 if family == 4 else 128}")
        if item.interface is not None:
            match += ("-i", item.interface)
        if item.ports is None:
            yield ("-A", CHAIN, *match, "-j", "DROP")
            continue
        for kind, refusal in (("tcp", "tcp-reset"), ("udp", _UNREACHABLE[family])):
            verdict: Rule = ("DROP",)
            if item.answer == "reject":
                verdict = ("REJECT", "--reject-with", refusal)
            for at in range(0, len(item.ports), _MOST_PORTS):
                some = item.ports[at : at + _MOST_PORTS]
                ports = ",".join(str(a) if a == b else f"{a}:{b}" for a, b in some)
                which = ("-m", "multiport", "--dports", ports)
                yield ("-A", CHAIN, *match, "-p", kind, *which, "-j", *verdict)


_UNREACHABLE = {4: "icmp-port-unreachable", 6: "icmp6-port-unreachable"}
