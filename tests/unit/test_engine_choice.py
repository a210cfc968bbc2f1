"""Which engine is taken, and that it is said why."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING

import pytest

from fedtest.engine import choose
from fedtest.engine.docker import engine as docker_engine
from fedtest.engine.fake import FakeEngine
from fedtest.engine.netns import engine as netns_engine
from fedtest.engine.netns.warm_starter import WarmStarter
from fedtest.errors import EngineUnavailable

if TYPE_CHECKING:
    from typing import NoReturn


class Docker(FakeEngine):
    pass


class Netns(FakeEngine):
    pass


def refuse(why: str, remedy: str) -> NoReturn:
    raise EngineUnavailable(why, remedy=remedy)


@pytest.fixture(autouse=True)
def both(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(docker_engine, "DockerEngine", Docker)
    monkeypatch.setattr(netns_engine, "NetnsEngine", Netns)
    return monkeypatch


def test_docker_is_taken_where_it_answers() -> None:
    engine = choose.open_engine("auto")
    assert isinstance(engine, Docker)
    assert engine.chosen == "chosen because Docker answers"
    assert engine.also_sweep == (choose.sweep_netns,)


def test_without_docker_there_are_namespaces_and_it_is_said_why(both: pytest.MonkeyPatch) -> None:
    both.setattr(docker_engine, "DockerEngine", lambda: refuse("No engine answers", "Start it."))
    engine = choose.open_engine("auto")
    assert isinstance(engine, Netns)
    assert engine.chosen == "chosen because no engine answers"
    assert engine.also_sweep == (choose.sweep_docker,)


def test_where_there_is_neither_both_reasons_are_said(both: pytest.MonkeyPatch) -> None:
    both.setattr(docker_engine, "DockerEngine", lambda: refuse("no engine", "Start it."))
    both.setattr(netns_engine, "NetnsEngine", lambda _: refuse("no namespaces", "Allow them."))
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

    def opened(starter: object) -> Netns:
        given.append(starter)
        return Netns()

    both.setattr(netns_engine, "NetnsEngine", opened)
    choose.open_engine("netns", warm=warm)
    assert [type(item) for item in given] == [kind]


def test_docker_is_not_loaded_to_sweep_where_it_has_nothing(both: pytest.MonkeyPatch) -> None:
    both.delenv("DOCKER_HOST", raising=False)
    both.setattr(choose, "_SOCKET", "/nonexistent")
    both.setattr(docker_engine, "DockerEngine", lambda: refuse("it was opened", ""))
    assert choose.sweep_docker(1) == {}
