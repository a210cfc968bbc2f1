"""Connections to the engine are few, however long a run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_contract import DEADLINE, HOSTS, EngineContract

if TYPE_CHECKING:
    from fedtest.engine.base import RunTag
    from fedtest.engine.docker.engine import DockerEngine

pytestmark = pytest.mark.docker


def test_looking_again_and_again_opens_no_more_files(engine: DockerEngine, run: RunTag) -> None:
    EngineContract().made(engine, run)
    for _ in range(8):
        engine.observe(run, HOSTS, DEADLINE)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(30):
        engine.observe(run, HOSTS, DEADLINE)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 4
