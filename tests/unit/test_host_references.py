"""What a scenario is refused for in its hosts' addresses, routes and names."""

# ruff: noqa: E501 - a case is read best as one line
from __future__ import annotations

import pytest
from scenario_texts import NETS, place_of, problems_of

from fedtest.scenario.load import dump, loads


def changed(old: str, new: str) -> str:
    assert NETS.count(old) == 1, f"{old!r} is not once in NETS"
    return NETS.replace(old, new)


def test_the_base_is_good_and_survives_being_written() -> None:
    scenario = loads(NETS).scenario
    assert loads(dump(scenario)).scenario == scenario
    assert scenario.hosts["a"].nics["left"].mac == "02:00:00:00:00:01"


@pytest.mark.parametrize(("given", "there"), [("true", True), ("{}", True), ("false", False)])
def test_forward_may_be_said_in_short(given: str, *, there: bool) -> None:
    text = NETS.replace("{nat: right}", given).replace("gateway: r", "").replace(
        "routes: [{to: right, via: r}, {to: 10.9.0.0/16, via: 10.1.0.99}]", ""
    )  # fmt: skip
    assert (loads(text).scenario.hosts["r"].forward is not None) is there


@pytest.mark.parametrize(
    ("old", "new", "path", "fragments"),
    [
        # Networks.
        ("{ipv4: false, subnet6", "§{ipv4: false, subnet: 10.6.0.0/24, subnet6", "networks.six", ["without IPv4"]),
        ('six: {ipv4: false, subnet6: "fd00:6::/120"}', "six: §{ipv4: false}", "networks.six", ["neither IPv4 nor IPv6", "ipv6: true"]),
        ('subnet6: "fd00:6::/120"', 'subnet6: §"fd00:6::/63"', "networks.six.subnet6", ["not a subnet", "64 to 120"]),
        ('subnet6: "fd00:6::/120"', 'subnet6: §"fd00:6::1/120"', "networks.six.subnet6", ["not a subnet"]),
        ('subnet6: "fd00:6::/120"', "subnet6: §10.0.0.0/8", "networks.six.subnet6", ["not a subnet", "IPv6"]),
        ('subnet6: "fd00:6::/120"', 'subnet6: §"fe80::/64"', "networks.six.subnet6", ["link-local"]),
        ('subnet6: "fd00:6::/120"', 'subnet6: §"fd00:1::/112"', "networks.six.subnet6", ["overlaps that of network left"]),
        ('subnet6: "fd00:6::/120"', 'subnet6: §"fdfe:d7e5:1::/64"', "networks.six.subnet6", ["fedtest's own range"]),
        ("right: {subnet: 10.2.0.0/24}", 'right: {subnet: §"fd00:2::/64"}', "networks.right.subnet", ["subnet6"]),
        # Interfaces.
        ("six: ib0", "six: {name: ib0, ip: §10.6.0.1}", "hosts.a.nics.six.ip", ["network six has no IPv4"]),
        ("six: ib0", 'six: {name: ib0, ip6: §"fd00:7::1"}', "hosts.a.nics.six.ip6", ["fd00:6::/120", "fd00:6::1 to"]),
        ("six: ib0", 'six: {name: ib0, ip6: §"fd00:6::"}', "hosts.a.nics.six.ip6", ["none for a host"]),
        ("six: ib0", "six: {name: ib0, ip6: §fd00}", "hosts.a.nics.six.ip6", ["not an address"]),
        ("      mgmt: mgmt0", '      mgmt: {name: mgmt0, ip6: §"fd00:6::1"}', "hosts.a.nics.mgmt.ip6", ["network mgmt has none"]),
        ("left: eth0, right: eth1}", 'left: {name: eth0, ip6: §"fd00:1::10"}, right: eth1}', "hosts.r.nics.left.ip6", ["host a has this address"]),
        ("left: eth0, right: eth1}", 'left: {name: eth0, mac: §"02:00:00:00:00:01"}, right: eth1}', "hosts.r.nics.left.mac", ["host a has this address"]),
        ('mac: "02:00:00:00:00:01"', 'mac: §"03:00:00:00:00:01"', "hosts.a.nics.left.mac", ["several hosts", "first pair even"]),
        ('mac: "02:00:00:00:00:01"', 'mac: §"00:00:00:00:00:00"', "hosts.a.nics.left.mac", ["none"]),
        ('mac: "02:00:00:00:00:01"', "mac: §020000000001", "hosts.a.nics.left.mac", ["not a MAC address"]),
        ("ip: none, ip6: none", "ip: §nothing, ip6: none", "hosts.b.nics.mgmt.ip", ["not an address"]),
        # What holds for IPv4 only.
        ("mgmt: {ipv6: true}", "mgmt: {ipv6: true, link: {delay: §5ms}}", "networks.mgmt.link.delay", ["would not hold for IPv6"]),
        ("six: {ipv4: false,", "six: {ipv4: false, link: {rate: §5mbit},", "networks.six.link.rate", ["would not hold for IPv6"]),
        ("six: ib0", "six: {name: ib0, link: {rate: §5mbit}}", "hosts.a.nics.six.link.rate", ["would not hold for IPv6"]),
        ("mgmt: {ipv6: true}", "mgmt: {ipv6: true, pairs: [{to: a, link: {rate: §5mbit}}]}", "networks.mgmt.pairs[0].link.rate", ["would not hold"]),
        ("groups:", "faults: [{link: {network: mgmt, change: {loss: §1%}}, at: 1s}]\ngroups:", "faults[0].link.change.loss", ["would not hold"]),
        ("groups:", "faults: [{link: {network: mgmt, to: a, change: {rate: §5mbit}}, at: 1s}]\ngroups:", "faults[0].link.change.rate", ["would not hold"]),
        ("gateway: r\n", "gateway: r\n    firewall: §{accept: [1], networks: [mgmt]}\n", "hosts.a.firewall", ["IPv4 only", "network mgmt has IPv6"]),
        # Routes.
        ("gateway: r\n", "gateway: §q\n", "hosts.a.gateway", ["no host", "allowed a, r, b"]),
        ("gateway: r\n", "gateway: §a\n", "hosts.a.gateway", ["the host itself"]),
        ("gateway: r\n", "gateway: §b\n", "hosts.a.gateway", ["share no network on which both have an address"]),
        ("gateway: r\n", "gateway: §10.2.0.9\n", "hosts.a.gateway", ["in no subnet", "10.1.0.0/24, fd00:1::/64, fd00:6::/120"]),
        ("gateway: r\n", "gateway: §10.1.0.10\n", "hosts.a.gateway", ["own address"]),
        ("gateway: r\n", "gateway: §10.1.0.1\n", "hosts.a.gateway", ["nobody is at that address", "internal"]),
        ("gateway: r\n", "gateway: §a_b\n", "hosts.a.gateway", ["neither a host's name nor an address"]),
        ("dns: {x: silent}", "dns: {x: silent}, gateway: §a", "hosts.b.gateway", ["share no network"]),
        ("groups: {pair", "  d: {nics: {right: eth0}, forward: §true}\ngroups: {pair", "hosts.d.forward", ["on one network only"]),
        ("groups: {pair", "  d: {nics: {left: eth0, six: ib0}, gateway: §a}\ngroups: {pair", "hosts.d.gateway", ["host a does not forward", "forward: true"]),
        ("{to: right, via: r}", "{to: §rigth, via: r}", "hosts.a.routes[0].to", ["no network", '"right"']),
        ("{to: right, via: r}", "{to: §six, via: r}", "hosts.a.routes[0].to", ["on that network itself"]),
        ("{to: right, via: r}", "{to: §0.0.0.0/0, via: r}", "hosts.a.routes[0].to", ["is the gateway"]),
        ("{to: right, via: r}", "{to: §10.9.0.1/16, via: r}", "hosts.a.routes[0].to", ["neither a network's name nor a prefix"]),
        ("{to: right, via: r}", '{to: right, via: §"fd00:1::99"}', "hosts.a.routes[0].via", ["no address of that family", "IPv4"]),
        ("{to: 10.9.0.0/16, via: 10.1.0.99}", "{to: §right, via: r}", "hosts.a.routes[1].to", ["a route to it already"]),
        ("forward: {nat: right}", "forward: {nat: §six}", "hosts.r.forward.nat", ["not on network six"]),
        ("forward: {nat: right}", "forward: {nat: §sxi}", "hosts.r.forward.nat", ["no network"]),
        ("forward: {nat: right}", "forward: §yes", "hosts.r.forward", []),
        # Names.
        ("aliases: [head, head.example]", "aliases: [head, §b]", "hosts.a.aliases[1]", ["host b is called that"]),
        ("aliases: [head, head.example]", "aliases: [head, §head]", "hosts.a.aliases[1]", ["host a is called that"]),
        ("aliases: [head, head.example]", "aliases: [head, §a b]", "hosts.a.aliases[1]", ["not a name"]),
        ("aliases: [head, head.example]", "aliases: [§10.0.0.1]", "hosts.a.aliases[0]", ["taken for an address"]),
        ("aliases: [head, head.example]", "aliases: [§localhost]", "hosts.a.aliases[0]", ["needs itself"]),
        ("{b: missing,", "{§q: missing,", "hosts.a.names.q", ["no host", "allowed a, r, b, head"]),
        ("c: 127.0.1.1", "c: §q", "hosts.a.names.c", ["no host"]),
        ("c: 127.0.1.1", "c: §nxdomain", "hosts.a.names.c", ["no host"]),
        ("c: 127.0.1.1", "c: §b", "hosts.a.names.c", ["no address where names resolve"]),
        ("dns: {web.example: a}", "dns: {web.example: §q}", "dns.web.example", ["no host"]),
        ("dns: {web.example: a}", "dns: {web.example: §1.2.3}", "dns.web.example", ["nothing that a name can lead to", "silent"]),
        ("dns: {x: silent}", "dns: {x: §missing}", "hosts.b.dns.x", ["no host"]),
        # What needs an address.
        ("network: left}}\n", "network: left}, other: {members: [§b, r], network: mgmt}}\n", "groups.other.members[0]", ["b, has no address on network mgmt"]),
        ("from: a, to: r, network: left", "from: a, to: §b, network: mgmt", "checks[0].reach.to", ["b has no address on network mgmt"]),
        ("to: r, network: left", "to: §b", "checks[0].reach.to", ["b has no address on network mgmt"]),
        ('"${{ nics.left.ip6 }}"', '"§${{ nics.left.ip7 }}"', "processes.p.run", ["ip7", "allowed name, ip, ip6"]),
        ('"${{ nics.left.ip6 }}"', '"§${{ hosts.a.nics.six.ip }}"', "processes.p.run", ["allowed name, ip6"]),
        ('"${{ nics.left.ip6 }}"', '"§${{ hosts.b.nics.mgmt.ip }}"', "processes.p.run", ["allowed name"]),
    ],
)  # fmt: skip
def test_each_mistake_is_one_problem_at_its_place(
    old: str, new: str, path: str, fragments: list[str]
) -> None:
    text, line, column = place_of(changed(old, new))
    (problem,) = problems_of(text)
    assert (problem.path, problem.line, problem.column) == (path, line, column), str(problem)
    for fragment in fragments:
        assert fragment in str(problem)
