"""`exit`: the status with which a process ended."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from fedtest.run.checks.finding import Finding, by_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.run.evidence import Evidence, ProcessState
    from fedtest.scenario.checks.exit import ExitCheck
    from fedtest.scenario.model import Scenario

_LAST = 10


def check_exit(check: ExitCheck, evidence: Evidence) -> Finding:
    """Passes when every instance of the process ended as it should."""
    states = evidence.of_process(check.process, check.host)
    wrong = {
        host: state
        for host, state in states.items()
        if state.status is None or not _holds(check, state.status)
    }
    return Finding(
        passed=bool(states) and not wrong,
        expected=_expected(check),
        found=by_host(
            {host: describe(state) + evidence.starved(host) for host, state in states.items()}
        ),
        details=_ends(check.process, wrong),
    )


def check_service(process: str, evidence: Evidence) -> Finding:
    """Passes when every instance ran until it was asked to end."""
    states = evidence.of_process(process)
    wrong = {host: state for host, state in states.items() if state.asked is None}
    found = {
        host: describe(state)
        if state.asked is None
        else f"asked to end after {state.asked - (state.started or 0.0):.1f} s"
        for host, state in states.items()
    }
    return Finding(
        passed=bool(states) and not wrong,
        expected=f"{process} runs until it is asked to end",
        found=by_host(found),
        details=_ends(process, wrong),
    )


def expected(scenario: Scenario, process: str, host: str, state: ProcessState) -> bool:
    """Whether the status with which a process just ended is what checks want."""
    checks = [check.exit for check in scenario.checks if check.exit]
    about = [check for check in checks if check.process == process]
    if not about:
        return state.asked is not None or (state.status == 0 and not state.plan.service)
    here = [check for check in about if check.host in (None, host)]
    return all(state.status is not None and _holds(check, state.status) for check in here)


def _ends(process: str, states: Mapping[str, ProcessState]) -> list[str]:
    details = []
    for host, state in states.items():
        details.append(f"the end of {process}'s log on {host}:")
        details += [f"  {line}" for line in state.log.last[-_LAST:]]
    return details


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
        return "never started" if state.started is None else "did not end"
    if state.status > 128:
        try:
            return f"{state.status} ({signal.Signals(state.status - 128).name})"
        except ValueError:
            pass
    return str(state.status)
