"""What hosts were made from is removed when asked for, and nothing that is in use or up to date."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import requests
from docker.errors import APIError

from fedtest.engine import unused
from fedtest.engine.docker import images
from fedtest.errors import EngineError, EngineUnavailable, InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable


class Api:
    """An engine's images, of which one has a container."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def images(self, name: str) -> list[dict[str, Any]]:
        assert name == "fedtest-node"
        return [{"RepoTags": [f"fedtest-node:{tag}"]} for tag in ("new", "old", "used")] + [
            {"RepoTags": None}
        ]

    def remove_image(self, tag: str) -> None:
        if tag.endswith("used"):
            answer = requests.Response()
            answer.status_code = 409
            raise APIError("a container is using it", response=answer)
        self.removed.append(tag)


def test_node_images_of_other_versions_go_but_for_those_of_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(images, "present_node_image", lambda _: "fedtest-node:new")
    client: Any = SimpleNamespace(api=Api())
    assert images.remove_other_node_images(client) == ["fedtest-node:old"]
    assert client.api.removed == ["fedtest-node:old"]


def nothing(error: InvalidError) -> Callable[[object], list[str]]:
    def remover(*_: object) -> list[str]:
        raise error

    return remover


@pytest.mark.parametrize(
    ("engine", "removed"), [("auto", ["env", "image"]), ("netns", ["env"]), ("docker", ["image"])]
)
def test_only_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, engine: str, removed: list[str]
) -> None:
    monkeypatch.setattr(unused, "_environments", lambda _: ["env"])
    monkeypatch.setattr(unused, "_images", lambda _: ["image"])
    assert unused.remove_images(engine, print, print) == removed


def test_what_is_stuck_in_one_place_is_in_nobodys_way_in_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck: list[InvalidError] = []
    error = EngineError("it is in use")
    monkeypatch.setattr(unused, "_environments", nothing(error))
    monkeypatch.setattr(unused, "_images", lambda _: ["image"])
    assert unused.remove_images("auto", print, stuck.append) == ["image"]
    assert stuck == [error]
    # No engine has no images: that it is not there was said by who looked for runs.
    monkeypatch.setattr(unused, "_images", nothing(EngineUnavailable("none answers")))
    assert unused.remove_images("docker", print, stuck.append) == []
    assert stuck == [error]
