"""What `tox` says before it makes anything, on machines that have this and lack that."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import preflight

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
ALL = ["lint", "unit", "node", "multihost"]
TOOLS = {"apt-get", "dockerd", "ip", "tc", "iptables"}


@dataclass
class Fresh(preflight.Machine):
    """A Debian with these programs, and an engine that does or does not answer."""

    env: Mapping[str, str] = field(default_factory=dict)
    version: tuple[int, ...] = (3, 11)
    system: str = "linux"
    root: bool = True
    programs: frozenset[str] = frozenset(TOOLS)
    venv: bool = True
    why: str = "No such file or directory"
    systemd: bool = True

    def has(self, program: str) -> bool:
        return program in self.programs

    def makes_environments(self) -> bool:
        return self.venv

    def has_systemd(self) -> bool:
        return self.systemd

    def context(self) -> str:
        return self.env.get("DOCKER_CONTEXT", "")

    def why_no_answer(self, address: str) -> str:
        return self.why


def test_one_line_installs_all_that_is_missing() -> None:
    bare = Fresh(programs=frozenset({"apt-get"}), venv=False)
    assert preflight.problem(ALL, bare) == (
        "dockerd, ip, tc, iptables, ensurepip are not installed: apt-get update && apt-get install "
        "--yes --no-install-recommends docker.io iproute2 iptables python3-venv"
    )


def test_a_plain_user_is_told_to_use_sudo_and_to_join_the_group_of_the_engine() -> None:
    told = preflight.problem(ALL, Fresh(root=False, programs=frozenset({"apt-get", "ip", "tc"})))
    assert told.startswith("dockerd, iptables are not installed: sudo sh -c 'apt-get update && ")
    assert "docker.io iptables && usermod -aG docker " in told
    assert told.endswith("', then log in again")


def test_packages_are_named_where_there_is_no_apt_get() -> None:
    told = preflight.problem(["multihost"], Fresh(programs=frozenset(TOOLS - {"apt-get", "ip"})))
    assert told == "ip is not installed: install what your system calls iproute2"


def test_what_else_is_wrong_is_in_the_same_line() -> None:
    told = preflight.problem(ALL, Fresh(root=False, programs=frozenset(TOOLS - {"tc"})))
    assert told.startswith("tc is not installed: sudo sh -c 'apt-get update && ")
    assert told.endswith("iproute2'; no Docker engine runs, and only root starts one: "
                         "sudo systemctl start docker")  # fmt: skip


@pytest.mark.parametrize("names", [["lint"], ["unit"], ["lint", "unit", "soak"]])
def test_environments_without_hosts_demand_nothing(names: list[str]) -> None:
    assert preflight.problem(names, Fresh(system="darwin", programs=frozenset(), venv=False)) == ""


def test_the_node_environment_demands_an_engine_alone() -> None:
    assert preflight.problem(["node"], Fresh(programs=frozenset({"dockerd"}), venv=False)) == ""


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (Fresh(), ""),  # root starts what is installed
        (Fresh(why="", root=False), ""),
        (Fresh(why="", programs=frozenset(TOOLS - {"dockerd"})), ""),
        (Fresh(env={"DOCKER_CONTEXT": "there"}, programs=frozenset(TOOLS - {"dockerd"})), ""),
        (Fresh(root=False), "only root starts one: sudo systemctl start docker"),
        (Fresh(root=False, systemd=False), "only root starts one: sudo service docker start"),
        (Fresh(root=False, why="Permission denied"), "sudo usermod -aG docker"),
        (
            Fresh(env={"DOCKER_HOST": "tcp://there:1"}, why="Connection refused"),
            "nobody answers at DOCKER_HOST=tcp://there:1 (Connection refused): mend or unset it",
        ),
        (
            Fresh(env={"DOCKER_HOST": "tcp://me:hunter2@there:1"}, why="Connection refused"),
            "DOCKER_HOST=tcp://me:***@there:1 (",
        ),
        (Fresh(system="darwin"), "hosts need Linux"),
        (Fresh(version=(3, 10)), "Python 3.11 or later"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(machine: Fresh, words: str) -> None:
    told = preflight.problem(ALL, machine)
    assert words in told
    assert bool(told) == bool(words)
    assert "\n" not in told


def test_whether_an_engine_answers_is_found_out(tmp_path: Path) -> None:
    machine = preflight.Machine({})
    address = f"unix://{tmp_path}/sock"
    assert machine.why_no_answer(address) == "No such file or directory"
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(f"{tmp_path}/sock")
        assert machine.why_no_answer(address) == "Connection refused"
        engine.listen()
        assert machine.why_no_answer(address) == ""
    with socket.create_server(("127.0.0.1", 0)) as engine:
        address = f"tcp://127.0.0.1:{engine.getsockname()[1]}"
        assert machine.why_no_answer(address) == ""
    assert machine.why_no_answer(address) == "Connection refused"
    assert machine.why_no_answer("ssh://there") == ""  # tox itself will find out


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"currentContext": "there"}', "there"), ('{"currentContext": "default"}', ""), ("[]", "")],
)
def test_the_current_context_is_the_command_lines(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    assert preflight.Machine({"DOCKER_CONFIG": str(tmp_path)}).context() == name
    chosen = {"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "default"}
    assert preflight.Machine(chosen).context() == ""


def test_each_environment_of_tox_says_what_it_downloads() -> None:
    text = (ROOT / "tox.ini").read_text(encoding="utf-8")
    sections = [line[9:-1] for line in text.splitlines() if line.startswith("[testenv:")]
    assert set(sections) == set(preflight.DOWNLOADS)
    told = preflight.downloads(["node", "multihost"])
    assert sum("node image" in item for item in told) == 1


@pytest.mark.parametrize("words", [["-e", "multihost"], []], ids=["chosen", "by default"])
def test_tox_ends_before_it_makes_anything(tmp_path: Path, words: list[str]) -> None:
    work = tmp_path / "work"
    done = tox(work, "run", *words)
    assert done.returncode == preflight.INVALID, done
    (line,) = done.stderr.splitlines()
    assert "nobody answers at DOCKER_HOST=unix:///nowhere (No such file or directory)" in line
    assert not list(work.rglob("pyvenv.cfg"))


@pytest.mark.parametrize("words", [["list"], ["-l"], ["run", "--skip-env", "node|multi|unit|lint"]])
def test_tox_that_runs_no_hosts_is_not_kept_from_it(tmp_path: Path, words: list[str]) -> None:
    assert "nobody answers" not in tox(tmp_path / "work", *words).stderr


def tox(work: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tox", "-c", str(ROOT), "--workdir", str(work), *words],
        capture_output=True, text=True, timeout=200, check=False,
        env={"PATH": os.environ["PATH"], "DOCKER_HOST": "unix:///nowhere", "HOME": str(work)},
    )  # fmt: skip
