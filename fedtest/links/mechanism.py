"""By what conditions are made, and which of them cannot be."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from fedtest.errors import InvalidError
from fedtest.links.queueing import not_told_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.plan import Plan
    from fedtest.plan_links import LinkPlan

_ONLY_NETEM = ("duplicate", "reorder", "corrupt")

ASK = (
    "tc qdisc add dev lo root netem delay 1ms 2>/dev/null && tc qdisc del dev lo root "
    "&& echo yes || echo no"
)
"""Tells whether the kernel has netem, where that cannot be told from outside."""


class Mechanism(StrEnum):
    """`NETEM`: all by netem. `QUEUE`: htb, iptables' statistic, and a helper behind NFQUEUE."""

    NETEM = "netem"
    QUEUE = "htb, iptables and NFQUEUE"


def mechanism(*, netem: bool) -> Mechanism:
    """By what conditions are made on a kernel with or without netem."""
    return Mechanism.NETEM if netem else Mechanism.QUEUE


def refuse_impossible(plan: Plan, chosen: Mechanism) -> None:
    """Raises InvalidError for conditions that only netem could make, if it is not there."""
    if chosen is Mechanism.NETEM:
        return
    mixed = list(not_told_apart(plan))
    if mixed:
        raise InvalidError(
            "this kernel has no netem, and without it what two hosts forward to a third cannot be "
            "told apart, so that delay, jitter and loss must be the same:\n"
            + "\n".join(f"  {line}" for line in mixed),
            remedy="Give both the same conditions, or a network of its own to each.",
        )
    found = sorted(set(_wanting(plan)))
    if found:
        raise InvalidError(
            "this kernel has no netem, and only netem can do:\n"
            + "\n".join(f"  {line}" for line in found),
            remedy="Load it (`modprobe sch_netem`; on Debian's cloud kernels and on WSL2 it is "
            "in another kernel package), run on a machine that has it, or leave these keys out. "
            "rate, delay, jitter, loss, mtu and queue need no netem.",
        )


def _wanting(plan: Plan) -> Iterator[str]:
    for host in plan.hosts:
        for item in host.attachments:
            for key in _keys(item.link):
                yield f"{key} of what {host.name} sends on {item.network}"
    for network in plan.networks:
        for pair in network.pairs:
            for key in _keys(pair.link):
                yield f"{key} from {pair.sender} to {pair.receiver} on {network.name}"


def _keys(link: LinkPlan) -> list[str]:
    return [key for key in _ONLY_NETEM if getattr(link, key) is not None]
