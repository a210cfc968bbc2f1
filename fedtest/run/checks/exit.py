"""`exit`: the status with which a process ended."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding, by_host

if TYPE_CHECKING:
    from fedtest.run.evidence import Evidence, ProcessState
    from fedtest.scenario.model import ExitCheck

_LAST = 10


def check_exit(check: ExitCheck, evidence: Evidence) -> Finding:
    """Passes when every instance of the process ended with `code`."""
    states = evidence.of_process(check.process, check.host)
    wrong = {host: state for host, state in states.items() if state.status != check.code}
    details = []
    for host, state in wrong.items():
        details.append(f"the end of {check.process}'s log on {host}:")
        details += [f"  {line}" for line in state.log.last[-_LAST:]]
    return Finding(
        passed=bool(states) and not wrong,
        expected=f"{check.process} exits with {check.code}",
        found=by_host({host: describe(state) for host, state in states.items()}),
        details=details,
    )


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
