"""A Docker engine that a context names, behind `ssh`: whole runs on it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import left_behind

import pretend_ssh
from fedtest.errors import ExitCode

if TYPE_CHECKING:
    from conftest import CommandLine

    from fedtest.engine.docker.client import DockerClient

pytestmark = pytest.mark.docker

SCENARIO = """
fedtest: 1
name: elsewhere
networks: {lan: {}}
hosts:
  a: {nics: {lan: eth0}, collect: [/tmp/found.txt]}
  b: {nics: {lan: ib0}}
processes:
  serve: {hosts: [b], run: "exec python3 -m http.server 8000", service: true}
  ask:
    hosts: [a]
    deadline: 30s
    run: |
      until python3 -c "import socket; socket.create_connection(('b', 8000), 2)"; do sleep 0.1; done
      seq 1 20000 | tee /tmp/found.txt
checks:
  - exit: {process: ask}
  - log: {process: ask, match: "^20000$"}
"""


def test_a_run_on_an_engine_behind_ssh(
    fedtest: CommandLine, client: DockerClient, tmp_path: Path
) -> None:
    if client.endpoint.socket is None:
        pytest.skip("the engine under test is elsewhere already")
    program, log, home = tmp_path / "bin" / "ssh", tmp_path / "calls", tmp_path / "docker"
    program.parent.mkdir()
    pretend_ssh.write(program, engine=Path(client.endpoint.socket), log=log)
    directory = home / "contexts" / "meta" / hashlib.sha256(b"lab").hexdigest()
    directory.mkdir(parents=True)
    meta = {"Name": "lab", "Endpoints": {"docker": {"Host": "ssh://me@lab"}}}
    (directory / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    env = (f"PATH={program.parent}:{os.environ['PATH']}", f"DOCKER_CONFIG={home}",
           "DOCKER_CONTEXT=lab")  # fmt: skip
    fedtest.engine = "auto"
    before = ("env", "-u", "DOCKER_HOST", *env)
    found = fedtest.end(
        fedtest.start("run", fedtest.scenario("elsewhere", SCENARIO), before=before)
    )
    assert found.code == ExitCode.PASSED, found.out + found.err
    engine = found.result["versions"]["engine"]
    assert engine["chosen"] == "chosen by the docker context lab (DOCKER_CONTEXT), ssh://me@lab"
    assert engine["details"]["url"] == "ssh://me@lab"
    collected = next(fedtest.runs.glob("latest/files/a/tmp/found.txt"))
    assert collected.read_text(encoding="ascii").endswith("\n20000\n")
    assert not left_behind(fedtest.run_ids()[0])
    assert {call[-2] for call in pretend_ssh.calls(log)} == {"lab"}
