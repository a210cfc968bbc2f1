"""Removal on an engine that has its own ideas, played by the test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import requests
from docker.errors import APIError

from fedtest.engine.docker.removal import destroy
from fedtest.engine.parallel import Workers
from fedtest.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stubborn:
    """Containers and networks by name; `stuck` ones refuse to go so many times."""

    def __init__(self, containers: int, networks: int, stuck: dict[str, int]) -> None:
        self.there = {f"c{i}" for i in range(containers)} | {f"n{i}" for i in range(networks)}
        self.stuck = stuck

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Id": name, "Names": [f"/{name}"]} for name in self._of("c")]

    def networks(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Id": name, "Name": name} for name in self._of("n")]

    def remove_container(self, name: str, **_: Any) -> None:
        self._remove(name)

    def remove_network(self, name: str) -> None:
        self._remove(name)

    def _of(self, letter: str) -> list[str]:
        return sorted(name for name in self.there if name.startswith(letter))

    def _remove(self, name: str) -> None:
        if self.stuck.get(name, 0):
            self.stuck[name] -= 1
            raise APIError("busy", response=requests.Response(), explanation=f"{name} is busy")
        self.there.discard(name)


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(4)
    yield workers
    workers.close()


def test_what_is_busy_for_a_while_is_tried_again(workers: Workers) -> None:
    engine = Stubborn(3, 2, {"c1": 2, "n0": 1})
    assert destroy(SimpleNamespace(api=engine), workers, "id", 30) == 5  # type: ignore[arg-type]
    assert engine.there == set()


def test_what_cannot_be_removed_does_not_keep_the_rest(workers: Workers) -> None:
    engine = Stubborn(20, 2, {"c7": 10**9})
    with pytest.raises(DeadlineError, match="c7 is busy"):
        destroy(SimpleNamespace(api=engine), workers, "id", 0.2)  # type: ignore[arg-type]
    assert engine.there == {"c7"}
