"""What a run came to, from what was measured: the parts of its Result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.errors import ExitCode
from fedtest.run.result import FaultResult, ProcessResult, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fedtest.run.evidence import Evidence
    from fedtest.run.result import CheckResult, Problem
    from fedtest.run.secrets import Secrets

CODES = {
    Verdict.PASSED: ExitCode.PASSED,
    Verdict.FAILED: ExitCode.FAILED,
    Verdict.INVALID: ExitCode.INVALID,
}


def verdict_of(checks: Iterable[CheckResult], problems: Iterable[Problem]) -> Verdict:
    """Invalid before failed before passed."""
    verdict = Verdict.PASSED
    if not all(check.passed for check in checks):
        verdict = Verdict.FAILED
    for problem in problems:
        if verdict is not Verdict.INVALID:
            verdict = problem.verdict
    return verdict


def process_results(
    evidence: Evidence | None, directory: Path, secrets: Secrets
) -> Iterator[ProcessResult]:
    """What became of each process; `directory` is the run's."""
    states = evidence.processes if evidence else {}
    for key, state in states.items():
        yield ProcessResult(
            host=key.host,
            process=key.process,
            status=state.status,
            started=None if state.started is None else round(state.started, 3),
            ended=None if state.ended is None else round(state.ended, 3),
            log=str(state.log.path.relative_to(directory)),
            log_bytes_cut=state.log.cut,
            values=secrets.masked(dict(state.values)),
        )


def fault_results(evidence: Evidence | None, secrets: Secrets) -> Iterator[FaultResult]:
    """What became of each fault."""
    if evidence is None:
        return
    kinds = {fault.id: fault.kind for fault in evidence.plan.faults}
    for name, state in evidence.faults.items():
        yield FaultResult(
            id=name,
            kind=kinds[name],
            asked=tuple(state.asked),
            applied=tuple(state.applied),
            healed=tuple(state.healed),
            found=secrets.masked(tuple(state.found)),
        )
