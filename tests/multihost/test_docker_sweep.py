"""What a dead owner left is removed; what anybody else has is never touched."""

from __future__ import annotations

import dataclasses
import secrets
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine_contract import HOSTS, two_networks
from fedtest.engine.base import RunTag
from fedtest.engine.docker import labels
from fedtest.engine.docker.networks import make_networks
from fedtest.engine.owner import Owner

if TYPE_CHECKING:
    from fedtest.engine.docker.client import DockerClient
    from fedtest.engine.docker.engine import DockerEngine
    from fedtest.engine.parallel import Workers

pytestmark = pytest.mark.docker


def a_dead_owner() -> Owner:
    """A process of this machine that has just ended."""
    script = "from fedtest.engine.owner import Owner; print(Owner.me())"
    printed = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    owner = Owner.parse(printed.strip())
    assert owner is not None
    return owner


def networks_of(client: DockerClient, run_id: str) -> int:
    return len(client.api.networks(filters={"label": f"{labels.RUN}={run_id}"}))


def test_what_a_dead_owner_left_is_swept(
    client: DockerClient, workers: Workers, engine: DockerEngine
) -> None:
    dead = RunTag(secrets.token_hex(4), "dead", a_dead_owner())
    make_networks(client, workers, two_networks(HOSTS), dead, progress=print, deadline=60)
    # Another run that starts meanwhile may be quicker than we are.
    engine.sweep(60)
    assert networks_of(client, dead.id) == 0


@pytest.mark.parametrize("claim", ["machine", "pid_namespace"])
def test_what_an_owner_elsewhere_claims_is_left_alone(
    client: DockerClient, workers: Workers, engine: DockerEngine, claim: str
) -> None:
    owner = dataclasses.replace(a_dead_owner(), **{claim: "f00d"})
    elsewhere = RunTag(secrets.token_hex(4), "elsewhere", owner)
    make_networks(client, workers, two_networks(HOSTS), elsewhere, progress=print, deadline=60)
    try:
        assert elsewhere.id not in engine.sweep(60)
        assert networks_of(client, elsewhere.id) == 2
    finally:
        engine.destroy(elsewhere.id, 60)


def test_a_living_owners_run_is_left_alone(
    client: DockerClient, workers: Workers, engine: DockerEngine, run: RunTag
) -> None:
    make_networks(client, workers, two_networks(HOSTS), run, progress=print, deadline=60)
    assert run.id not in engine.sweep(60)
    assert networks_of(client, run.id) == 2
