"""Which engine is taken, and that it is said why."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING

import pytest

from fedtest.engine import choose
from fedtest.engine.docker import engine as docker_engine
from fedtest.engine.docker.endpoint import meant
from fedtest.engine.docker.reach import unreachable
from fedtest.engine.fake import FakeEngine
from fedtest.engine.netns import engine as netns_engine
from fedtest.engine.netns.warm_starter import WarmStarter
from fedtest.errors import EngineUnavailable, Interrupted

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn


class Docker(FakeEngine):
    pass


class Netns(FakeEngine):
    pass


def refuse(why: str, remedy: str) -> NoReturn:
    raise EngineUnavailable(why, remedy=remedy)


@pytest.fixture(autouse=True)
def both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(docker_engine, "DockerEngine", Docker)
    monkeypatch.setattr(netns_engine, "NetnsEngine", lambda *_: Netns())
    return monkeypatch


def test_docker_is_taken_where_it_answers(both: pytest.MonkeyPatch) -> None:
    engine = choose.open_engine("auto")
    assert isinstance(engine, Docker)
    assert engine.chosen == "chosen because Docker answers at the default socket"
    assert engine.also_sweep == (choose.sweep_netns,)
    both.setenv("DOCKER_HOST", "tcp://far:2375")
    assert choose.open_engine("auto").chosen == "chosen by DOCKER_HOST=tcp://far:2375"


def nobody() -> NoReturn:
    """What reach does where nobody answers."""
    raise unreachable(EngineUnavailable("Connection refused"), meant())


@pytest.mark.parametrize("why", ["No such file or directory", "Permission denied"])
def test_without_docker_there_are_namespaces_and_it_is_said_why(
    both: pytest.MonkeyPatch, why: str
) -> None:
    """A socket that this user may not use was not chosen either: it is just there."""

    def refused() -> NoReturn:
        raise unreachable(EngineUnavailable(why), meant())

    both.setattr(docker_engine, "DockerEngine", refused)
    engine = choose.open_engine("auto")
    assert isinstance(engine, Netns)
    assert engine.chosen == (
        "chosen because no Docker engine answers. "
        f"Tried the default socket unix:///var/run/docker.sock: {why}"
    )
    assert engine.also_sweep == (choose.sweep_docker,)
    assert not choose.docker_is_chosen()


@pytest.mark.parametrize("name", ["auto", "docker"])
@pytest.mark.parametrize("url", ["tcp://far:2375", "unix:///var/run/docker.sock"])
def test_an_engine_that_was_chosen_is_that_one_or_none(
    both: pytest.MonkeyPatch, name: str, url: str
) -> None:
    both.setattr(docker_engine, "DockerEngine", nobody)
    both.setenv("DOCKER_HOST", url)
    with pytest.raises(EngineUnavailable, match=f"Tried DOCKER_HOST={url}: Conn") as caught:
        choose.open_engine(name)
    assert ("--engine netns" in caught.value.remedy) is (name == "auto")
    assert choose.docker_is_chosen()
    assert isinstance(choose.open_engine("netns"), Netns)


@pytest.mark.parametrize("name", ["auto", "docker"])
def test_a_context_that_is_not_there_is_no_reason_for_another_engine(
    both: pytest.MonkeyPatch, name: str
) -> None:
    both.setenv("DOCKER_CONTEXT", "gone")
    with pytest.raises(EngineUnavailable, match=r"'gone'.*there is no such context"):
        choose.open_engine(name)
    assert choose.docker_is_chosen()
    assert isinstance(choose.open_engine("netns"), Netns)
    assert choose.sweep_docker(1) == {}


def test_ctrl_c_while_docker_is_asked_is_no_reason_for_another_engine(
    both: pytest.MonkeyPatch,
) -> None:
    def interrupted() -> NoReturn:
        raise Interrupted("interrupted by SIGINT")

    both.setattr(docker_engine, "DockerEngine", interrupted)
    with pytest.raises(Interrupted):
        choose.open_engine("auto")


def test_where_there_is_neither_both_reasons_are_said(both: pytest.MonkeyPatch) -> None:
    both.setattr(docker_engine, "DockerEngine", lambda: refuse("no engine", "Start it."))
    both.setattr(netns_engine, "NetnsEngine", lambda *_: refuse("no namespaces", "Allow them."))
    with pytest.raises(EngineUnavailable, match=r"no engine\nWithout Docker: no namesp") as caught:
        choose.open_engine("auto")
    assert caught.value.remedy.split("\n  ") == ["Start it.", "Allow them."]


@pytest.mark.parametrize(("name", "kind"), [("docker", Docker), ("netns", Netns)])
def test_the_one_that_is_asked_for_is_taken_without_a_word(
    name: str, kind: type[FakeEngine]
) -> None:
    engine = choose.open_engine(name)
    assert isinstance(engine, kind)
    assert engine.chosen == ""


@pytest.mark.parametrize(("warm", "kind"), [(True, WarmStarter), (False, NoneType)])
def test_processes_start_warm_unless_they_are_to_start_cold(
    both: pytest.MonkeyPatch, *, warm: bool, kind: type[object]
) -> None:
    given: list[object] = []

    def opened(starter: object, python: str | None) -> Netns:
        given.append((type(starter), python))
        return Netns()

    both.setattr(netns_engine, "NetnsEngine", opened)
    choose.open_engine("netns", warm=warm, python="/opt/python")
    assert given == [(kind, "/opt/python")]


@pytest.mark.parametrize("url", ["unix:///nonexistent", "tcp://192.0.2.99:2375", "ssh://far"])
def test_docker_is_not_loaded_to_sweep_where_it_has_nothing(
    both: pytest.MonkeyPatch, url: str
) -> None:
    """Least of all over a network: runs without Docker have no time for that."""
    both.setenv("DOCKER_HOST", url)
    both.setattr(choose, "_docker", lambda: pytest.fail("it was opened"))
    assert choose.sweep_docker(1) == {}
