"""Each kind of check in a file of its own: from the evidence to a CheckResult."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.exit import check_exit, check_service
from fedtest.run.checks.judge import judge
from fedtest.run.result import CheckResult
from fedtest.scenario.checks import ExitCheck

if TYPE_CHECKING:
    from fedtest.run.checks.finding import Finding
    from fedtest.run.checks.repeated import Repeated
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.model import Scenario


def evaluate(scenario: Scenario, evidence: Evidence, repeated: Repeated) -> tuple[CheckResult, ...]:
    """Every check of the scenario, in its order.

    Last, for each process that no `exit` check is about, that it ended with 0,
    or as a service ran to the end: what crashed has not passed because nobody asked.
    """
    found = []
    for number, check in enumerate(scenario.checks, 1):
        finding = repeated.finding(check) if check.repeated else judge(scenario, check, evidence)
        found.append(_result(check.id or f"{check.kind}-{number}", check.kind, finding))
    asked = {check.exit.process for check in scenario.checks if check.exit}
    for process, part in scenario.processes.items():
        if process not in asked:
            finding = (
                check_service(process, evidence)
                if part.service
                else check_exit(ExitCheck(process=process), evidence)
            )
            found.append(_result(f"exit-{process}", "exit", finding))
    return tuple(found)


def _result(check_id: str, kind: str, finding: Finding) -> CheckResult:
    return CheckResult(
        id=check_id,
        kind=kind,
        passed=finding.passed,
        expected=finding.expected,
        found=finding.found,
        details=tuple(finding.details),
    )
