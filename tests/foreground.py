"""Every suite runs as a person's job in the foreground does: each conftest imports this."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULTS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGTERM: signal.SIG_DFL,
}


@pytest.fixture(autouse=True, scope="session")
def signals_of_a_foreground_job() -> Iterator[None]:
    """Take signals that this process inherited as ignored, so that its children take them as well.

    A shell has its background jobs ignore SIGINT and SIGQUIT, `nohup` SIGHUP. Children inherit
    that, and a test that sends one of them such a signal would wait for ever.
    """
    ignored = [number for number in DEFAULTS if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, DEFAULTS[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(autouse=True, scope="session")
def no_ci_system_reads_the_output() -> None:
    """Have runs print what they print anywhere, without the groups of the system that tests us."""
    for name in ("GITHUB_ACTIONS", "GITLAB_CI"):
        os.environ.pop(name, None)
