"""What tests across hosts share: a connection to the engine, and runs that are removed."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.base import RunTag
from fedtest.engine.docker.client import DockerClient
from fedtest.engine.docker.engine import DockerEngine
from fedtest.engine.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def engine() -> Iterator[DockerEngine]:
    """The engine under test: DOCKER_HOST, or the default socket."""
    engine = DockerEngine()
    yield engine
    engine.close()


@pytest.fixture
def client() -> Iterator[DockerClient]:
    """The same engine, to look behind ours."""
    client = DockerClient()
    yield client
    client.close()


@pytest.fixture
def run(engine: DockerEngine) -> Iterator[RunTag]:
    """A run of this test's own; what is made under it is removed."""
    tag = RunTag(secrets.token_hex(4), "test", Owner.me())
    yield tag
    engine.destroy(tag.id, 60)
