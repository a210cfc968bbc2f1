"""`value`: what processes reported; the last value under a name counts, or all over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fedtest.run.checks.finding import Finding, by_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.run.evidence import Evidence, ProcessState
    from fedtest.scenario.checks.value import Across, ValueCheck


def check_value(check: ValueCheck, evidence: Evidence) -> Finding:
    """Passes when every instance reported the value and the statement holds for all."""
    states = evidence.of_process(check.process, check.host)
    reported = {
        host: state.values[check.name]
        for host, state in states.items()
        if check.name in state.values
    }
    silent = [host for host in states if host not in reported]
    expected, found, wrong = _judge(check, states, reported)
    details = [*wrong, *(f"{host} reported no {check.name}" for host in silent)]
    if silent:
        names = sorted({name for state in states.values() for name in state.values})
        details.append(f"reported were: {', '.join(names) or 'no values at all'}")
    return Finding(
        passed=bool(reported) and not wrong and not silent,
        expected=expected,
        found=found,
        details=details,
        unknown=bool(silent) or not states,
    )


def _judge(
    check: ValueCheck, states: Mapping[str, ProcessState], reported: Mapping[str, Any]
) -> tuple[str, str, list[str]]:
    """What is expected, what was found, and what is wrong with it."""
    found = by_host({host: _short(value) for host, value in reported.items()})
    if check.each is not None:
        expected = f"{check.name} {check.each} on each host of {check.process}"
        wrong = [
            f"{host}: {_short(value)}"
            for host, value in reported.items()
            if not check.each.holds(value)
        ]
        return expected, found, wrong
    if check.across is not None:
        expected = f"{check.name} {_across(check.across)} across the hosts of {check.process}"
        return expected, *_together(check.across, reported, found)
    expected = f"{check.name} is {check.monotonic} over time on each host of {check.process}"
    histories = {host: states[host].histories[check.name] for host in reported}
    wrong = []
    for host, history in histories.items():
        broken = history.fell if check.monotonic == "increasing" else history.rose
        if broken is not None:
            number, before, after = broken
            wrong.append(f"{host}: report {number} is {_short(after)}, after {_short(before)}")
        elif history.count < 2:
            wrong.append(f"{host}: a single report, of which nothing can be said")
    return (
        expected,
        by_host({host: f"{item.count} reports" for host, item in histories.items()}),
        (wrong),
    )


def _across(across: Across) -> str:
    if across.equal:
        return "equal"
    if across.within is not None:
        return f"within {across.within:g}"
    return f"sum {across.sum}"


def _together(across: Across, reported: Mapping[str, Any], found: str) -> tuple[str, list[str]]:
    if across.equal:
        first = next(iter(reported.values()), None)
        # NaN equals nothing, itself included.
        wrong = [
            f"{host}: {value}"
            for host, value in reported.items()
            if type(value) is not type(first) or value != first
        ]
        return found, wrong
    odd = [
        f"{host}: {_short(value)} is not a number that can be compared"
        for host, value in reported.items()
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value)
    ]
    if odd or not reported:
        return found, odd
    values = list(reported.values())
    if across.within is not None:
        apart = max(values) - min(values)
        # Infinities are no distance apart that could be told.
        return f"{found} ({apart:g} apart)", [] if apart <= across.within else [f"{apart:g} apart"]
    assert across.sum is not None  # noqa: S101 - it is one of the three
    total = sum(values)
    return f"{found} (sum {total})", [] if across.sum.holds(total) else [f"the sum is {total}"]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:16]}..."
