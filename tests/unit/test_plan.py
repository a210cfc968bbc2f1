"""A scenario made concrete: addresses, names, commands; and nothing of an engine."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import TYPE_CHECKING

import pytest
from scenario_texts import BASE, changed

from fedtest.errors import ScenarioError
from fedtest.plan import BuildSpec, ImagePlan, Plan, make_plan
from fedtest.plan_addresses import allocate
from fedtest.plan_text import plan_to_dict
from fedtest.scenario.load import load, loads
from fedtest.subnets import choose

if TYPE_CHECKING:
    from pathlib import Path

SUBNETS = {"mgmt": IPv4Network("198.18.0.0/28"), "spare": IPv4Network("198.18.0.16/28")}


def planned(text: str = BASE) -> Plan:
    return make_plan(loads(text, base="/project").scenario, SUBNETS)


def test_networks_have_subnets_and_gateways() -> None:
    mgmt, data, _ = planned().networks
    assert (mgmt.name, mgmt.subnet, mgmt.fixed) == ("mgmt", SUBNETS["mgmt"], False)
    assert mgmt.gateway == IPv4Address("198.18.0.1")
    assert (data.subnet, data.fixed) == (IPv4Network("192.168.0.0/24"), True)
    assert data.gateway == IPv4Address("192.168.0.254")
    assert mgmt.internal
    assert not planned(changed("mgmt: {}", "mgmt: {internal: false}")).networks[0].internal


def test_attachments_have_names_and_addresses() -> None:
    host = planned().host("b")
    assert [(item.network, item.interface, item.address) for item in host.attachments] == [
        ("mgmt", "mgmt0", IPv4Interface("198.18.0.3/28")),
        ("data", "ib0", IPv4Interface("192.168.0.2/24")),
    ]


def test_names_resolve_on_one_network_the_own_one_included() -> None:
    """Host c is not on mgmt: its name resolves on its first network."""
    names = (("198.18.0.2", ("a",)), ("198.18.0.3", ("b",)), ("198.18.0.18", ("c",)))
    assert {host.names for host in planned().hosts} == {names}
    on_data = planned(changed("hosts:\n", "resolve: data\nhosts:\n")).host("b").names
    assert on_data[:2] == (("192.168.0.1", ("a",)), ("192.168.0.2", ("b",)))


@pytest.mark.parametrize(
    ("subnet", "gateway", "wanted", "gateway_got", "hosts"),
    [
        ("10.0.0.0/28", None, [None, None], "10.0.0.1", ["10.0.0.2", "10.0.0.3"]),
        ("10.0.0.0/28", None, ["10.0.0.1", None], "10.0.0.14", ["10.0.0.1", "10.0.0.2"]),
        ("10.0.0.0/28", None, [None, "10.0.0.2"], "10.0.0.1", ["10.0.0.3", "10.0.0.2"]),
        ("10.0.0.0/28", None, ["10.0.0.1", "10.0.0.14"], "10.0.0.13", ["10.0.0.1", "10.0.0.14"]),
        ("10.0.0.0/28", "10.0.0.2", [None, None], "10.0.0.2", ["10.0.0.1", "10.0.0.3"]),
        ("10.0.0.0/30", None, ["10.0.0.1"], "10.0.0.2", ["10.0.0.1"]),
        ("10.0.0.0/30", None, ["10.0.0.2"], "10.0.0.1", ["10.0.0.2"]),
        ("10.0.0.0/8", None, ["10.0.0.1", None], "10.255.255.254", ["10.0.0.1", "10.0.0.2"]),
    ],
)
def test_addresses(
    subnet: str, gateway: str | None, wanted: list[str | None], gateway_got: str, hosts: list[str]
) -> None:
    allocation = allocate(
        IPv4Network(subnet),
        IPv4Address(gateway) if gateway else None,
        {str(at): IPv4Address(ip) if ip else None for at, ip in enumerate(wanted)},
    )
    assert str(allocation.gateway) == gateway_got
    assert [str(address) for address in allocation.hosts.values()] == hosts


def test_what_faults_give_later_is_nobodys_by_itself() -> None:
    """Neither a host's nor the gateway's."""
    kept = [IPv4Address("10.0.0.1"), IPv4Address("10.0.0.3")]
    allocation = allocate(IPv4Network("10.0.0.0/28"), None, {"a": None, "b": None}, kept)
    assert str(allocation.gateway) == "10.0.0.14"
    assert [str(address) for address in allocation.hosts.values()] == ["10.0.0.2", "10.0.0.4"]


def test_a_full_subnet_has_an_address_for_everybody() -> None:
    """The scenario's check of sizes and the allocation agree on what fits."""
    hosts = "".join(f"  h{n}: {{nics: {{full: eth0}}}}\n" for n in range(13))
    text = changed("  spare: {}", "  spare: {}\n  full: {subnet: 10.0.0.0/28}")
    plan = planned(text.replace("data: {mnist", hosts + "data: {mnist"))
    addresses = [
        item.address.ip
        for host in plan.hosts
        for item in host.attachments
        if item.network == "full"
    ]
    assert len(set(addresses)) == 13
    assert plan.networks[3].gateway not in addresses


def test_processes_run_on_each_host_in_the_order_of_ranks() -> None:
    text = changed("members: [a, b]", "members: [b, a]").replace(
        'run: "true"', 'run: "r ${{ ring.rank }} $X", env: {N: "${{ host.name }}"}, deadline: 10s'
    )
    first, second, third, _ = planned(text).processes
    assert (first.name, first.host, first.argv) == ("trainer", "b", ("/bin/sh", "-c", "r 0 $X"))
    assert (second.host, second.argv, second.env) == (
        "a",
        ("/bin/sh", "-c", "r 1 $X"),
        (("N", "a"),),
    )
    assert (first.user, first.deadline) == ("1000:1000", 10.0)
    assert (third.name, third.argv, third.deadline) == ("other", ("true",), None)
    root = planned(changed('run: "true"', 'run: "true", user: root'))
    assert root.processes[0].user == "root"


def test_the_default_port_and_network_of_a_group() -> None:
    text = """\
fedtest: 1
name: one
networks: {only: {}}
hosts: {a: {nics: {only: eth0}}}
groups: {g: {members: [a]}}
"""
    scenario = loads(text).scenario
    (group,) = make_plan(scenario, choose(scenario, "", ())).groups
    assert (group.network, group.port) == ("only", 29500)


def test_images() -> None:
    assert planned().host("a").image == ImagePlan()
    text = changed("  c: {nics", "  c: {image: own:1, nics").replace(
        "name: base", "name: base\nbuild: img"
    )
    plan = planned(text)
    assert plan.host("c").image == ImagePlan(name="own:1")
    built = BuildSpec("/project/img", "/project/img/Dockerfile")
    assert plan.host("a").image == ImagePlan(build=built)
    build = "build: {context: ../x, dockerfile: docker/Node}"
    plan = planned(changed("  c: {nics", f"  c: {{{build}, nics"))
    assert plan.host("c").image.build == BuildSpec("/x", "/x/docker/Node")


def test_whether_an_image_is_optional_is_said_beside_the_image() -> None:
    text = changed("  c: {nics", "  c: {image: own:1, nics").replace(
        "name: base", "name: base\nimage: all:1\nimage_optional: true"
    )
    plan = planned(text)
    assert plan.host("a").image_optional
    assert not plan.host("c").image_optional
    plan = planned(changed("  c: {nics", "  c: {image: own:1, image_optional: true, nics"))
    assert [host.name for host in plan.hosts if host.image_optional] == ["c"]


def test_build_directories_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(changed("name: base", "name: base\nbuild: img"))
    with pytest.raises(ScenarioError, match="no such directory"):
        load(file)
    (tmp_path / "img").mkdir()
    with pytest.raises(ScenarioError, match="no such file"):
        load(file)
    (tmp_path / "img" / "Dockerfile").touch()
    build = load(file).scenario.build
    assert build is not None
    assert build.context == str(tmp_path / "img")


def test_the_same_scenario_gives_the_same_plan_and_it_is_plain_data() -> None:
    assert planned() == planned()
    plain = plan_to_dict(planned())
    assert json.loads(json.dumps(plain)) == plain
    assert plain["hosts"][0]["attachments"][1] == {
        "network": "data",
        "interface": "eth0",
        "address": "192.168.0.1/24",
    }
    assert plain["hosts"][0]["data"] == {"mnist": "/data"}
    assert plain["processes"][0]["argv"] == ["/bin/sh", "-c", "true"]


def test_what_python_finds_imported() -> None:
    bundled = 'hosts: ring, run: "cd /data && exec python -m fedtest.ring --rank ${{ ring.rank }}"'
    ring = changed('hosts: ring, run: "true"', bundled)
    assert planned().preload == ()
    assert planned(ring).preload == ("torch", "torchvision")
    for given in ((), ("json", "torch._dynamo")):
        text = ring.replace("name: base\n", f"name: base\npreload: [{', '.join(given)}]\n")
        assert planned(text).preload == given
