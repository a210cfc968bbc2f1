"""Conditions without netem: the rate at the sender, loss and delay at the receiver.

htb keeps the rate. iptables' `statistic` loses packets, where they arrive:
where they leave, the sender would be told (EPERM), which no network does.
NFQUEUE hands packets to a helper that delays them, also where they arrive: TCP
counts what a sender's own machine still holds and would wait for it (small
queues). In PREROUTING, so that what a host forwards is delayed, too, and in
the mangle table, so that a firewall's rules come after it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedtest.links.shaping import queue_bytes, shape, traffic
from fedtest.links.ways import Ways

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.links.commands import Commands
    from fedtest.links.ways import Way
    from fedtest.plan import HostPlan, Plan
    from fedtest.plan_links import LinkPlan

CHAIN = "fedtest-links"
DELAY = "delay"
"""The name of the helper that delays."""

_PROGRAM = Path(__file__).with_name("inside") / "delay.py"
LISTENING = "/proc/net/netfilter/nfnetlink_queue"


class Treatment(NamedTuple):
    """What is done to a packet that arrives."""

    loss: float
    delay: float
    jitter: float


class Queue(NamedTuple):
    """Packets that are let go in the order in which they came."""

    delay: float
    jitter: float
    interface: str


def _queue(treated: Treatment, interface: str) -> Queue:
    """Where it waits. With jitter each interface has an order of its own, as its cable has."""
    return Queue(treated.delay, treated.jitter, interface if treated.jitter else "")


def _numbers(arriving: dict[str, list[tuple[Way, Treatment]]]) -> dict[Queue, int]:
    found = {
        _queue(treated, interface)
        for interface, entries in arriving.items()
        for _, treated in entries
        if treated.delay or treated.jitter
    }
    return {queue: at + 1 for at, queue in enumerate(sorted(found))}


def plan_queueing(to: Commands, ways: Ways, host: HostPlan) -> None:
    """What `host` sends by rate, and what it receives by loss and delay."""
    for item in host.attachments:
        classes = [
            entry
            for entry in traffic(ways, host.name, item)
            if entry.link.rate is not None and not (entry.target and entry.shares)
        ]
        if classes:
            shape(to, item.interface, classes, _leaf)
    arriving = {
        item.interface: [(way, _treatment(way)) for way in ways.into(host, item.network)]
        for item in host.attachments
    }
    wanted = {treated for entries in arriving.values() for _, treated in entries}
    numbers = _numbers(arriving)
    if numbers:
        to.queues += [
            f"{number}:{round(item.delay * 1e6)}:{round(item.jitter * 1e6)}"
            for item, number in numbers.items()
        ]
        to.start(
            DELAY,
            _PROGRAM,
            *to.queues,
            ready=f"[ $(grep -c . {LISTENING}) -ge {len(numbers)} ]",
        )
    if any(item != Treatment(0, 0, 0) for item in wanted):
        to.run("iptables", "-w", "-t", "mangle", "-N", CHAIN)
        for interface, entries in arriving.items():
            _rules(to, ways, interface, entries, numbers)
        to.run("iptables", "-w", "-t", "mangle", "-A", "PREROUTING", "-j", CHAIN)


def not_told_apart(plan: Plan) -> Iterator[str]:
    """Ways by which two hosts forward to a third, that are not treated alike as they must be."""
    if sum(host.forward is not None for host in plan.hosts) < 2:
        return
    ways = Ways(plan)
    for host in plan.hosts:
        for item in host.attachments:
            found = [way for way in ways.into(host, item.network) if ways.forwards(way.sender)]
            if len({_treatment(way) for way in found}) > 1:
                senders = " and ".join(way.sender for way in found)
                yield f"{host.name} on {item.network} from {senders}"


def _leaf(link: LinkPlan) -> tuple[str, dict[str, float], list[str]]:
    limit = queue_bytes(link)
    return "bfifo", {"limit": limit}, ["limit", f"{limit}b"]


def _treatment(way: Way) -> Treatment:
    link = way.link
    return Treatment(link.loss or 0, link.delay or 0, link.jitter or 0)


def _rules(
    to: Commands,
    ways: Ways,
    interface: str,
    entries: list[tuple[Way, Treatment]],
    numbers: dict[Queue, int],
) -> None:
    """Those senders that are treated as few others are come first, by their addresses.

    What is forwarded has the address of somebody else: its treatment is what is left.
    """
    if not entries:
        return
    forwarded = [treated for way, treated in entries if ways.forwards(way.sender)]
    usual = Counter(forwarded or [treated for _, treated in entries]).most_common(1)[0][0]
    for way, treated in entries:
        if treated != usual:
            whose = ("-s", f"{way.source}/32", "-i", interface)
            _treat(to, whose, treated, numbers.get(_queue(treated, interface)), last=False)
    _treat(to, ("-i", interface), usual, numbers.get(_queue(usual, interface)), last=True)


def _treat(
    to: Commands,
    whose: tuple[str, ...],
    treated: Treatment,
    queue: int | None,
    *,
    last: bool,
) -> None:
    def rule(*words: str) -> None:
        to.run("iptables", "-w", "-t", "mangle", "-A", CHAIN, *whose, *words)
        to.rules.append(("-A", CHAIN, *whose, *words))

    if treated.loss:
        rule("-m", "statistic", "--mode", "random",
             "--probability", f"{treated.loss:.10g}", "-j", "DROP")  # fmt: skip
    if queue is not None:
        # Without a helper packets pass rather than vanish; that it is there is read back.
        rule("-j", "NFQUEUE", "--queue-num", str(queue), "--queue-bypass")
    elif not last:
        rule("-j", "RETURN")
