"""Hosts' own networks made concrete: addresses, names, routes; and the scripts that make them."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Interface, IPv6Network, ip_address

import pytest

from fedtest.links.measure import measurements
from fedtest.plan import Plan, make_plan
from fedtest.plan_addresses import allocate6, own_subnet6
from fedtest.plan_text import plan_to_dict
from fedtest.scenario.load import loads
from fedtest.settings import make, measure
from fedtest.settings.paths import Paths
from pretend_links import plan_of

HEAD = "fedtest: 1\nname: nets\n"
SUBNETS = {name: IPv4Network(f"198.18.0.{16 * at}/28") for at, name in enumerate("xyz")}


def planned(text: str) -> Plan:
    return make_plan(loads(HEAD + text).scenario, SUBNETS)


def test_own_ipv6_subnets_are_as_distinct_as_the_ipv4_ones_they_lie_beside() -> None:
    found = {own_subnet6(subnet) for subnet in SUBNETS.values()}
    assert own_subnet6(SUBNETS["y"]) == IPv6Network("fdfe:d7e5:c612:10::/64")
    assert len(found) == 3
    assert all(subnet.prefixlen == 64 for subnet in found)


def test_fixed_ipv6_addresses_stay_and_others_are_the_lowest_free() -> None:
    wanted = {"a": None, "b": ip_address("fd00::1"), "c": None}
    found = allocate6(IPv6Network("fd00::/64"), wanted)  # type: ignore[arg-type]
    assert found == {
        "a": IPv6Interface("fd00::2/64"),
        "b": IPv6Interface("fd00::1/64"),
        "c": IPv6Interface("fd00::3/64"),
    }


FAMILIES = """
networks: {x: {}, y: {ipv6: true}, z: {ipv4: false, subnet6: "fd00::/64"}}
hosts:
  a: {nics: {x: {name: eth0, ip: none}, y: eth1, z: eth2}}
  b: {nics: {x: eth0, y: {name: eth1, ip6: none}, z: eth2}}
"""


def test_an_attachment_has_the_addresses_of_its_families() -> None:
    plan = planned(FAMILIES)
    found = {
        host.name: [[str(address) for address in item.addresses] for item in host.attachments]
        for host in plan.hosts
    }
    assert found == {
        "a": [[], ["198.18.0.18/28", "fdfe:d7e5:c612:10::1/64"], ["fd00::1/64"]],
        "b": [["198.18.0.3/28"], ["198.18.0.19/28"], ["fd00::2/64"]],
    }
    assert [str(item.ip) for item in plan.host("a").attachments] == [
        "None", "198.18.0.18", "fd00::1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("resolve", "of_a", "of_b"),
    [
        ("x", [], ["198.18.0.3"]),
        ("y", ["198.18.0.18", "fdfe:d7e5:c612:10::1"], ["198.18.0.19"]),
        ("z", ["fd00::1"], ["fd00::2"]),
    ],
)
def test_names_have_the_addresses_of_both_families(
    resolve: str, of_a: list[str], of_b: list[str]
) -> None:
    plan = planned(f"resolve: {resolve}{FAMILIES}")
    lines = plan.host("b").names
    assert [address for address, names in lines if "a" in names] == of_a
    assert [address for address, names in lines if "b" in names] == of_b
    unknown = {item.name for item in plan.host("b").dns if item.failure == "nxdomain"}
    assert unknown == (set() if of_a else {"a"}), "an engine's own DNS must not know it either"


@pytest.mark.parametrize(("network", "master"), [("y", "198.18.0.18"), ("z", "fd00::1")])
def test_a_groups_master_is_an_ipv4_address_where_there_is_one(network: str, master: str) -> None:
    plan = planned(f"""{FAMILIES}
groups: {{g: {{members: [a, b], network: {network}}}}}
processes: {{p: {{hosts: g, run: ["${{{{ g.master }}}}"]}}}}
""")
    assert plan.processes[0].argv == (master,)


NAMES = """
networks: {x: {}}
dns: {web: b, gone: nxdomain, b: 192.0.2.9}
hosts:
  a: {nics: {x: eth0}, aliases: [head, h.example]}
  b: {nics: {x: eth0}, names: {b: 127.0.1.1, a: missing, d: a, head: b}, dns: {gone: silent}}
"""


def test_names_of_one_host_come_before_those_of_all() -> None:
    plan = planned(NAMES)
    assert plan.host("a").names == (
        ("198.18.0.2", ("a", "head", "h.example")),
        ("198.18.0.3", ("b",)),
    )
    assert plan.host("b").names == (
        ("127.0.1.1", ("b",)),
        ("198.18.0.2", ("d",)),
        ("198.18.0.3", ("head",)),
        ("198.18.0.2", ("h.example",)),
    )


def test_dns_is_the_scenarios_and_over_it_the_hosts() -> None:
    plan = planned(NAMES)
    found = {
        host.name: {item.name: item.failure or list(item.addresses) for item in host.dns}
        for host in plan.hosts
    }
    everybody = {"web": ["198.18.0.3"], "b": ["192.0.2.9"]}
    assert found["a"] == {**everybody, "gone": "nxdomain"}
    assert found["b"] == {**everybody, "gone": "silent", "a": "nxdomain"}


ROUTES = """
networks: {x: {}, y: {}, z: {}}
hosts:
  a: {nics: {x: eth0}, gateway: r}
  r: {nics: {x: eth0, y: eth1}, forward: {nat: y}, routes: [{to: z, via: q}]}
  q: {nics: {y: eth0, z: eth1}, forward: true}
  b: {nics: {z: eth0}, gateway: q}
  c: {nics: {x: eth0}}
"""


def test_routes_are_by_interface_and_the_gateway_comes_last() -> None:
    plan = planned(ROUTES)
    (gateway,) = plan.host("a").routes
    assert (str(gateway.to), str(gateway.via), gateway.interface) == (
        "0.0.0.0/0",
        "198.18.0.3",
        "eth0",
    )
    assert gateway.default
    (to_z,) = plan.host("r").routes
    assert (str(to_z.to), str(to_z.via)) == ("198.18.0.32/28", "198.18.0.19")
    assert to_z.interface == "eth1"


def test_where_others_packets_pass_ways_out_are_closed() -> None:
    plan = planned(ROUTES)
    assert {network.name: network.forwarded for network in plan.networks} == dict.fromkeys(
        "xyz", True
    )
    assert [str(item.via) for item in plan.host("c").closed] == ["198.18.0.1"]
    open_ = planned(ROUTES.replace("x: {}", "x: {internal: false}"))
    assert open_.host("c").closed == ()
    # The engine may have put its way out where it is closed.
    (route,) = open_.host("r").routes[1:]
    assert (route.default, str(route.via), route.interface) == (True, "198.18.0.1", "eth0")


def test_who_is_behind_a_forwarding_host_is_found_with_the_way_back() -> None:
    plan = planned(ROUTES)
    paths = Paths(plan)
    host = plan.host("a")
    source = host.attachments[0].address.ip
    there = paths.walk("a", source, plan.host("b").attachments[0].address.ip)
    assert there is not None
    assert (there.host, there.over) == ("b", ("r", "q"))
    assert str(there.source) == "198.18.0.18", "r's own address on y"
    behind = paths.behind(host, host.routes[0])
    assert behind is not None
    assert behind[1].over, "the next hop itself tells nothing of its forwarding"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{nat: y}", "true"),  # Nobody knows the way back to x.
        ("forward: {nat: y}, ", "forward: {nat: x}, "),  # The address on x, of no use beyond y.
    ],
)
def test_nobody_is_behind_whose_answers_do_not_come_back(old: str, new: str) -> None:
    plan = planned(ROUTES.replace(old, new))
    host = plan.host("a")
    assert Paths(plan).behind(host, host.routes[0]) is None
    _, untold = measure.pings(plan, ["a"])
    assert untold == ["host a: nobody is behind 198.18.0.3 whose answers come back"]


def test_routes_that_lead_in_a_ring_lead_nowhere() -> None:
    ring = "networks: {x: {}, y: {}}\nhosts:\n" + "".join(
        f"  {name}: {{nics: {{x: eth0, y: eth1}}, forward: true, "
        f"routes: [{{to: 10.0.0.0/8, via: {other}}}]}}\n"
        for name, other in (("a", "b"), ("b", "a"))
    )
    plan = planned(ring)
    source = plan.host("a").attachments[0].address.ip
    assert Paths(plan).walk("a", source, ip_address("10.0.0.1")) is None


def test_the_commands_of_a_host_in_order() -> None:
    plan = planned("""
networks: {x: {ipv6: true}, y: {}}
hosts:
  a:
    nics: {x: {name: a.0, ip: none, mac: "02:00:00:00:00:01"}, y: eth1}
    forward: {nat: y}
    routes: [{to: 10.0.0.0/8, via: b}]
    dns: {n: silent}
  b: {nics: {x: eth0, y: eth1}, forward: true, gateway: a}
""")
    sys6 = "/proc/sys/net/ipv6/conf"
    jump = "POSTROUTING -j fedtest-nat"
    assert make.plan_settings(plan.host("a")).shown == [
        f"[ -d {sys6} ] || {{ echo 'the kernel has no IPv6' >&2; exit 1; }}",
        f"echo 0 > {sys6}/lo/disable_ipv6",
        "ip link set dev a.0 address 02:00:00:00:00:01",
        "ip -4 address flush dev a.0",
        f"echo 0 > {sys6}/a.0/accept_ra",
        f"echo 0 > {sys6}/a.0/disable_ipv6",
        "ip -6 address replace fdfe:d7e5:c612::1/64 dev a.0 nodad",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        f"echo 1 > {sys6}/all/forwarding",
        "iptables -w -t nat -F fedtest-nat 2>/dev/null || iptables -w -t nat -N fedtest-nat",
        "iptables -w -t nat -A fedtest-nat -o eth1 -j MASQUERADE",
        f"iptables -w -t nat -C {jump} 2>/dev/null || iptables -w -t nat -A {jump}",
        "ip -4 route del 0.0.0.0/0 via 198.18.0.1 dev a.0 2>/dev/null || true",
        "ip -4 route del 0.0.0.0/0 via 198.18.0.17 dev eth1 2>/dev/null || true",
        "ip -4 route replace 10.0.0.0/8 via 198.18.0.19 dev eth1",
        'python3 dns.py 127.0.0.53 53 {"n": "silent"} &',
    ]
    shown = make.plan_settings(plan.host("b")).shown
    assert "ip -4 route replace 0.0.0.0/0 via 198.18.0.18 dev eth1" in shown
    assert "ip -6 route replace ::/0 via fdfe:d7e5:c612::1 dev eth0" in shown


def test_a_plan_in_json_says_only_what_was_asked_for() -> None:
    plain = plan_to_dict(planned("networks: {x: {}}\nhosts: {a: {nics: {x: eth0}}}"))
    (host,) = plain["hosts"]
    assert not {"routes", "closed", "forward", "dns"} & host.keys()
    assert host["attachments"] == [
        {"network": "x", "interface": "eth0", "address": "198.18.0.2/28"}
    ]
    (asked, *_) = plan_to_dict(planned(FAMILIES))["hosts"]
    assert asked["attachments"][0]["ipv4"] is False


def test_links_leave_out_who_has_no_ipv4_address() -> None:
    plan = plan_of("""
fedtest: 1
name: nets
networks: {x: {link: {rate: 10mbit}}}
hosts:
  a: {nics: {x: {name: eth0, ip: none}}}
  b: {nics: {x: eth0}}
  c: {nics: {x: eth0}}
""")
    assert {str(item) for item in measurements(plan)} == {"b to c on x", "c to b on x"}
