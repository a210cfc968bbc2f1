"""A scenario may be as large as the model allows: it is gone through, or refused, in bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scenario_texts import problems_of

from fedtest.errors import ScenarioError
from fedtest.plan import make_plan
from fedtest.plan_text import plan_to_dict
from fedtest.run.artifacts import to_json
from fedtest.scenario.load import loads
from fedtest.subnets import choose

HOSTS = [f"h{number}" for number in range(1000)]


def large(network: dict[str, Any] | None = None, **more: Any) -> str:
    """A thousand hosts on a network."""
    hosts = {name: {"nics": {"data": "eth0"}} for name in HOSTS}
    networks = {"data": network or {}}
    return json.dumps({"fedtest": 1, "name": "large", "networks": networks, "hosts": hosts, **more})


def test_a_plan_of_many_hosts_has_their_names_once() -> None:
    scenario = loads(large()).scenario
    plan = plan_to_dict(make_plan(scenario, choose(scenario, "", ())))
    assert len(plan["names"]) == len(HOSTS)
    assert "names" not in plan["hosts"][0]
    assert len(to_json(plan)) < 1_500_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            large({"pairs": [{"from": name, "link": {"delay": "5ms"}} for name in HOSTS]}),
            "too many ways from one host to another",
        ),
        (
            large(processes={"p": {"hosts": HOSTS, "run": "x" * 90_000}}),
            "too much text on too many hosts",
        ),
    ],
    ids=["ways", "text"],
)
def test_what_would_be_far_too_much_together_is_refused(text: str, message: str) -> None:
    (problem,) = problems_of(text)
    assert problem.message == message


def test_a_path_that_is_too_long_to_be_one_is_refused() -> None:
    text = large(build="x" * 300)
    assert "no such directory" in refused(text)
    assert "too long" in refused(large(build="x" * 2000))


def refused(text: str) -> str:
    """The only problem of a text, as of a file on the disk."""
    with pytest.raises(ScenarioError) as caught:
        loads(text, look=True)
    return str(caught.value)
