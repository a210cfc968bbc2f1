"""`exit`: the status with which a process ended."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding, by_host

if TYPE_CHECKING:
    from fedtest.run.evidence import Evidence, ProcessState
    from fedtest.scenario.checks.exit import ExitCheck

_LAST = 10


def check_exit(check: ExitCheck, evidence: Evidence) -> Finding:
    """Passes when every instance of the process ended as it should."""
    states = evidence.of_process(check.process, check.host)
    wrong = {
        host: state
        for host, state in states.items()
        if state.status is None or not _holds(check, state.status)
    }
    details = []
    for host, state in wrong.items():
        details.append(f"the end of {check.process}'s log on {host}:")
        details += [f"  {line}" for line in state.log.last[-_LAST:]]
    return Finding(
        passed=bool(states) and not wrong,
        expected=_expected(check),
        found=by_host({host: describe(state) for host, state in states.items()}),
        details=details,
    )


def _holds(check: ExitCheck, status: int) -> bool:
    if check.signal is not None:
        return status == 128 + signal.Signals[check.signal]
    return status == 0 if check.code is None else check.code.holds(status)


def _expected(check: ExitCheck) -> str:
    if check.signal is not None:
        return f"{check.process} is ended by {check.signal}"
    return f"{check.process} exits with {0 if check.code is None else check.code}"


def describe(state: ProcessState) -> str:
    """The status in words where it has some."""
    if state.status is None:
        return "did not end"
    if state.status > 128:
        try:
            return f"{state.status} ({signal.Signals(state.status - 128).name})"
        except ValueError:
            pass
    return str(state.status)
