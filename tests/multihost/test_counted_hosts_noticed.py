"""Of several hosts with names by index one is lost: the run is invalid, and says which it was."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conftest import left_behind, run_with

from fedtest.engine.choose import open_engine
from fedtest.engine.docker import labels
from fedtest.engine.docker.client import DockerClient
from fedtest.engine.netns import channel
from fedtest.engine.netns.launch import KEEPER
from fedtest.engine.netns.state import RunPlace
from fedtest.run.observer import Observer
from fedtest.run.result import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.base import Engine, ProcessKey, RunTag
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import Plan

TEXT = """
fedtest: 1
name: counted
deadline: 300s
networks: {net: {}}
hosts: {worker: {nics: {net: eth0}, count: 3}}
processes:
  p: {hosts: [worker-1], run: "echo here; exec sleep 300"}
  others: {hosts: [worker-0, worker-2], run: "echo here; exec sleep 300", service: true}
"""
LOST = "worker-1"


def first_process(run_id: str, host: str) -> int:
    """The host's, as this machine counts: of the keeper's children the one with its number."""
    place = RunPlace(run_id)
    keeper = (place.path / KEEPER).read_text(encoding="ascii").split()[0]
    with channel.connect(place.keeper_socket, 60) as connection:
        channel.send(connection, {"do": "hosts", "names": [host]})
        number = str(channel.receive(connection)[0][host]["pid"])
    for path in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):
            told = dict(line.split(":", 1) for line in path.read_text("utf-8").splitlines())
            if told["PPid"].strip() == keeper and told["NSpid"].split()[-2:] == [number, "1"]:
                return int(path.parent.name)
    raise AssertionError(f"{host} has no first process")


def kill(pid: int) -> None:
    """Returns when it has ended."""
    process = os.pidfd_open(pid)
    signal.pidfd_send_signal(process, signal.SIGKILL)
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    assert waiting.poll(60_000)
    os.close(process)


class Losing:
    """An engine that can lose a host: it is removed as by somebody else."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.engine: Engine = open_engine(name)
        self.run: RunTag | None = None
        self._original = self.engine.realise
        self.engine.realise = self.realise  # type: ignore[method-assign, assignment]

    def realise(self, plan: Plan, run: RunTag, *rest: Any) -> Mapping[str, Snapshot]:
        self.run = run
        return self._original(plan, run, *rest)

    def lose(self) -> None:
        assert self.run is not None
        if self.name == "docker":
            client = DockerClient()
            client.api.remove_container(labels.container_name(self.run.id, LOST), force=True)
            client.close()
        else:
            kill(first_process(self.run.id, LOST))


class LeavingOut(Losing):
    """It never makes the host."""

    def realise(self, plan: Plan, run: RunTag, *rest: Any) -> Mapping[str, Snapshot]:
        made = tuple(host for host in plan.hosts if host.name != LOST)
        assert len(made) == len(plan.hosts) - 1
        return super().realise(replace(plan, hosts=made), run, *rest)


class LosingAtOnce(Losing):
    """It makes the host, tells of it, and has lost it by then."""

    def realise(self, plan: Plan, run: RunTag, *rest: Any) -> Mapping[str, Snapshot]:
        found = super().realise(plan, run, *rest)
        self.lose()
        return found


class LoseWhenAllRun(Observer):
    def __init__(self, losing: Losing) -> None:
        self._losing = losing
        self._running: set[str] = set()

    def line(self, key: ProcessKey, stream: str, text: str) -> None:
        del stream, text
        self._running.add(key.host)
        if len(self._running) == 3:
            self._losing.lose()


def problem(runs: Path, losing: Losing, observer: Observer | None = None) -> str:
    result = run_with(losing.engine, TEXT, runs, observer)
    assert result.verdict is Verdict.INVALID
    assert left_behind(result.id) == []
    return "\n".join(item.message for item in result.problems)


def test_one_that_is_not_made_is_named(tmp_path: Path, engine_name: str) -> None:
    found = problem(tmp_path, LeavingOut(engine_name))
    assert "host worker-1: is not there" in found
    assert "worker-0" not in found


def test_one_that_is_gone_when_processes_are_to_start_is_named(
    tmp_path: Path, engine_name: str
) -> None:
    found = problem(tmp_path, LosingAtOnce(engine_name))
    assert "worker-1" in found
    assert {"docker": "No such container", "netns": "is off"}[engine_name] in found
    assert "worker-0" not in found


def test_one_that_is_lost_while_processes_run_is_named(tmp_path: Path, engine_name: str) -> None:
    losing = Losing(engine_name)
    found = problem(tmp_path, losing, LoseWhenAllRun(losing))
    assert "host worker-1: went away during the run" in found
    assert "worker-0" not in found
