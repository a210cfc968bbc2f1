"""`bytes` and `packets`: what went through interfaces, by the kernel's counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding, by_host
from fedtest.scenario.checks.traffic import PacketsCheck

if TYPE_CHECKING:
    from fedtest.engine.snapshot import Interface
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.checks.files import FilesCheck
    from fedtest.scenario.checks.traffic import TrafficCheck


def check_traffic(check: TrafficCheck, evidence: Evidence) -> Finding:
    """Passes when on each host the difference after minus before lies within the bounds."""
    counts: dict[str, int] = {}
    missing = []
    for host in hosts_of(check, evidence):
        if host == check.peer:
            continue
        count = _between(check, evidence, host) if check.peer else _through(check, evidence, host)
        if isinstance(count, str):
            missing.append(f"{host}: {count}")
        else:
            counts[host] = count
    low = check.min if check.min is not None else 0
    high = check.max if check.max is not None else max(counts.values(), default=0)
    amount = packets if isinstance(check, PacketsCheck) else size
    bounds = [f"at least {amount(check.min)}"] if check.min is not None else []
    bounds += [f"at most {amount(check.max)}"] if check.max is not None else []
    verb = "sent" if check.direction == "tx" else "received"
    whom = f" {'to' if verb == 'sent' else 'from'} {check.peer}" if check.peer else ""
    return Finding(
        passed=all(low <= count <= high for count in counts.values())
        and not missing
        and bool(counts),
        expected=f"each host {verb} {' and '.join(bounds)}{whom} on {check.network}",
        found=by_host({host: amount(count) for host, count in counts.items()}),
        details=missing,
    )


def _through(check: TrafficCheck, evidence: Evidence, host: str) -> int | str:
    """By the interface's own counters; or why that cannot be said."""
    interface = evidence.plan.host(host).on(check.network).interface
    before = evidence.before[host].interfaces.get(interface)
    after = evidence.after[host].interfaces.get(interface)
    if before is None or after is None:
        return f"interface {interface} is gone, and its counters with it"
    count = _count(check, after) - _count(check, before)
    return count if count >= 0 else f"the counters of {interface} began anew: it was made again"


def _between(check: TrafficCheck, evidence: Evidence, host: str) -> int | str:
    """By rules in the host; or why that cannot be said."""
    found = evidence.pairs.get((host, check.network, check.direction, check.peer or ""))
    if found is None:
        why = "it was made again" if host in evidence.made_anew else "it could not be read"
        return f"what goes between it and {check.peer} is not known: {why}"
    return found.packets if isinstance(check, PacketsCheck) else found.bytes


def _count(check: TrafficCheck, interface: Interface) -> int:
    if isinstance(check, PacketsCheck):
        return interface.tx_packets if check.direction == "tx" else interface.rx_packets
    return interface.tx_bytes if check.direction == "tx" else interface.rx_bytes


def hosts_of(check: TrafficCheck | FilesCheck, evidence: Evidence) -> tuple[str, ...]:
    """The host, or those of the group."""
    if check.host is not None:
        return (check.host,)
    return next(group.members for group in evidence.plan.groups if group.name == check.group)


def size(count: int) -> str:
    """A number of bytes as people write it, in powers of ten as the scenario's MB."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{count} B" if unit == "B" else f"{value:.4g} {unit}"
        value /= 1000
    return f"{value:.4g} GB"


def packets(count: int) -> str:
    """A number of packets in words."""
    return "1 packet" if count == 1 else f"{count} packets"
