"""What a run came to. Every reporter, and the exit code, is made from this alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.base import EngineInfo
    from fedtest.errors import ExitCode


class Verdict(StrEnum):
    """`invalid`: the testbed could not do what the scenario asked, so nothing is known."""

    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check, measured. `expected` and `found` are sentences for a person.

    `details`: further lines, the log's for example.
    """

    id: str
    kind: str
    passed: bool
    expected: str
    found: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """One process. `status` None: it was still running when the run ended, or never started.

    `started` and `ended` count from the run's beginning, in seconds; `started` is null
    if it was not started.
    """

    host: str
    process: str
    status: int | None
    started: float | None
    ended: float | None
    log: str
    log_bytes_cut: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FaultResult:
    """One fault: when it was to come, was seen to be in effect, and to be over.

    Times in seconds from the run's beginning; a fault that is repeated has
    several. `found`: what was measured each time, in words.
    """

    id: str
    kind: str
    asked: tuple[float, ...]
    applied: tuple[float, ...]
    healed: tuple[float, ...]
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage of the run and how long it took, in seconds."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a run did not pass, other than a check: what, how to mend it, the end of a log.

    `verdict`: what the run is because of it.
    """

    verdict: Verdict
    message: str
    remedy: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Saved:
    """Files in the run's directory that were saved because the run failed, and what they have."""

    what: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """A file of a host that was copied to `file` in the run's directory.

    `size`: the copy's, in bytes; where a secret is masked, the host's file has another.
    """

    host: str
    path: str
    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Result:
    """One run. `seconds` in all, clean-up included; `directory` has its artifacts."""

    id: str
    scenario: str
    verdict: Verdict
    exit_code: ExitCode
    started: str
    seconds: float
    directory: str
    problems: tuple[Problem, ...]
    checks: tuple[CheckResult, ...]
    processes: tuple[ProcessResult, ...]
    stages: tuple[StageResult, ...]
    versions: Mapping[str, Any] = field(default_factory=dict)
    saved: tuple[Saved, ...] = ()
    faults: tuple[FaultResult, ...] = ()
    collected: tuple[Collected, ...] = ()

    @property
    def engine(self) -> str:
        """Which engine it was and, where nobody asked for that one, why; nothing if none was."""
        info: EngineInfo | None = self.versions.get("engine")
        if info is None:
            return ""
        return f"{info.kind} {info.version}" + (f" ({info.chosen})" if info.chosen else "")
