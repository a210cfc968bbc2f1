"""Which Docker engine is meant; measured against Docker's own command line, 28.2."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from fedtest.engine.docker.client import _tls
from fedtest.engine.docker.endpoint import Endpoint, EndpointUnusable, meant

if TYPE_CHECKING:
    from pathlib import Path


class Home:
    """A user's directory, with what `docker context` writes there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.docker = path / ".docker"
        self.docker.mkdir(parents=True)

    def meant(self, **env: str) -> Endpoint:
        return meant({"HOME": str(self.path), **env})

    def current(self, text: str) -> None:
        (self.docker / "config.json").write_text(text, encoding="utf-8")

    def context(self, name: str, docker: Any, *, files: tuple[str, ...] = ()) -> None:
        self.meta(name, json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": docker}}))
        tls = self.docker / "contexts" / "tls" / key(name) / "docker"
        tls.mkdir(parents=True)
        for file in files:
            (tls / file).touch()

    def meta(self, name: str, text: str) -> None:
        directory = self.docker / "contexts" / "meta" / key(name)
        directory.mkdir(parents=True)
        (directory / "meta.json").write_text(text, encoding="utf-8")


def key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.context("lab", {"Host": "ssh://me@lab", "SkipTLSVerify": False})
    return home


def test_where_nobody_says_anything_it_is_the_default_socket(home: Home) -> None:
    found = home.meant()
    assert found == Endpoint()
    assert not found.on_purpose
    assert str(found) == "the default socket unix:///var/run/docker.sock"
    assert found.socket == "/var/run/docker.sock"


@pytest.mark.parametrize(
    ("env", "written", "url"),
    [
        ({}, "lab", "ssh://me@lab"),
        ({"DOCKER_CONTEXT": "lab"}, "gone", "ssh://me@lab"),
        ({"DOCKER_CONTEXT": "lab"}, "", "ssh://me@lab"),
        ({"DOCKER_CONTEXT": "default"}, "lab", "unix:///var/run/docker.sock"),
        ({"DOCKER_CONTEXT": ""}, "lab", "ssh://me@lab"),
        ({}, "default", "unix:///var/run/docker.sock"),
        ({"DOCKER_HOST": "unix:///x", "DOCKER_CONTEXT": "gone"}, "gone", "unix:///x"),
        ({"DOCKER_HOST": "", "DOCKER_CONTEXT": "lab"}, "", "ssh://me@lab"),
        ({"DOCKER_HOST": "tcp://far"}, "", "tcp://far:2375"),
        ({"DOCKER_HOST": "tcp://far", "DOCKER_TLS_VERIFY": "1"}, "", "tcp://far:2376"),
        ({"DOCKER_HOST": "tcp://[::1]:99"}, "", "tcp://[::1]:99"),
        ({"DOCKER_HOST": "far:99"}, "", "far:99"),
    ],
)
def test_one_comes_before_the_other(
    home: Home, env: dict[str, str], written: str, url: str
) -> None:
    home.current(json.dumps({"currentContext": written}))
    assert home.meant(**env).url == url


def test_a_context_needs_no_configuration_beside_it(home: Home) -> None:
    assert not (home.docker / "config.json").exists()
    assert home.meant(DOCKER_CONTEXT="lab").url == "ssh://me@lab"


def test_the_configuration_may_be_elsewhere(home: Home) -> None:
    found = meant({"DOCKER_CONFIG": str(home.docker), "HOME": "/nowhere", "DOCKER_CONTEXT": "lab"})
    assert found.url == "ssh://me@lab"


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '"lab"', '{"currentContext": 5}', '{"currentContext": null}', "{}"]
)
def test_a_configuration_that_says_no_context_says_nothing(home: Home, text: str) -> None:
    home.current(text)
    assert home.meant() == Endpoint()


@pytest.mark.parametrize(
    ("env", "said_by"),
    [({}, "set by `docker context use`"), ({"DOCKER_CONTEXT": "gone"}, "DOCKER_CONTEXT")],
)
def test_a_context_that_is_not_there_is_a_fault_and_not_the_default(
    home: Home, env: dict[str, str], said_by: str
) -> None:
    home.current('{"currentContext": "gone"}')
    with pytest.raises(EndpointUnusable, match="there is no such context") as caught:
        home.meant(**env)
    assert f"the docker context 'gone' ({said_by})" in caught.value.message
    assert ("unset DOCKER_CONTEXT" if env else "docker context use default") in caught.value.remedy


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "{}", '{"Endpoints": {}}', '{"Endpoints": {"docker": 5}}',
             '{"Endpoints": {"docker": {"Host": 5}}}', '{"Endpoints": 7}'],
)  # fmt: skip
def test_a_context_that_names_no_engine_is_told_with_its_file(home: Home, text: str) -> None:
    home.meta("odd", text)
    with pytest.raises(EndpointUnusable, match=r"meta\.json names no engine"):
        home.meant(DOCKER_CONTEXT="odd")


@pytest.mark.parametrize(
    "url", ["ssh://me:hunter2@lab", "tcp://me:hunter2@lab:2375", "me:hunter2@lab:2375"]
)
def test_an_address_with_a_password_is_refused_and_not_repeated(home: Home, url: str) -> None:
    home.context("open", {"Host": url})
    for env in ({"DOCKER_HOST": url}, {"DOCKER_CONTEXT": "open"}):
        with pytest.raises(EndpointUnusable, match=r"\(DOCKER_.*\) has a password in it") as caught:
            home.meant(**env)
        assert "hunter2" not in caught.value.message + caught.value.remedy
        assert caught.value.remedy


def test_who_said_so_is_told() -> None:
    assert str(Endpoint("tcp://far:1", "DOCKER_HOST")) == "DOCKER_HOST=tcp://far:1"
    assert Endpoint("tcp://far:1", "DOCKER_HOST").mending == "Mend or unset DOCKER_HOST."
    lab = Endpoint("ssh://lab", "DOCKER_CONTEXT", "lab")
    assert str(lab) == "the docker context lab (DOCKER_CONTEXT), ssh://lab"


@pytest.mark.parametrize(
    ("url", "default", "socket"),
    [
        ("unix:///run/docker.sock", True, "/var/run/docker.sock"),
        ("unix://", True, "/var/run/docker.sock"),
        ("unix:///run/user/1000/docker.sock", False, "/run/user/1000/docker.sock"),
        ("unix://relative/docker.sock", False, "/relative/docker.sock"),
        ("tcp://far:2375", False, None),
        ("ssh://far", False, None),
    ],
)
def test_the_default_engine_is_known_whoever_names_it(
    url: str, socket: str | None, *, default: bool
) -> None:
    found = Endpoint(url, "DOCKER_HOST")
    assert found.on_purpose
    assert found.is_default is default
    assert found.socket == socket


def test_a_context_has_tls_of_its_own(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")  # The environment's is for DOCKER_HOST.
    monkeypatch.setenv("DOCKER_CERT_PATH", "/nonexistent")
    files = ("ca.pem", "cert.pem", "key.pem")
    home.context("all", {"Host": "tcp://far:2376"}, files=files)
    home.context("none", {"Host": "tcp://far:2375"})
    home.context("skip", {"Host": "tcp://far:2376", "SkipTLSVerify": True})
    found = _tls(home.meant(DOCKER_CONTEXT="all"))
    directory = home.docker / "contexts" / "tls" / key("all") / "docker"
    assert not isinstance(found, bool)
    assert found.cert == (str(directory / "cert.pem"), str(directory / "key.pem"))
    assert (found.ca_cert, found.verify) == (str(directory / "ca.pem"), True)
    assert _tls(home.meant(DOCKER_CONTEXT="none")) is False
    skipping = _tls(home.meant(DOCKER_CONTEXT="skip"))
    assert not isinstance(skipping, bool)
    assert (skipping.cert, skipping.ca_cert, skipping.verify) == (None, None, False)
