"""What a process in a container has as environment is held against what the scenario says."""

import pytest

from fedtest.engine.base import ProcessKey
from fedtest.engine.docker import processes
from fedtest.errors import NotAsPlanned

KEY = ProcessKey("a", "work")


@pytest.mark.parametrize(
    ("wanted", "told", "why"),
    [
        ({"A": "1"}, b"A=2\0", "A should be '1', it is '2'"),
        ({"A": "1"}, b"B=1\0", "A should be '1', it is not set"),
        ({"A": "1"}, b"", "its environment could not be read back"),
    ],
)
def test_what_differs_or_cannot_be_read_is_told(
    wanted: dict[str, str], told: bytes, why: str
) -> None:
    with pytest.raises(NotAsPlanned, match=why):
        processes._confirm(KEY, tuple(wanted.items()), told)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, b""),
        ({"A": "1=2\n"}, b"A=1=2\n\0B=3\0"),
        # Bash has counted for what it started, and will count back for what it becomes.
        ({"SHLVL": "3", "A": ""}, b"SHLVL=4\0A=\0"),
    ],
)
def test_what_is_as_it_should_be_is_not(wanted: dict[str, str], told: bytes) -> None:
    processes._confirm(KEY, tuple(wanted.items()), told)
