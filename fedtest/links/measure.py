"""What is measured on which way, when, and how the probe is asked for it.

Not every pair of hosts: each conditioned attachment is measured against one
peer, and each pair that has a condition of its own. Measurements of one round
share no host, so that they do not disturb each other, and together send no
more than a small machine can.
"""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtest.links.shaping import at_once_packets, queue_bytes
from fedtest.links.shell import background, end
from fedtest.links.ways import Ways

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedtest.links.ways import Way
    from fedtest.plan import Plan

PORT = 47113
_PROBE = "probe"
_PROGRAM = Path(__file__).with_name("inside") / "probe.py"

_AT_ONCE = 8
"""Measurements of a round: as many as an engine runs scripts side by side."""
_MOST_RATE = 10**9
"""Bits a second that the measurements of a round send together, unless one alone is faster."""

_HEADERS = 28  # IP and UDP
_USUAL_MTU = 1500
_FLOW_SECONDS, _LONGEST_FLOW = 0.4, 6.0
_FLOW_PACKETS = 30
_FLOW_BYTES = 64_000_000
_MOST_AT_ONCE = 64_000
_UNSENT = 0.7
"""Of the queue, how much the sender may fill: the kernel allows for twice what it is told, and
counts about half as much again for a packet as it is long."""
_LOST = 25
"""Packets to lose: then even four standard deviations fewer are some."""
_MOST_PACKETS = 25_000
_PACKETS_PER_SECOND = 8_000
_PACKET_BITS = 8 * (14 + _HEADERS + 29)
_LONGEST_LOSSES = 4.0
_TRIPS, _MOST_TRIPS = 20, 400
_TRIP_INTERVAL = 0.005
_LONGEST_TRIPS = 5.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """One way to be measured, and the way back, which a round trip takes, too."""

    way: Way
    back: Way
    mtu: int

    def __str__(self) -> str:
        return str(self.way)

    def order(self) -> dict[str, Any]:
        """What the probe on the sending host is asked for."""
        link, back = self.way.link, self.back.link
        wait = 0.25 + 1.5 * _there_and_back(self)
        order: dict[str, Any] = {"target": str(self.way.target), "wait": round(wait, 3)}
        arriving = (1 - lost_share(link)) * (1 - lost_share(back))
        if link.delay or back.delay:
            jitter = max(link.jitter or 0, back.jitter or 0)
            interval = max(_TRIP_INTERVAL, 2 * jitter)
            count = min(math.ceil(_TRIPS / max(arriving, 0.001)), _MOST_TRIPS)
            count = max(min(count * (2 if jitter else 1), int(_LONGEST_TRIPS / interval)), 10)
            order["round_trips"] = {"count": count, "interval": round(interval, 6)}
        if link.loss or link.corrupt or link.duplicate:
            rarest = min(item for item in (lost_share(link), link.duplicate) if item)
            interval = max(1 / _PACKETS_PER_SECOND, 2 * _PACKET_BITS / (link.rate or math.inf))
            count = min(math.ceil(_LOST / rarest), _MOST_PACKETS, int(_LONGEST_LOSSES / interval))
            order["losses"] = {"count": count, "interval": round(interval, 6)}
        if link.rate:
            payload = self.mtu - _HEADERS
            at_once = max(min(at_once_packets(link.rate), _MOST_AT_ONCE // payload), 1)
            seconds = max(_FLOW_SECONDS, _FLOW_PACKETS * 8 * (self.mtu + 14) / link.rate)
            order["rate"] = {
                "seconds": round(min(seconds, _LONGEST_FLOW, _FLOW_BYTES * 8 / link.rate), 4),
                "payload": payload,
                "at_once": at_once,
                "unsent": int(_UNSENT * queue_bytes(link)),
            }
        return order


def lost_share(link: Any) -> float:
    """Of packets that arrive nowhere: what is lost, and what arrives corrupt and is discarded."""
    return 1.0 - (1.0 - (link.loss or 0.0)) * (1.0 - (link.corrupt or 0.0))


def _there_and_back(item: Measurement) -> float:
    link, back = item.way.link, item.back.link
    return sum(part or 0 for part in (link.delay, link.jitter, back.delay, back.jitter))


def measurements(plan: Plan) -> list[Measurement]:
    """Every way that is measured: of an attachment to its next peer, and of each pair."""
    ways = Ways(plan)
    return [
        _measurement(ways, way) for way in _chosen(ways) if way.link.probe and _tells(ways, way)
    ]


def _chosen(ways: Ways) -> Iterator[Way]:
    for network in ways.networks:
        members = ways.members(network.name)
        for at, sender in enumerate(members):
            others = [*members[at + 1 :], *members[:at]]
            towards = [ways.way(network.name, sender, other) for other in others]
            usual = next((way for way in towards if not way.own), None)
            if usual is not None:
                yield usual
            yield from (way for way in towards if way.own)


def _tells(ways: Ways, way: Way) -> bool:
    return len(_measurement(ways, way).order()) > 2  # more than target and wait


def _measurement(ways: Ways, way: Way) -> Measurement:
    sizes = [
        ways.attachment(way.network, host).mtu or _USUAL_MTU for host in (way.sender, way.receiver)
    ]
    return Measurement(way, ways.way(way.network, way.receiver, way.sender), min(sizes))


def rounds(wanted: Sequence[Measurement]) -> Iterator[list[Measurement]]:
    """All of them, in as few rounds as comes of taking each into the first it fits in."""
    left = list(wanted)
    while left:
        taken: list[Measurement] = []
        busy: set[str] = set()
        rate = 0
        for item in left:
            hosts = {item.way.sender, item.way.receiver}
            more = item.way.link.rate or 0
            fits = not taken or (
                not hosts & busy and rate + more <= _MOST_RATE and len(taken) < _AT_ONCE
            )
            if fits:
                taken.append(item)
                busy |= hosts
                rate += more
        left = [item for item in left if item not in taken]
        yield taken


def serving() -> str:
    """Script that starts the probe's other end in a host."""
    return background(
        _PROBE, _PROGRAM, "serve", str(PORT),
        ready=f"ss -Hlun 'sport = :{PORT}' | grep -q .",
    )  # fmt: skip


def no_longer_serving() -> str:
    """Script that ends it."""
    return end(_PROBE)


def asking(orders: Sequence[dict[str, Any]]) -> str:
    """Script that measures, and prints a list of answers as JSON."""
    program = _PROGRAM.read_text(encoding="utf-8")
    asked = json.dumps({"port": PORT, "orders": list(orders)})
    return shlex.join(["python3", "-c", program, "ask", asked])


def answers(told: str) -> dict[str, Any]:
    """What `asking` for one order printed; empty if that cannot be read."""
    try:
        found = json.loads(told)
    except ValueError:
        return {}
    return found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}


def let_in() -> str:
    """Script by which a firewall lets the probe in; what a fault bars stays out."""
    return (
        "place=$(( $(iptables -w -S INPUT | grep -c -- '-j fedtest-faults$' || true) + 1 ))\n"
        f"iptables -w -I INPUT $place {_ACCEPT}\n"
    )


def keep_out() -> str:
    """Script that undoes it."""
    return f"iptables -w -D INPUT {_ACCEPT} 2>/dev/null || true\n"


_ACCEPT = f"-p udp --dport {PORT} -j ACCEPT"
