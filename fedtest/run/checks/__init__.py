"""Each kind of check in a file of its own: from the evidence to a CheckResult."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.judge import judge
from fedtest.run.result import CheckResult

if TYPE_CHECKING:
    from fedtest.run.checks.repeated import Repeated
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.model import Scenario


def evaluate(scenario: Scenario, evidence: Evidence, repeated: Repeated) -> tuple[CheckResult, ...]:
    """Every check of the scenario, in its order."""
    found = []
    for number, check in enumerate(scenario.checks, 1):
        finding = repeated.finding(check) if check.repeated else judge(scenario, check, evidence)
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
