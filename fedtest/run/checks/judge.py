"""One check, judged by the evidence as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.run.checks.exit import check_exit
from fedtest.run.checks.files import check_files
from fedtest.run.checks.log import check_log
from fedtest.run.checks.reach import check_reach
from fedtest.run.checks.sockets import check_sockets
from fedtest.run.checks.time import check_done, check_time
from fedtest.run.checks.traffic import check_traffic
from fedtest.run.checks.value import check_value
from fedtest.scenario.checks import (
    BytesCheck,
    DoneCheck,
    ExitCheck,
    FilesCheck,
    LogCheck,
    PacketsCheck,
    ReachCheck,
    SocketsCheck,
    TimeCheck,
    ValueCheck,
)

if TYPE_CHECKING:
    from fedtest.run.checks.finding import Finding
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.checks import Check
    from fedtest.scenario.model import Scenario


def judge(  # noqa: PLR0911 - a kind each
    scenario: Scenario, check: Check, evidence: Evidence
) -> Finding:
    """What its kind finds."""
    spec = check.spec
    match spec:
        case ExitCheck():
            return check_exit(spec, evidence)
        case LogCheck():
            return check_log(spec, evidence)
        case ValueCheck():
            return check_value(spec, evidence)
        case BytesCheck() | PacketsCheck():
            return check_traffic(spec, evidence)
        case SocketsCheck():
            return check_sockets(spec, scenario, evidence)
        case FilesCheck():
            return check_files(spec, evidence)
        case ReachCheck():
            return check_reach(spec, evidence)
        case TimeCheck():
            return check_time(spec, evidence)
        case DoneCheck():
            return check_done(spec, evidence)
    raise AssertionError(f"no evaluation of a check of kind {check.kind}")
