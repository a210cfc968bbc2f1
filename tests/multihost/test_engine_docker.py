"""The Docker engine keeps to the contract, for real."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine_contract import EngineContract

from fedtest.engine.docker.engine import DockerEngine

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestDockerEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Iterator[DockerEngine]:
        engine = DockerEngine()
        yield engine
        engine.close()
