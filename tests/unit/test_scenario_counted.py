"""`count` of a host: what it becomes, and where what is wrong with it is told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from scenario_texts import assert_refused, problems_of

from fedtest.plan import Plan, make_plan
from fedtest.scenario.counted import Counted
from fedtest.scenario.load import dump, loads
from fedtest.scenario.model import Scenario
from fedtest.subnets import choose

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = """\
fedtest: 1
name: counted
networks: {net: {}, data: {subnet: 10.9.0.0/16}}
hosts:
  lead: {nics: {net: eth0, data: eth1}}
  w: {nics: {net: eth0}, count: 3}
groups: {all: {members: [w, lead], network: net}}
processes:
  p: {hosts: [lead, w], run: "echo ${{ host.name }} ${{ host.index }} ${{ all.rank }}"}
"""


def changed(old: str, new: str) -> str:
    assert BASE.count(old) == 1
    return BASE.replace(old, new)


def planned(text: str) -> Plan:
    scenario = loads(text).scenario
    return make_plan(scenario, choose(scenario, "run", ()))


def test_one_becomes_several_in_place_and_in_order() -> None:
    plan = planned(BASE)
    assert [host.name for host in plan.hosts] == ["lead", "w-0", "w-1", "w-2"]
    assert plan.groups[0].members == ("w-0", "w-1", "w-2", "lead")
    assert [item.argv[2] for item in plan.processes] == [
        "echo lead 0 3", "echo w-0 0 0", "echo w-1 1 1", "echo w-2 2 2",
    ]  # fmt: skip


def test_single_ones_can_be_named() -> None:
    plan = planned(changed("hosts: [lead, w]", "hosts: [w-1]"))
    assert [item.host for item in plan.processes] == ["w-1"]


def test_a_count_of_one_has_a_number_too() -> None:
    assert [host.name for host in planned(changed("count: 3", "count: 1")).hosts][1:] == ["w-0"]


def test_the_index_survives_being_written() -> None:
    scenario = loads(BASE).scenario
    assert loads(dump(scenario)).scenario == scenario
    assert [host.index for host in scenario.hosts.values()] == [0, 0, 1, 2]


def test_a_scenario_made_without_a_file_is_expanded_too() -> None:
    data = {
        "fedtest": 1, "name": "x", "networks": {"net": {}},
        "hosts": {"a": {"nics": {"net": "eth0"}, "count": 2}},
        "processes": {"p": {"hosts": ["a"], "run": "true"}},
    }  # fmt: skip
    scenario = Scenario.model_validate(data)
    assert list(scenario.hosts) == ["a-0", "a-1"]
    assert scenario.hosts_of("p") == ("a-0", "a-1")


@pytest.mark.parametrize(
    ("pair", "ways"),
    [
        ("{from: w, to: lead, link: {loss: 1%}}", 3),
        ("{from: lead, to: w, link: {loss: 1%}}", 3),
        ("{from: w, to: w, link: {loss: 1%}}", 6),
        ("{from: w, link: {loss: 1%}}", 9),
        ("{from: w-0, to: w, link: {loss: 1%}}", 2),
    ],
)
def test_a_pair_of_several_is_as_many_ways(pair: str, ways: int) -> None:
    plan = planned(changed("{net: {}, ", f"{{net: {{pairs: [{pair}]}}, "))
    assert len(plan.networks[0].pairs) == ways


def test_lists_of_hosts_in_checks_and_faults_and_no_other_lists() -> None:
    data = {
        "hosts": {"w": {"count": 2}},
        "faults": [{"partition": {"between": [["w"], ["x"]]}}],
        "checks": [{"log": {"order": ["w", "x"]}}, {"reach": {"from": ["w"], "to": "w"}}],
        "processes": {"to": {"run": ["w"], "hosts": ["x"]}},
    }
    found = Counted.of(data).data
    assert found["faults"][0]["partition"]["between"] == [["w-0", "w-1"], ["x"]]
    assert found["checks"][0]["log"]["order"] == ["w", "x"]
    assert found["checks"][1]["reach"] == {"from": ["w-0", "w-1"], "to": "w"}
    assert found["processes"]["to"] == {"run": ["w"], "hosts": ["x"]}
    assert data["hosts"] == {"w": {"count": 2}}


@pytest.mark.parametrize(
    ("old", "new", "path", "fragments"),
    [
        ("count: 3", "count: §0", "hosts.w.count", ["too small"]),
        ("count: 3", "count: §true", "hosts.w.count", ["not a whole number"]),
        ("count: 3", 'count: §"3"', "hosts.w.count", ["not a whole number"]),
        ("count: 3", "count: §1001", "hosts.w.count", ["too large"]),
        ("count: 3", "count: §1000", "hosts.w.count", ["too many hosts: 1001", "at most 1000"]),
        ("count: 3", "count: 3, §index: 1", "hosts.w.index", ["both count and index"]),
        ("w: {nics: {net: eth0}", "w: {nics: {data: {name: eth0, ip: §10.9.0.5}, net: eth1}",
         "hosts.w.nics.data.ip", ["3 hosts cannot have the same", "written out"]),
        ("w: {nics: {net: eth0}", "w: {nics: {net: §eth/0}", "hosts.w.nics.net.name",
         ["an interface name with"]),
        ("w: {nics: {net: eth0}", "w: {nics: {net: eth1, §nett: eth0}", "hosts.w.nics.nett",
         ["no network"]),
        ("w: {nics: {net: eth0}, count: 3}", "w: §{count: 3}", "hosts.w.nics",
         ["a required key is missing"]),
        ("w: {nics: {net: eth0}", "w: {§imag: x, nics: {net: eth0}", "hosts.w.imag", ["unknown"]),
        ("  w: {nics: {net: eth0}, count: 3",
         "  w-1: {nics: {net: eth0}}\n  w: {nics: {net: eth0}, count: §3", "hosts.w.count",
         ["one of these is host w-1"]),
        ("members: [w, lead]", "members: [lead, w, §w-2]", "groups.all.members[2]", ["twice"]),
        ("hosts: [lead, w]", "hosts: [lead, w, §nobody]", "processes.p.hosts[2]", ["no host"]),
        ("${{ all.rank }}", "§${{ all.rnk }}", "processes.p.run", ["rnk"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_once_where_it_is_in_the_file(
    old: str, new: str, path: str, fragments: list[str]
) -> None:
    assert_refused(changed(old, new), path, *fragments)


def test_a_host_that_is_not_on_a_groups_network_is_told_once_for_all() -> None:
    text = changed("network: net}}", "network: data}}").replace("members: [w", "members: [§w")
    assert_refused(text, "groups.all.members[0]", "host w-0 is not on network data")


def cost(call: Callable[[], object]) -> float:
    """Return the processor's seconds that a call takes at best."""
    costs = []
    for _ in range(3):
        began = time.process_time()
        call()
        costs.append(time.process_time() - began)
    return min(costs)


def refuse_ways(pairs: int, count: int) -> None:
    some = ", ".join(["{from: w, to: w, link: {loss: 1%}}"] * pairs)
    text = changed("{net: {}, ", f"{{net: {{pairs: [{some}]}}, ")
    text = text.replace("count: 3", f"count: {count}")
    assert any("too many ways" in str(problem) for problem in problems_of(text))


def test_too_many_ways_are_refused_before_they_are_written_out() -> None:
    """A thousand times as many cost a few times as much."""
    few = cost(lambda: refuse_ways(pairs=1, count=900))
    assert cost(lambda: refuse_ways(pairs=1000, count=900)) < 50 * few


def test_many_are_as_fast_as_few() -> None:
    few = cost(lambda: loads(changed("count: 3", "count: 4")))
    assert cost(lambda: loads(changed("count: 3", "count: 64"))) < 20 * few
    assert len(loads(changed("count: 3", "count: 64")).scenario.hosts) == 65
