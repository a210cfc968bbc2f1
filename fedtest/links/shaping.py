"""Classes of htb at the sender: rates, and under netem all the rest.

One class for what an interface sends, and one for each receiver that is
treated differently, found by its address with u32 (there in every kernel;
flower is not). htb(8), u32(8), tc-netem(8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtest.links.commands import Class, Filter, Leaf

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.links.commands import Commands
    from fedtest.links.ways import Ways
    from fedtest.plan import AttachmentPlan
    from fedtest.plan_links import LinkPlan

ROOT, SHARED, USUAL = "1:", "1:1", "1:2"
FIRST = 3
USUAL_SEGMENTS = 65535
"""How many packets an interface takes as one unless it is told otherwise."""
UNLIMITED = 100 * 10**9
"""Bits a second of a class that has no rate of its own."""

_MTU = 1500
_HEADER = 14
_QUEUE_SECONDS = 0.05
_LEAST_QUEUE = 15_000
_BURST_SECONDS = 0.002
_LEAST_BURST = 2 * (_MTU + _HEADER)
_AT_ONCE_SECONDS = 0.001
_MOST_SEGMENTS = 44
"""Of 1500 bytes in what TCP hands down at once, which is 64 KiB."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is treated alike: all that an interface sends, or only what it sends to `target`.

    `shares`: its rate is the interface's, with all else that shares it.
    """

    number: str
    target: str | None
    link: LinkPlan
    shares: bool


def traffic(ways: Ways, host: str, item: AttachmentPlan) -> list[Traffic]:
    """The interface's own first, then the pairs that differ."""
    found = [Traffic(USUAL, None, item.link, shares=True)] if not item.link.empty else []
    for at, pair in enumerate(ways.pairs_from(host, item.network)):
        target = str(ways.attachment(item.network, pair.receiver).address.ip)
        found.append(Traffic(f"1:{FIRST + at:x}", target, pair.link, pair.shares_rate))
    return found


def shape(
    to: Commands,
    interface: str,
    classes: list[Traffic],
    leaf: Callable[[LinkPlan], tuple[str, dict[str, float], list[str]] | None],
) -> None:
    """The root, its classes, their leaves and the filters. `leaf`: kind, options, words."""
    usual = any(item.target is None for item in classes)
    sharing = [item for item in classes if item.shares and item.link.rate is not None]
    shared = sharing if len(sharing) > 1 else []
    default = USUAL.partition(":")[2] if usual else "0"
    to.run("tc", "qdisc", "add", "dev", interface, "root", "handle", ROOT, "htb",
           "default", default)  # fmt: skip
    if shared:
        rate = shared[0].link.rate
        assert rate is not None  # noqa: S101 - they were chosen by it
        _class(to, interface, ROOT, SHARED, rate=rate, ceil=rate)
    for item in classes:
        rate = item.link.rate or UNLIMITED
        if item in shared:
            _class(to, interface, SHARED, item.number, rate=rate // len(shared), ceil=rate)
        else:
            _class(to, interface, ROOT, item.number, rate=rate, ceil=rate)
        if (below := leaf(item.link)) is not None:
            kind, options, words = below
            handle = f"1{item.number.removeprefix(ROOT):0>3}:"
            to.run("tc", "qdisc", "add", "dev", interface, "parent", item.number,
                   "handle", handle, kind, *words)  # fmt: skip
            to.leaves.append(Leaf(interface, item.number, kind, tuple(options.items())))
        if item.target is not None:
            to.run("tc", "filter", "add", "dev", interface, "parent", ROOT, "protocol", "ip",
                   "prio", 1, "u32", "match", "ip", "dst", f"{item.target}/32",
                   "flowid", item.number)  # fmt: skip
            to.filters.append(Filter(interface, item.target, item.number))


def _class(to: Commands, interface: str, parent: str, number: str, *, rate: int, ceil: int) -> None:
    burst = max(int(ceil / 8 * _BURST_SECONDS), _LEAST_BURST)
    to.run("tc", "class", "add", "dev", interface, "parent", parent, "classid", number, "htb",
           "rate", f"{rate}bit", "ceil", f"{ceil}bit", "burst", f"{burst}b",
           "cburst", f"{burst}b", "quantum", 60_000)  # fmt: skip
    to.classes.append(Class(interface, number, ceil))


def queue_bytes(link: LinkPlan) -> int:
    """How much may wait for the rate."""
    if link.queue is not None:
        return link.queue
    return max(int((link.rate or 0) / 8 * _QUEUE_SECONDS), _LEAST_QUEUE)


def queue_packets(link: LinkPlan) -> int:
    """netem's limit: what waits for the rate, and what is on its way meanwhile."""
    if link.rate is None:
        return 100_000
    on_way = link.rate / 8 * ((link.delay or 0) + (link.jitter or 0))
    return int(1000 + (queue_bytes(link) + on_way) / (_MTU + _HEADER))


def segments(link: LinkPlan) -> int | None:
    """How many packets TCP may hand down as one, if fewer than usual.

    What is handed down as one is lost as one: 64 KB at 1 % of loss is not what
    a network does. And at a low rate it would hold up others for long.
    """
    if link.loss or link.duplicate or link.reorder or link.corrupt:
        return 1
    if link.rate is None:
        return None
    fit = at_once_packets(link.rate)
    return fit if fit < _MOST_SEGMENTS else None


def at_once_packets(rate: int) -> int:
    """How many packets are sent in so short a time that they may as well go as one."""
    return max(int(rate / 8 * _AT_ONCE_SECONDS / (_MTU + _HEADER)), 1)
