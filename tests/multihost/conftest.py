"""What tests across hosts share: a connection to the engine, and runs that are removed."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from node_python import have_hosts_run_it

from fedtest.engine.base import RunTag
from fedtest.engine.choose import open_engine
from fedtest.engine.docker import labels
from fedtest.engine.docker.client import DockerClient
from fedtest.engine.netns import limits, state
from fedtest.engine.owner import Owner
from fedtest.engine.parallel import Workers
from fedtest.errors import EngineUnavailable
from fedtest.run.observer import Observer
from fedtest.run.runner import Runner
from fedtest.run.schema import schema
from fedtest.scenario.load import loads
from foreground import (  # noqa: F401 - fixtures of each test
    no_ci_system_reads_the_output,
    signals_of_a_foreground_job,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedtest.engine.base import Engine
    from fedtest.run.result import Result

ENGINES = ("docker", "netns")
DEADLINE = 1200.0
"""Seconds of a test: some make whole runs one after the other, or an image first."""
_RESULTS = jsonschema.Draft202012Validator(schema())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", choices=ENGINES, help="only on this one (default: on both)")


def pytest_configure() -> None:
    have_hosts_run_it()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What uses an engine is tested on both, but for what is marked with the name of one."""
    marked = [name for name in ENGINES if metafunc.definition.get_closest_marker(name)]
    names = marked or ENGINES
    only = metafunc.config.getoption("--engine")
    if "engine_name" in metafunc.fixturenames:
        chosen = [name for name in names if only in (None, name)]
        metafunc.parametrize("engine_name", chosen, scope="function")


def engines_of(item: pytest.Item) -> set[str]:
    """Return the engines that a test is for: those that it, or its case, is marked with, or all."""
    marked = {mark.name for mark in item.iter_markers()} & set(ENGINES)
    return marked or set(ENGINES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    only = config.getoption("--engine")

    def wanted(item: pytest.Item) -> bool:
        # A single case may be marked, which is known only now.
        case = getattr(item, "callspec", None)
        engine = case.params.get("engine_name") if case is not None else None
        return {engine, only} - {None} <= engines_of(item)

    left = [item for item in items if wanted(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = left
    for item in items:
        if item.get_closest_marker("measures") is not None:
            item.add_marker(pytest.mark.flaky(reruns=1))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(DEADLINE))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the machine has not the means for; see the marker `needs`."""
    needed = {name for mark in item.iter_markers("needs") for name in mark.args}
    assert needed <= {"cgroups", "ipv6"}, needed
    if "ipv6" in needed and not Path("/proc/sys/net/ipv6").is_dir():
        pytest.skip("this kernel has no IPv6")
    params = item.callspec.params if hasattr(item, "callspec") else {}
    netns = params.get("engine_name") == "netns" or item.get_closest_marker("netns") is not None
    if "cgroups" in needed and netns and (why := limits.cannot(limits.CONTROLLERS)):
        pytest.skip(f"no control groups can be made for hosts here: {why}")


@pytest.fixture
def engine(engine_name: str) -> Iterator[Engine]:
    """The engine under test; Docker's by DOCKER_HOST, or at the default socket."""
    engine = open_engine(engine_name)
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
def run(engine: Engine) -> Iterator[RunTag]:
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
        """result.json of the newest run, which keeps to its published schema."""
        text = (self.runs / "latest" / "result.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        _RESULTS.validate(found)
        return found


class CommandLine:
    """`python -m fedtest`, as a user calls it, in a directory of its own."""

    def __init__(self, directory: Path, engine: str) -> None:
        self.directory = directory
        self.engine = engine
        self.runs = directory / "runs"
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *words: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        chosen = ["--engine", self.engine] if words[0] == "run" else []
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "fedtest", *words, *chosen],
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # So that a signal for it is not one for us.
            start_new_session=True,
        )
        self.started.append(process)
        return process

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
def fedtest(tmp_path: Path, engine_name: str) -> Iterator[CommandLine]:
    line = CommandLine(tmp_path, engine_name)
    yield line
    # A test that failed leaves no run behind that others would wait for.
    for process in line.started:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def run_with(engine: Engine, text: str, runs: Path, observer: Observer | None = None) -> Result:
    """A run of the scenario on this very engine, which a test may have bent."""
    return Runner(loads(text).scenario, lambda: engine, observer or Observer(), runs).run()


def left_behind(run_id: str) -> list[str]:
    """Names of all that carries a run's id, on either engine."""
    return [*_on_docker(run_id), *map(str, state.base().glob(f"{run_id}*")), *limits.tops(run_id)]


def _on_docker(run_id: str) -> list[str]:
    try:
        client = DockerClient()
    except EngineUnavailable:
        return []
    wanted = {"label": f"{labels.RUN}={run_id}"}
    try:
        containers = client.api.containers(all=True, filters=wanted)
        networks = client.api.networks(filters=wanted)
        volumes = client.api.volumes(filters=wanted)["Volumes"] or []
    finally:
        client.close()
    return [
        *(name for item in containers for name in item["Names"]),
        *(item["Name"] for item in [*networks, *volumes]),
    ]
