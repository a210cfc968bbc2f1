"""How many files the runner may have open: three for each process, of which there may be hundreds.

What it starts has the limit that it was started with itself.
"""

from __future__ import annotations

import resource

_GIVEN = resource.getrlimit(resource.RLIMIT_NOFILE)


def allow_many() -> None:
    """As many as this process may allow itself."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_GIVEN[1], _GIVEN[1]))


def given() -> tuple[int, int]:
    """Limits as they were, the one in force and the most that may be."""
    return _GIVEN


def as_given(pid: int) -> None:
    """For a child that was started since."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, _GIVEN)
