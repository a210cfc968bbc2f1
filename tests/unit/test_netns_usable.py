"""Where hosts without Docker cannot be, one message says what forbids it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fedtest.engine.netns import environment, provide, usable
from fedtest.engine.netns.engine import NetnsEngine
from fedtest.errors import EngineError, EngineUnavailable, ImageError, InvalidError
from fedtest.plan import make_plan
from fedtest.scenario.load import loads
from fedtest.subnets import choose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCENARIO = """
fedtest: 1
name: small
networks: {{lan: {network}}}
hosts: {{a: {{nics: {{lan: eth0}}{host}}}}}
processes: {{p: {{hosts: [a], run: "true"}}}}
"""


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    usable.by_user_namespace.cache_clear()
    yield
    usable.by_user_namespace.cache_clear()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ],
)
def test_the_setting_that_forbids_it_is_named_with_what_to_do(
    tmp_path: Path, name: str, value: str
) -> None:
    for known, allowed in usable._WANTED.items():
        (tmp_path / known).parent.mkdir(exist_ok=True)
        (tmp_path / known).write_text(f"{value if known == name else allowed}\n", encoding="ascii")
    (said,) = usable._forbidding(tmp_path)
    dotted = name.replace("/", ".")
    assert said.startswith(f"{dotted} is {value}: ")
    assert f"sysctl -w {dotted}={usable._WANTED[name]}" in said


def test_where_no_setting_is_the_reason_that_is_said(tmp_path: Path) -> None:
    (said,) = usable._forbidding(tmp_path)
    assert "container" in said


def test_a_machine_that_refuses_is_told_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usable, "run", lambda *_: "[Errno 1] Operation not permitted")
    with pytest.raises(EngineUnavailable, match="not permitted") as caught:
        NetnsEngine()
    assert "--engine docker" in caught.value.remedy


@pytest.mark.parametrize(
    ("host", "network", "error", "words"),
    [
        (", image: debian", "{}", ImageError, "host a is from image debian"),
        ("", "{internal: false}", InvalidError, "network lan is to have a way out"),
    ],
)
def test_what_needs_docker_is_refused_with_the_way_out(
    host: str, network: str, error: type[InvalidError], words: str
) -> None:
    scenario = loads(SCENARIO.format(host=host, network=network)).scenario
    plan = make_plan(scenario, choose(scenario, "x", ()))
    with pytest.raises(error, match=words) as caught:
        provide.refuse_what_needs_docker(plan)
    assert "--engine docker" in caught.value.remedy
    assert ("image_optional: true" in caught.value.remedy) is (error is ImageError)


@pytest.mark.parametrize(
    "text",
    [
        SCENARIO.format(host=", image: debian, image_optional: true", network="{}"),
        SCENARIO.format(host="", network="{}") + "image: debian\nimage_optional: true\n",
    ],
)
def test_an_image_that_is_optional_is_not_refused(text: str) -> None:
    scenario = loads(text).scenario
    provide.refuse_what_needs_docker(make_plan(scenario, choose(scenario, "x", ())))


def test_users_are_this_machines() -> None:
    assert environment.ids("root") == (0, 0, [0])
    assert environment.ids("1000:1000") == (1000, 1000, [])
    assert environment.ids("54321") == (54321, 54321, [])
    with pytest.raises(EngineError, match="no user is called nosuch"):
        environment.ids("nosuch")
    with pytest.raises(EngineError, match="no group is called nosuch"):
        environment.ids("0:nosuch")
