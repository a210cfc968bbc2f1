"""What `engine ensure` decides, on machines that are made up."""

import hashlib
import json

import pytest

from fedtest.engine.docker.endpoint import Endpoint
from fedtest.engine.docker.ensure import ensure
from fedtest.engine.docker.reach import reason, unreachable
from fedtest.errors import DeadlineError, EngineError, EngineUnavailable


class FakeMachine:
    """A machine without a running engine. `starts_with`: the command that brings one."""

    def __init__(
        self,
        *,
        env=None,
        dockerd=True,
        root=True,
        debian=True,
        systemd=False,
        service=None,
        starts_with="dockerd",
        fails=(),
        error="No such file or directory",
    ):
        self.env = {"HOME": "/nonexistent", **(env or {})}
        self.dockerd, self.root, self.debian, self.systemd = dockerd, root, debian, systemd
        self.service, self.starts_with, self.fails = service, starts_with, fails
        self.error, self.up, self.ran = error, False, []

    def engine_version(self):
        if self.up:
            return "20.10"
        raise EngineUnavailable(f"asking: {self.error}")

    def which(self, program):
        return f"/usr/sbin/{program}" if program != "dockerd" or self.dockerd else None

    def is_root(self):
        return self.root

    def is_debian(self):
        return self.debian

    def has_systemd(self):
        return self.systemd

    def services(self):
        if self.systemd:
            yield "systemd", ["systemctl", "start", "docker"]
        elif self.service:
            yield "its init script", ["service", "docker", "start"]

    def run(self, command, timeout):
        line = " ".join(command)
        self.ran.append(line)
        if any(line.startswith(failing) for failing in self.fails):
            return 1, "  it says no"
        if "install" in command:
            self.dockerd = True
        if line.startswith(self.starts_with):
            self.up = True
        return 0, ""

    def wait_for_engine(self, timeout):
        if not self.up:
            raise DeadlineError("the engine did not answer")
        return self.engine_version()

    def start_dockerd(self, timeout):
        self.ran.append("dockerd")
        if "dockerd" in self.fails:
            raise EngineError("dockerd ended with status 1:\n  its log's end")
        self.up = True
        return 42, "20.10"


@pytest.fixture(autouse=True)
def private(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def quiet(_):
    pass


def refused(machine, **options):
    with pytest.raises(EngineUnavailable) as caught:
        ensure(quiet, machine=machine, **options)
    assert caught.value.remedy
    return f"{caught.value.message}\n{caught.value.remedy}"


def test_one_that_runs_is_left_alone():
    machine = FakeMachine()
    machine.up = True
    assert str(ensure(quiet, machine=machine)) == "Docker Engine 20.10: was running already"
    assert machine.ran == []


def test_systemd_starts_it():
    machine = FakeMachine(systemd=True, starts_with="systemctl")
    assert ensure(quiet, machine=machine).started_by == "systemd"
    assert machine.ran == ["systemctl start docker"]


def test_the_init_script_starts_it():
    machine = FakeMachine(service=True, starts_with="service")
    assert ensure(quiet, machine=machine).started_by == "its init script"


def test_by_hand_when_the_init_script_fails():
    machine = FakeMachine(service=True, fails=("service",))
    done = ensure(quiet, machine=machine)
    assert (done.started_by, done.pid) == ("hand", 42)
    assert machine.ran == ["service docker start", "dockerd"]


def test_not_by_hand_beside_systemd():
    machine = FakeMachine(systemd=True, fails=("systemctl",))
    assert "journalctl" in refused(machine)
    assert machine.ran == ["systemctl start docker"]


def test_a_service_that_brings_no_engine():
    assert "did not answer" in refused(FakeMachine(service=True))


def test_everything_that_was_tried_is_told():
    said = refused(FakeMachine(service=True, fails=("service", "dockerd")))
    assert "it says no" in said
    assert "its log's end" in said


def test_none_installed():
    machine = FakeMachine(dockerd=False)
    assert "--install" in refused(machine)
    assert machine.ran == []


def test_install_then_start():
    machine = FakeMachine(dockerd=False)
    done = ensure(quiet, install=True, machine=machine)
    assert done.installed
    assert done.started_by == "hand"
    assert machine.ran == [
        "apt-get update -q",
        "apt-get install -q -y --no-install-recommends docker.io iptables",
        "dockerd",
    ]


def test_install_starts_it_itself():
    machine = FakeMachine(dockerd=False, starts_with="apt-get install")
    assert ensure(quiet, install=True, machine=machine).started_by == "its package"


def test_install_installs_nothing_that_is_there():
    machine = FakeMachine()
    assert not ensure(quiet, install=True, machine=machine).installed
    assert machine.ran == ["dockerd"]


@pytest.mark.parametrize("step", ["apt-get update", "apt-get install"])
def test_apt_fails(step):
    said = refused(FakeMachine(dockerd=False, fails=(step,)), install=True)
    assert step in said
    assert "it says no" in said


def test_install_elsewhere_and_without_root():
    assert "Debian" in refused(FakeMachine(dockerd=False, debian=False), install=True)
    assert "root" in refused(FakeMachine(dockerd=False, root=False), install=True)
    assert "root" in refused(FakeMachine(root=False))


def context(path, url):
    """The environment in which a docker context of that address is the current one."""
    directory = path / "contexts" / "meta" / hashlib.sha256(b"lab").hexdigest()
    directory.mkdir(parents=True)
    meta = {"Name": "lab", "Endpoints": {"docker": {"Host": url}}}
    (directory / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    (path / "config.json").write_text('{"currentContext": "lab"}', encoding="ascii")
    return {"DOCKER_CONFIG": str(path)}


@pytest.mark.parametrize("install", [True, False])
def test_an_engine_elsewhere_is_not_ours_to_start(install):
    machine = FakeMachine(env={"DOCKER_HOST": "tcp://far:2375"})
    assert "DOCKER_HOST=tcp://far:2375" in refused(machine, install=install)
    assert machine.ran == []


@pytest.mark.parametrize("install", [True, False])
def test_nor_is_one_that_a_context_names(install, tmp_path):
    machine = FakeMachine(env=context(tmp_path, "tcp://far:2375"))
    said = refused(machine, install=install)
    assert "the docker context lab (set by `docker context use`), tcp://far:2375" in said
    assert machine.ran == []


def test_with_a_context_that_is_not_there_nothing_is_started():
    machine = FakeMachine(env={"DOCKER_CONTEXT": "gone", "HOME": "/nonexistent"})
    assert "no such context" in refused(machine)
    assert machine.ran == []


def test_docker_host_that_says_the_default_is_none(tmp_path):
    machine = FakeMachine(env={"DOCKER_HOST": "unix:///var/run/docker.sock"})
    assert ensure(quiet, machine=machine).started_by == "hand"
    machine = FakeMachine(env=context(tmp_path, "unix:///var/run/docker.sock"))
    assert ensure(quiet, machine=machine).started_by == "hand"


def test_a_socket_one_may_not_use_is_no_missing_engine():
    machine = FakeMachine(error="Permission denied", root=False)
    assert "group docker" in refused(machine)
    assert machine.ran == []


def test_the_systems_own_words_are_dug_out():
    wrapped = EngineUnavailable("outer")
    wrapped.__cause__ = ConnectionError("aborted", FileNotFoundError(2, "No such file"))
    assert reason(wrapped) == "No such file"
    assert "the default socket" in unreachable(wrapped, Endpoint()).message
