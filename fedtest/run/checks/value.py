"""`value`: what processes reported; the last value under a name counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding, by_host

if TYPE_CHECKING:
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.model import ValueCheck


def check_value(check: ValueCheck, evidence: Evidence) -> Finding:
    """Passes when every instance reported the value, and all hold or all are equal."""
    states = evidence.of_process(check.process, check.host)
    reported = {
        host: state.values[check.name]
        for host, state in states.items()
        if check.name in state.values
    }
    silent = [host for host in states if host not in reported]
    if check.each is not None:
        expected = f"{check.name} {check.each} on each host of {check.process}"
        wrong = [host for host, value in reported.items() if not check.each.holds(value)]
    else:
        expected = f"{check.name} equal across the hosts of {check.process}"
        first = next(iter(reported.values()), None)
        # NaN equals nothing, itself included.
        wrong = [
            host
            for host, value in reported.items()
            if type(value) is not type(first) or value != first
        ]
    details = [f"{host} reported no {check.name}" for host in silent]
    if silent:
        names = sorted({name for state in states.values() for name in state.values})
        details.append(f"reported were: {', '.join(names) or 'no values at all'}")
    return Finding(
        passed=bool(reported) and not wrong and not silent,
        expected=expected,
        found=by_host({host: _short(value) for host, value in reported.items()}),
        details=details,
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:16]}..."
