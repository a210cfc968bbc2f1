"""The scripts that make conditions, one for each host that has any."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from fedtest.links.commands import Commands
from fedtest.links.mechanism import Mechanism
from fedtest.links.netem import plan_netem
from fedtest.links.queueing import CHAIN, DELAY, plan_queueing
from fedtest.links.readback import reading
from fedtest.links.shaping import USUAL_SEGMENTS, segments
from fedtest.links.shell import end
from fedtest.links.ways import Ways

if TYPE_CHECKING:
    from fedtest.plan import HostPlan, Plan

_RULES = "iptables"
_TABLE = "iptables -w -t mangle"
_NEXT = f"{CHAIN}-next"


def plan_commands(plan: Plan, chosen: Mechanism) -> dict[str, Commands]:
    """For each host the commands, which may be none, and what must then be found."""
    ways = Ways(plan)
    return {host.name: _commands(ways, host, chosen) for host in plan.hosts}


def script(commands: Commands, before: Commands | None = None) -> str:
    """Makes the conditions, and prints what is there for `readback`.

    With those `before` given, that are there, only what differs is made anew: other ways of
    the host keep what they have all the time. Else all that there may be is undone first.
    """
    lines = ["set -eu"]
    for interface in commands.interfaces:
        about = f"dev {interface}"
        wanted = commands.part(about)
        if before is None or before.part(about) != wanted:
            undo = Commands()
            undo.run("tc", "qdisc", "del", "dev", interface, "root")
            undo.run("ip", "link", "set", "dev", interface, "gso_max_segs", USUAL_SEGMENTS)
            lines += [f"{undo.lines[0]} 2>/dev/null || true", undo.lines[1], *wanted]
    lines += _arriving(commands, before)
    return "\n".join([*lines, reading(commands)]) + "\n"


def _arriving(commands: Commands, before: Commands | None) -> list[str]:
    """The helper that delays and the rules, which are of use only together."""
    helper, rules = commands.part(DELAY), commands.part(_RULES)
    if before is None or before.part(DELAY) != helper:
        return [end(DELAY), *_no_rules(), *helper, *rules]
    if before.part(_RULES) == rules:
        return []
    if rules and before.part(_RULES):
        return _other_rules(commands)
    return [*_no_rules(), *rules]


def _no_rules() -> list[str]:
    return [
        f"{_TABLE} {words} 2>/dev/null || true"
        for chain in (CHAIN, _NEXT)
        for words in (f"-D PREROUTING -j {chain}", f"-F {chain}", f"-X {chain}")
    ]


def _other_rules(commands: Commands) -> list[str]:
    """In place of those that are there, without a moment in which there are none."""
    rules = (shlex.join(words) for _, _, *words in commands.rules)
    return [
        f"{_TABLE} -N {_NEXT}",
        *(f"{_TABLE} -A {_NEXT} {rule}" for rule in rules),
        f"{_TABLE} -I PREROUTING -j {_NEXT}",
        f"{_TABLE} -D PREROUTING -j {CHAIN}",
        f"{_TABLE} -F {CHAIN}",
        f"{_TABLE} -X {CHAIN}",
        f"{_TABLE} -E {_NEXT} {CHAIN}",
    ]


def _commands(ways: Ways, host: HostPlan, chosen: Mechanism) -> Commands:
    found = Commands([item.interface for item in host.attachments])
    for item in host.attachments:
        if item.mtu is not None:
            found.size(item.interface, "mtu", item.mtu)
        pairs = [pair.link for pair in ways.pairs_from(host.name, item.network)]
        fewest = [count for link in (item.link, *pairs) if (count := segments(link)) is not None]
        if fewest:
            found.size(item.interface, "gso_max_segs", min(fewest))
    make = plan_netem if chosen is Mechanism.NETEM else plan_queueing
    make(found, ways, host)
    return found
