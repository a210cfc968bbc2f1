"""Each kind of check in a file of its own: from the evidence to a CheckResult."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.bytes import check_bytes
from fedtest.run.checks.exit import check_exit
from fedtest.run.checks.sockets import check_sockets
from fedtest.run.checks.value import check_value
from fedtest.run.result import CheckResult

if TYPE_CHECKING:
    from fedtest.plan import Plan
    from fedtest.run.checks.finding import Finding
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.model import Check, Scenario


def evaluate(scenario: Scenario, evidence: Evidence) -> tuple[CheckResult, ...]:
    """Every check of the scenario, in its order."""
    found = []
    for number, check in enumerate(scenario.checks, 1):
        finding = _evaluate(scenario, check, evidence)
        found.append(
            CheckResult(
                id=check.id or f"{check.kind}-{number}",
                kind=check.kind,
                passed=finding.passed,
                expected=finding.expected,
                found=finding.found,
                details=tuple(finding.details),
            )
        )
    return tuple(found)


def hosts_to_sample(scenario: Scenario, plan: Plan) -> list[str]:
    """The hosts that must be looked at while processes run."""
    names = {check.sockets.process for check in scenario.checks if check.sockets}
    return list(dict.fromkeys(item.host for item in plan.processes if item.name in names))


def _evaluate(scenario: Scenario, check: Check, evidence: Evidence) -> Finding:
    if check.exit:
        return check_exit(check.exit, evidence)
    if check.value:
        return check_value(check.value, evidence)
    if check.bytes:
        return check_bytes(check.bytes, evidence)
    if check.sockets:
        return check_sockets(check.sockets, scenario, evidence)
    raise AssertionError(f"no evaluation of a check of kind {check.kind}")
