"""When the moments of faults come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.moments import describe, first, happened
from fedtest.scenario.moments import FaultMoment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fedtest.plan_faults import FaultPlan
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.faults.triggers import Occasion


def came(
    occasion: Occasion | FaultMoment, evidence: Evidence, start: float, now: float
) -> float | None:
    """When it first was, at `start` or later; of bytes, `now` if so many have gone by."""
    if isinstance(occasion, FaultMoment) or occasion.bytes is None:
        return first(happened(occasion, evidence, start))
    host = evidence.plan.host(occasion.host or "")
    item = host.on(occasion.network or "")
    counts = []
    for moment in (evidence.before, evidence.after):
        there = moment.get(host.name)
        interface = there.interfaces.get(item.interface) if there else None
        if interface is None:
            return None
        sent = occasion.direction == "tx"
        counts.append(interface.tx_bytes if sent else interface.rx_bytes)
    return now if counts[1] - counts[0] >= occasion.bytes else None


def described(occasion: Occasion | FaultMoment) -> str:
    """It in words."""
    if isinstance(occasion, FaultMoment) or occasion.bytes is None:
        return describe(occasion)
    verb = "sends" if occasion.direction == "tx" else "receives"
    return f"{occasion.host} {verb} {occasion.bytes} bytes on {occasion.network}"


def hosts_watched(faults: Iterable[FaultPlan]) -> list[str]:
    """The hosts whose counters some fault waits for."""
    occasions = [item for fault in faults for item in (fault.when, fault.until)]
    return [
        item.host
        for item in occasions
        if item is not None
        and not isinstance(item, FaultMoment)
        and item.bytes is not None
        and item.host is not None
    ]
