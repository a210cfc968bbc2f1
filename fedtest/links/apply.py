"""The scripts that make conditions, one for each host that has any."""

from __future__ import annotations

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

_RESET = (
    end(DELAY),
    f"iptables -w -t mangle -D PREROUTING -j {CHAIN} 2>/dev/null || true",
    f"iptables -w -t mangle -F {CHAIN} 2>/dev/null || true",
    f"iptables -w -t mangle -X {CHAIN} 2>/dev/null || true",
)


def plan_commands(plan: Plan, chosen: Mechanism) -> dict[str, Commands]:
    """For each host the commands, which may be none, and what must then be found."""
    ways = Ways(plan)
    return {host.name: _commands(ways, host, chosen) for host in plan.hosts}


def script(commands: Commands) -> str:
    """Undoes an earlier one, makes the conditions, and prints what is there for `readback`."""
    lines = ["set -eu", *_RESET]
    for interface in commands.interfaces:
        undo = Commands()
        undo.run("tc", "qdisc", "del", "dev", interface, "root")
        undo.run("ip", "link", "set", "dev", interface, "gso_max_segs", USUAL_SEGMENTS)
        lines += [f"{undo.lines[0]} 2>/dev/null || true", undo.lines[1]]
    return "\n".join([*lines, *commands.lines, reading(commands)]) + "\n"


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
