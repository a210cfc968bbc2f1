"""The errors of the testbed, cut by who must act.

FedtestError
├── UsageError            the user mends the command line or the file     exit 2
│   └── ScenarioError     the file does not validate; carries all problems
├── InvalidError          the machine or the engine must be mended         exit 3
│   ├── EngineUnavailable no engine answers
│   ├── EngineError       the engine refused or failed one operation
│   │   └── SubnetTaken   an address range belongs to somebody else
│   ├── NotAsPlanned      what is there differs from what was asked for
│   ├── ImageError        an image could not be had or built
│   ├── PythonError       a Python for hosts is not there or lacks something
│   ├── DataError         a data set could not be had
│   └── DeadlineError     a wait ended; says whom it waited for
└── Interrupted           Ctrl-C or SIGTERM                                exit 130

Each is raised from the lower layer's error. What is not one of these is a
defect of fedtest (exit 4). A check that does not hold is no error: it is part
of the Result (exit 1).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network

    from fedtest.scenario.problems import Problem


class ExitCode(IntEnum):
    """What `fedtest` exits with; `docs/exit-codes.md` has a section on each."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    INTERNAL = 4
    INTERRUPTED = 130


class FedtestError(Exception):
    """Base of all errors that a user of the testbed may see.

    `remedy` says how to mend it, as one sentence or a few lines.
    """

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class UsageError(FedtestError):
    """The command line asks for something that cannot be."""

    exit_code = ExitCode.USAGE


class ScenarioError(UsageError):
    """A scenario file does not validate. `problems` holds every one, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InvalidError(FedtestError):
    """The testbed could not create what the scenario asked for."""

    exit_code = ExitCode.INVALID


class EngineUnavailable(InvalidError):
    """No engine answers; the message lists what was tried."""


class EngineError(InvalidError):
    """The engine refused or failed an operation; the message has its own words."""


class SubnetTaken(EngineError):
    """`subnet` overlaps an address range of somebody else on the engine."""

    def __init__(self, message: str, *, subnet: IPv4Network, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.subnet = subnet


class NotAsPlanned(InvalidError):
    """Read back from the hosts, names or addresses differ from the plan."""


class ImageError(InvalidError):
    """An image is not there and could not be pulled or built."""


class PythonError(InvalidError):
    """A Python environment for hosts is not there, cannot be made, or lacks what they need."""


class DataError(InvalidError):
    """A data set is not there and could not be fetched, or its checksum is wrong."""


class DeadlineError(InvalidError):
    """A wait of the testbed itself ran out; the message says whom it waited for."""


class Interrupted(FedtestError):
    """Ctrl-C or SIGTERM asked the run to end."""

    exit_code = ExitCode.INTERRUPTED


def interruption_behind(error: BaseException) -> Interrupted | None:
    """Return the Interrupted that `error` was raised from or in the handling of, or None.

    A signal may come in the middle of a library, which raises an error of its own then: the
    SDK of Docker does, and so does `threading.Condition` whose wait could not take its lock again.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Interrupted):
        cause = cause.__cause__ or cause.__context__
    return cause
