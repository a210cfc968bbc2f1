"""What several files of this suite ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from drive import Drive
from foreground import (  # noqa: F401 - fixtures of each test
    no_ci_system_reads_the_output,
    signals_of_a_foreground_job,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[..., Drive]]:
    """Makes a driver of faults that the test takes through time, and ends it."""
    made: list[Drive] = []

    def drive(*faults: str, begin: float = 0.0) -> Drive:
        made.append(Drive(tmp_path, *faults, begin=begin))
        return made[-1]

    yield drive
    for item in made:
        item.close()
