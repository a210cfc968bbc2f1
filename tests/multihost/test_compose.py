"""compose/ring.yaml is the same job without fedtest, and it works.

Needs an engine that names interfaces (28.1) and a Compose that says so (2.36);
FEDTEST_COMPOSE is the command, "docker compose" if it is not set.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.docker.hosts import API_NAMES
from fedtest.values import parse

if TYPE_CHECKING:
    from conftest import CommandLine

    from fedtest.engine.docker.client import DockerClient

pytestmark = pytest.mark.docker

FILE = Path(__file__).parents[2] / "compose" / "ring.yaml"


def compose_command() -> list[str]:
    """The command, or the test is skipped where there is none that is new enough."""
    command = shlex.split(os.environ.get("FEDTEST_COMPOSE", "docker compose"))
    try:
        told = subprocess.run(
            [*command, "version", "--short"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no Compose here")
    numbers = [int(number) for number in re.findall(r"\d+", told)[:2]]
    if numbers < [2, 36]:
        pytest.skip(f"Compose {told.strip()} cannot name interfaces")
    return command


# It has the addresses of the scenarios, too.
@pytest.mark.measures
def test_the_compose_file_trains_over_the_named_interfaces(
    fedtest: CommandLine, client: DockerClient
) -> None:
    if client.api_version < API_NAMES:
        pytest.skip("this engine cannot name interfaces at a container's creation")
    command = [*compose_command(), "-f", str(FILE)]
    image, data = fedtest("image"), fedtest("data", "mnist", "--volume")
    names = {"FEDTEST_NODE": image.out.strip(), "FEDTEST_MNIST": data.out.strip()}
    env = {**os.environ, **names, "DOCKER_HOST": client.url}
    try:
        up = subprocess.run(
            [*command, "up", "--no-color"], env=env, capture_output=True, text=True,
            timeout=400, check=False,
        )  # fmt: skip
        listed = subprocess.run(
            [*command, "ps", "-a", "--format", "json"], env=env, capture_output=True, text=True,
            timeout=60, check=True,
        ).stdout  # fmt: skip
    finally:
        subprocess.run([*command, "down", "-t", "0"], env=env, timeout=120, check=True)
    assert up.returncode == 0, up.stdout + up.stderr
    ended = [json.loads(line) for line in listed.splitlines()]
    assert {item["Service"]: item["ExitCode"] for item in ended} == dict.fromkeys(
        ["server1", "server2", "server3", "server4"], 0
    )
    values: dict[str, dict[str, object]] = {}
    for line in up.stdout.splitlines():
        host, _, text = line.partition("|")
        if reported := parse(text.strip()):
            values.setdefault(reported[0], {})[host.strip()] = reported[1]
    assert sorted(map(str, values["interface"].values())) == ["enps1", "ens3f0", "eth0", "ib0"]
    assert len(set(values["params_sha256"].values())) == 1
    assert all(float(str(value)) >= 0.97 for value in values["test_accuracy"].values())
