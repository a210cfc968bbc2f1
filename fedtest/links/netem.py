"""Conditions by netem, all at the sender: it knows egress only (tc-netem(8)).

Not tested on a kernel that has it, only as a plan of commands: the kernels
that this is built on have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.links.shaping import queue_packets, shape, traffic

if TYPE_CHECKING:
    from fedtest.links.commands import Commands
    from fedtest.links.ways import Ways
    from fedtest.plan import HostPlan
    from fedtest.plan_links import LinkPlan


def plan_netem(to: Commands, ways: Ways, host: HostPlan) -> None:
    """What `host` sends, on each interface with conditions."""
    for item in host.attachments:
        if classes := traffic(ways, host.name, item):
            shape(to, item.interface, classes, _leaf)


def _leaf(link: LinkPlan) -> tuple[str, dict[str, float], list[str]] | None:
    if link.empty:
        return None
    limit = queue_packets(link)
    options: dict[str, float] = {"limit": limit}
    words = ["limit", str(limit)]
    if link.delay is not None:
        options["delay"] = link.delay
        words += ["delay", _microseconds(link.delay)]
        if link.jitter is not None:
            options["jitter"] = link.jitter
            words.append(_microseconds(link.jitter))
    for key in ("loss", "duplicate", "reorder", "corrupt"):
        share = getattr(link, key)
        if share is not None:
            options[key] = share
            words += [key, *(["random"] if key == "loss" else []), f"{share * 100:.10g}%"]
    return "netem", options, words


def _microseconds(seconds: float) -> str:
    return f"{round(seconds * 1_000_000)}us"
