"""An engine behind `ssh`: the program is one of the test, and so is the engine."""

from __future__ import annotations

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest

import pretend_ssh
from fedtest.engine.docker.endpoint import Endpoint, EndpointUnusable
from fedtest.engine.docker.over_ssh import Remote
from fedtest.engine.docker.reach import reach
from fedtest.errors import EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION = {"ApiVersion": "1.41", "Version": "20.10", "KernelVersion": "6"}
REFUSES = """#!/bin/sh
echo Welcome to lab >&2
echo 'me@lab: Permission denied (publickey).' >&2
exit 255
"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps(VERSION if self.path.endswith("/version") else []).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "test"


class Ssh:
    """A program of that name, first on PATH."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log, self.engine, self._program = path / "log", path / "engine", path / "bin" / "ssh"
        self._program.parent.mkdir()
        monkeypatch.setenv("PATH", str(self._program.parent), prepend=":")

    def pass_on(self) -> None:
        pretend_ssh.write(self._program, engine=self.engine, log=self.log)

    def write(self, text: str) -> None:
        self._program.write_text(text, encoding="utf-8")
        self._program.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        return pretend_ssh.calls(self.log)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ssh]:
    ssh = Ssh(tmp_path, monkeypatch)
    server = socketserver.ThreadingUnixStreamServer(str(ssh.engine), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield ssh
    server.shutdown()
    server.server_close()
    thread.join()


LAB = Endpoint("ssh://me@lab:2222", "DOCKER_HOST")


def test_the_engine_is_reached_by_the_machines_own_ssh(ssh: Ssh) -> None:
    ssh.pass_on()
    client = reach(LAB)
    assert client.version["Version"] == "20.10"
    assert client.url == "ssh://me@lab:2222"
    for _ in range(3):
        assert client.api.networks() == []
        assert client.api.containers() == []
    client.close()
    options = ["-o", "ConnectTimeout=30", "-T", "-l", "me", "-p", "2222", "--", "lab"]
    # One call for the version, one for all that this thread asks.
    assert ssh.calls == [[*options, "docker system dial-stdio"]] * 2


def test_a_closed_client_leaves_no_ssh(ssh: Ssh) -> None:
    ssh.pass_on()
    client = reach(LAB)
    client.api.networks()
    assert client._dialler is not None
    started = list(client._dialler._started)
    assert started[-1].poll() is None
    client.close()
    assert all(process.poll() is not None for process in started)


def test_what_ssh_says_is_the_reason(ssh: Ssh) -> None:
    ssh.write(REFUSES)
    with pytest.raises(EngineUnavailable) as caught:
        reach(LAB)
    assert caught.value.message == (
        "no Docker engine answers. Tried DOCKER_HOST=ssh://me@lab:2222: "
        "ssh: me@lab: Permission denied (publickey)."
    )
    assert "unset DOCKER_HOST" in caught.value.remedy


def test_an_ssh_that_says_nothing_is_told_by_its_status(ssh: Ssh) -> None:
    ssh.write("#!/bin/sh\nexit 127\n")
    with pytest.raises(EngineUnavailable, match="it ended with status 127 and said nothing"):
        reach(LAB)


def test_without_the_program_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EndpointUnusable, match="needs the program ssh") as caught:
        reach(LAB)
    assert "openssh-client" in caught.value.remedy


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        ("ssh://lab", Remote("lab")),
        ("ssh://lab/", Remote("lab")),
        ("ssh://me@lab:22", Remote("lab", "me", 22)),
        ("ssh://me@[fd00::1]:22/run/user/7/docker.sock",
         Remote("fd00::1", "me", 22, "/run/user/7/docker.sock")),
    ],
)  # fmt: skip
def test_an_address_is_read_as_dockers_command_line_does(url: str, remote: Remote) -> None:
    assert Remote.parse(url) == remote


def test_another_socket_there_is_named_to_its_docker() -> None:
    command = Remote("-lab", socket="/with space").command("ssh")
    assert command[-3:] == ["--", "-lab", "docker --host 'unix:///with space' system dial-stdio"]


@pytest.mark.parametrize("url", ["ssh://", "ssh://me@", "ssh://lab:99999", "ssh://lab?x=1"])
def test_an_odd_address_is_refused(url: str) -> None:
    with pytest.raises(EndpointUnusable, match="not an address of ssh://") as caught:
        reach(Endpoint(url, "DOCKER_HOST"))
    assert caught.value.remedy == "It is ssh://[user@]host[:port][/socket]."
