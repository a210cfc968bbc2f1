"""What tests across hosts share: a connection to the engine, and runs that are removed."""

from __future__ import annotations

import fcntl
import json
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fedtest.engine.base import RunTag
from fedtest.engine.docker import labels
from fedtest.engine.docker.client import DockerClient
from fedtest.engine.docker.engine import DockerEngine
from fedtest.engine.owner import Owner
from fedtest.engine.parallel import Workers

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
def workers() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    workers.close()


@pytest.fixture
def run(engine: DockerEngine) -> Iterator[RunTag]:
    """A run of this test's own; what is made under it is removed."""
    tag = RunTag(secrets.token_hex(4), "test", Owner.me())
    yield tag
    engine.destroy(tag.id, 60)


@dataclass(frozen=True)
class Outcome:
    """One call of the command line."""

    code: int
    out: str
    err: str
    runs: Path

    @property
    def result(self) -> dict[str, Any]:
        """result.json of the newest run."""
        text = (self.runs / "latest" / "result.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        return found


class CommandLine:
    """`python -m fedtest`, as a user calls it, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runs = directory / "runs"

    def start(self, *words: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, sys.executable, "-m", "fedtest", *words],
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # So that a signal for it is not one for us.
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str], timeout: float = 600) -> Outcome:
        out, err = process.communicate(timeout=timeout)
        return Outcome(process.returncode, out, err, self.runs)

    def __call__(self, *words: str, timeout: float = 600) -> Outcome:
        return self.end(self.start(*words), timeout)

    def scenario(self, name: str, text: str) -> str:
        """Write a scenario file; its name for the command line."""
        path = self.directory / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        return path.name

    def run_ids(self) -> list[str]:
        """Of every run begun here."""
        return [path.name.rpartition("-")[2] for path in self.runs.glob("2*")]


@pytest.fixture
def fedtest(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test marked `alone` has the machine for itself: it measures, or has a deadline to keep.

    Readers and a writer, over the worker processes: a lock on this very file.
    """
    alone = request.node.get_closest_marker("alone") is not None
    with Path(__file__).open(encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def left_behind(client: DockerClient, run_id: str) -> list[str]:
    """Names of all that carries a run's id on the engine."""
    wanted = {"label": f"{labels.RUN}={run_id}"}
    containers = client.api.containers(all=True, filters=wanted)
    networks = client.api.networks(filters=wanted)
    volumes = client.api.volumes(filters=wanted)["Volumes"] or []
    return [
        *(name for item in containers for name in item["Names"]),
        *(item["Name"] for item in [*networks, *volumes]),
    ]
