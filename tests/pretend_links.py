"""What scripts for hosts' networks would print if all were well, for runs on the fake engine."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedtest.engine.fake import Defects, FakeEngine
from fedtest.links import admission, apply, measure
from fedtest.links.mechanism import Mechanism
from fedtest.links.queueing import CHAIN
from fedtest.links.shaping import USUAL_SEGMENTS
from fedtest.plan import make_plan
from fedtest.scenario.load import loads
from fedtest.subnets import choose

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.links.commands import Commands
    from fedtest.links.measure import Measurement
    from fedtest.plan import Plan


def plan_of(text: str) -> Plan:
    """A scenario's plan, with subnets of some run."""
    scenario = loads(text).scenario
    return make_plan(scenario, choose(scenario, "run", ()))


def read_back(commands: Commands) -> str:
    """What `readback.reading` would find after these commands."""
    lines = []
    for at, name in enumerate(commands.interfaces):
        shaped = any(item.interface == name for item in commands.classes)
        qdiscs: list[dict[str, Any]] = [
            {"kind": "htb", "handle": "1:", "root": True}
            if shaped
            else {"kind": "noqueue", "handle": "0:", "root": True}
        ]
        qdiscs += [
            {"kind": item.kind, "parent": item.parent, "options": dict(item.options)}
            for item in commands.leaves
            if item.interface == name
        ]
        sizes = {"mtu": 1500, "gso_max_segs": USUAL_SEGMENTS} | commands.sizes.get(name, {})
        lines += [f"==> {at} link <==", json.dumps([sizes])]
        lines += [f"==> {at} qdiscs <==", json.dumps(qdiscs), f"==> {at} classes <=="]
        lines += [
            f"class htb {item.number} root prio 0 rate {item.rate}bit ceil {item.rate}bit burst 1b"
            for item in commands.classes
            if item.interface == name
        ]
        lines += [f"==> {at} filters <=="]
        for item in commands.filters:
            digits = "".join(f"{int(part):02x}" for part in item.address.split("."))
            if item.interface == name:
                lines += [f"filter u32 flowid {item.number} x", f"  match {digits}/ffffffff at 16"]
    lines += ["==> rules <==", "-P PREROUTING ACCEPT"]
    lines += [f"-A PREROUTING -j {CHAIN}"] if commands.rules else []
    lines += [*map(shlex.join, commands.rules), "==> queues <=="]
    lines += [f"    {item.partition(':')[0]}  100 0 1 0 0 0 0 1" for item in commands.queues]
    lines += ["==> delays <==", *commands.queues]
    return "\n".join(lines) + "\n"


def perfect(item: Measurement) -> dict[str, Any]:
    """What the probe would find on a way that is as asked for."""
    order, link = item.order(), item.way.link
    answer: dict[str, Any] = {}
    if "round_trips" in order:
        whole = (link.delay or 0) + (item.back.link.delay or 0)
        jitter = (link.jitter or 0) + (item.back.link.jitter or 0)
        count = order["round_trips"]["count"]
        answer["round_trips"] = [
            whole + 0.0003 + jitter * (2 * at / (count - 1) - 1) * 0.7 for at in range(count)
        ]
    lost = measure.lost_share(link)
    if "losses" in order:
        arrived = round(order["losses"]["count"] * (1 - lost))
        answer["losses"] = {"distinct": arrived, "twice": round(arrived * (link.duplicate or 0))}
    if "rate" in order:
        answer["rate"] = {"rate": (link.rate or 0) * (1 - lost)}
    return answer


@dataclass
class Pretender:
    """Answers as hosts would; a test bends an answer of the probe, or of reading back."""

    bend_probe: Callable[[Measurement, dict[str, Any]], dict[str, Any]] = lambda _, answer: answer
    bend_reading: Callable[[str, str], str] = lambda _, text: text
    bend_attempts: Callable[[list[str]], list[str]] = lambda found: found
    netem: bool = False
    engine: FakeEngine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = FakeEngine(Defects(answer=self.answer))

    @property
    def plan(self) -> Plan:
        return next(iter(self.engine.realised.values()))

    def answer(self, host: str, script: str) -> str:
        if "echo yes" in script:
            return "yes\n" if self.netem else "no\n"
        if "==> 0 link <==" in script:
            chosen = Mechanism.NETEM if self.netem else Mechanism.QUEUE
            commands = apply.plan_commands(self.plan, chosen)[host]
            return self.bend_reading(host, read_back(commands))
        if '"orders"' in script:
            return self._probe(host, script)
        if "TO_CONNECT" in script:
            wanted = [
                item.expected for item in admission.attempts(self.plan) if item.origin == host
            ]
            return json.dumps(self.bend_attempts(wanted))
        if "iptables -w -S" in script:
            return self.bend_reading(host, self._firewall(host))
        return ""

    def _probe(self, host: str, script: str) -> str:
        orders = json.loads(shlex.split(script)[-1])["orders"]
        ways = [item for item in measure.measurements(self.plan) if item.way.sender == host]
        found = []
        for order in orders:
            item = next(item for item in ways if item.order() == order)
            found.append(self.bend_probe(item, perfect(item)))
        return json.dumps(found)

    def _firewall(self, host: str) -> str:
        firewall = self.plan.host(host).firewall
        if firewall is None:
            return ""
        jumps = [("-A", "INPUT", "-i", name, "-j", admission.CHAIN) for name in firewall.interfaces]
        return "\n".join(shlex.join(rule) for rule in [*jumps, *admission.rules(firewall)])


def shown(commands: Commands) -> str:
    """The commands as people read them, addresses of our own range left out."""
    return re.sub(r"198\.1[89]\.\d+\.(\d+)", r"NET.\1", "\n".join(commands.shown))
