"""Links, firewalls and taken ports in the file: what is read, merged, refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError
from scenario_texts import BASE, assert_refused, changed

from fedtest.plan import Plan, make_plan
from fedtest.plan_links import LinkPlan
from fedtest.scenario.links import Link
from fedtest.scenario.load import dump, loads
from fedtest.scenario.quantities import (
    format_delay,
    format_rate,
    format_share,
    parse_delay,
    parse_loss,
    parse_rate,
    parse_share,
)
from fedtest.subnets import choose

QUICK = settings(max_examples=200, deadline=None, database=None)
DATA = "data: {subnet: 192.168.0.0/24, gateway: 192.168.0.254}"
ON_A = "data: {name: eth0, ip: 192.168.0.1}"
HOST_C = "c: {nics: {spare: eth0}}"


def with_link(link: str) -> str:
    return changed(DATA, f"data: {{subnet: 192.168.0.0/24, link: {link}}}")


def with_pair(pair: str, link: str = "{}") -> str:
    text = f"data: {{subnet: 192.168.0.0/24, link: {link}, pairs: [{pair}]}}"
    return changed(DATA, text)


def with_host(more: str) -> str:
    return changed(HOST_C, f"c: {{nics: {{spare: eth0}}, {more}}}")


def plan_of(text: str) -> Plan:
    scenario = loads(text).scenario
    return make_plan(scenario, choose(scenario, "run", ()))


def sent_by(plan: Plan, host: str) -> LinkPlan:
    return next(item.link for item in plan.host(host).attachments if item.network == "data")


@pytest.mark.parametrize(
    ("text", "rate", "canonical"),
    [
        ("100mbit", 100_000_000, "100mbit"),
        ("1gbit", 10**9, "1gbit"),
        ("1.5gbit", 1_500_000_000, "1500mbit"),
        ("64kbit", 64_000, "64kbit"),
        ("100 mbit", 100_000_000, "100mbit"),
        ("64001bit", 64_001, "64001bit"),
    ],
)
def test_rates(text: str, rate: int, canonical: str) -> None:
    assert parse_rate(text) == rate
    assert format_rate(rate) == canonical


@pytest.mark.parametrize(
    ("text", "meant"),
    [("100Mbit/s", "100mbit"), ("100Mbps", "100mbit"), ("1Gbit", "1gbit"), ("5kbps", "5kbit")],
)
def test_a_rate_written_otherwise_says_how_it_is_written_here(text: str, meant: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse_rate(text)
    context = caught.value.context or {}
    assert context["hint"] == f'did you mean "{meant}"?'
    assert "bit, kbit, mbit, gbit" in context["allowed"]


@pytest.mark.parametrize("value", ["100", 100, "10MB", "63kbit", "101gbit", "-1mbit", "fast", None])
def test_no_rates(value: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_rate(value)


@pytest.mark.parametrize(
    ("text", "seconds", "canonical"),
    [
        ("5ms", 0.005, "5ms"),
        ("200us", 0.0002, "200us"),
        ("0ms", 0, "0s"),
        ("1.5ms", 0.0015, "1500us"),
    ],
)
def test_delays(text: str, seconds: float, canonical: str) -> None:
    assert parse_delay(text) == seconds
    assert format_delay(seconds) == canonical


@pytest.mark.parametrize("value", ["5", 5, "3s", "1m", "5 minutes", "-5ms", "0.5us"])
def test_no_delays(value: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_delay(value)


@pytest.mark.parametrize(
    ("text", "share", "canonical"),
    [("0.1%", 0.001, "0.1%"), ("5%", 0.05, "5%"), ("100%", 1.0, "100%"), ("0%", 0.0, "0%")],
)
def test_shares(text: str, share: float, canonical: str) -> None:
    assert parse_share(text) == share
    assert format_share(share) == canonical


@pytest.mark.parametrize("value", ["0.1", 0.1, "101%", "0.00001%", "-1%", "1 percent"])
def test_no_shares(value: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_share(value)


def test_more_loss_than_can_be_measured_is_refused() -> None:
    with pytest.raises(PydanticCustomError):
        parse_loss("91%")


def test_a_queue_has_room_for_a_packet() -> None:
    assert Link(queue="1514B").queue == 1514
    with pytest.raises(ValidationError, match="no packet fits into"):
        Link(queue="1513B")


@QUICK
@given(st.integers(64_000, 10**11), st.integers(0, 2_000_000), st.integers(0, 1_000_000))
def test_what_is_written_out_reads_back(rate: int, micros: int, millionths: int) -> None:
    assert parse_rate(format_rate(rate)) == rate
    assert parse_delay(format_delay(micros / 1e6)) == micros / 1e6
    assert parse_share(format_share(millionths / 1e6)) == millionths / 1e6


EVERY_KEY = """{rate: 100mbit, delay: 5ms, jitter: 1ms, loss: 0.1%, duplicate: 1%, reorder: 2%,
  corrupt: 0.5%, mtu: 1400, queue: 64KiB, probe: false}"""


def test_every_key_of_a_networks_link_reaches_every_attachment() -> None:
    plan = plan_of(with_link(EVERY_KEY))
    wanted = LinkPlan(10**8, 0.005, 0.001, 0.001, 0.01, 0.02, 0.005, 65536, probe=False)
    assert [sent_by(plan, host) for host in ("a", "b")] == [wanted, wanted]
    assert {item.mtu for host in "ab" for item in plan.host(host).attachments} == {None, 1400}
    assert [network.mtu for network in plan.networks] == [None, 1400, None]
    assert plan.conditioned


def test_a_scenario_without_conditions_has_none_in_its_plan() -> None:
    assert not plan_of(BASE).conditioned


def test_an_attachments_own_keys_win_over_the_networks() -> None:
    text = with_link("{rate: 100mbit, delay: 5ms}").replace(
        ON_A, "data: {name: eth0, ip: 192.168.0.1, link: {delay: 20ms}}"
    )
    plan = plan_of(text)
    assert sent_by(plan, "a") == LinkPlan(rate=10**8, delay=0.02)
    assert sent_by(plan, "b") == LinkPlan(rate=10**8, delay=0.005)


def test_a_pairs_keys_win_on_its_own_way_and_on_no_other() -> None:
    plan = plan_of(with_pair("{from: a, to: b, link: {delay: 50ms}}", "{rate: 1gbit, delay: 5ms}"))
    (pair,) = plan.networks[1].pairs
    assert (pair.sender, pair.receiver) == ("a", "b")
    assert pair.link == LinkPlan(rate=10**9, delay=0.05)
    assert pair.shares_rate
    assert sent_by(plan, "a") == LinkPlan(rate=10**9, delay=0.005)


def test_a_pair_with_one_end_is_about_every_other_host() -> None:
    plan = plan_of(with_pair("{to: a, link: {rate: 10mbit}}"))
    (pair,) = plan.networks[1].pairs
    assert (pair.sender, pair.receiver, pair.shares_rate) == ("b", "a", False)


def test_nothing_switches_off_what_the_network_asks_for() -> None:
    plan = plan_of(with_pair("{from: a, to: b, link: {delay: 0ms, loss: 0%}}",
                             "{delay: 5ms, loss: 1%}"))  # fmt: skip
    assert plan.networks[1].pairs[0].link.empty


def test_firewalls_and_taken_ports() -> None:
    text = with_host(
        "firewall: {accept: [22, 30000-30100], otherwise: drop},"
        " ports_in_use: [29500, {port: 29501, answers: nothing}]"
    )
    host = plan_of(text).host("c")
    assert host.firewall is not None
    assert host.firewall.interfaces == ("eth0",)
    assert host.firewall.accept == ((22, 22), (30000, 30100))
    assert [(item.port, item.answers) for item in host.ports_in_use] == [
        (29500, "wrong"), (29501, "nothing")
    ]  # fmt: skip


def test_a_firewall_stands_on_the_networks_it_names() -> None:
    nics = "nics: {mgmt: mgmt0, data: ib0}"
    text = changed(nics, f"{nics}, firewall: {{networks: [data]}}")
    firewall = plan_of(text).host("b").firewall
    assert firewall is not None
    assert firewall.interfaces == ("ib0",)


@pytest.mark.parametrize(
    "text",
    [
        with_link(EVERY_KEY),
        with_pair("{from: a, to: b, link: {rate: 1gbit, loss: 0%}}, {to: a, link: {delay: 1ms}}"),
        with_host("firewall: {accept: [22, 1-5]}, ports_in_use: [1, {port: 2, answers: nothing}]"),
    ],
)
def test_written_out_it_loads_again_to_the_same(text: str) -> None:
    scenario = loads(text).scenario
    assert loads(dump(scenario)).scenario == scenario


@pytest.mark.parametrize(
    ("text", "path", "fragments"),
    [
        (with_link("{rate: §100Mb/s}"), "networks.data.link.rate", ["bit, kbit, mbit, gbit"]),
        (with_link("{rate: §100}"), "networks.data.link.rate", ["needs a unit"]),
        (with_link("{loss: §0.1}"), "networks.data.link.loss", ["like 0.1%"]),
        (with_link("{delay: §5}"), "networks.data.link.delay", ["us, ms, s"]),
        (with_link("{§speed: 5}"), "networks.data.link.speed", ["allowed"]),
        (with_link("{jitter: §5ms}"), "networks.data.link.jitter", ["at most the delay"]),
        (with_link("{delay: 1ms, jitter: §5ms}"), "networks.data.link.jitter", []),
        (with_link("{reorder: §5%}"), "networks.data.link.reorder", ["together with delay"]),
        (with_link("{queue: §5kB}"), "networks.data.link.queue", ["together with rate"]),
        (with_link("{mtu: §100}"), "networks.data.link.mtu", ["576"]),
        (with_pair("§{link: {}}"), "networks.data.pairs[0]", ["at least one of from and to"]),
        (with_pair("§{from: a, to: a, link: {}}"), "networks.data.pairs[0]", ["two hosts"]),
        (with_pair("{from: §x, link: {}}"), "networks.data.pairs[0].from", ["a, b, c"]),
        (with_pair("{to: §c, link: {}}"), "networks.data.pairs[0].to", ["not on network data"]),
        (with_pair("{to: a, link: {§mtu: 1400}}"), "networks.data.pairs[0].link.mtu", []),
        (
            with_pair("{to: a, link: {}}, §{to: a, link: {}}"),
            "networks.data.pairs[1]",
            ["the same hosts"],
        ),
        (
            with_pair("{to: a, link: {queue: §5kB}}", "{rate: 1gbit}"),
            "networks.data.pairs[0].link.queue",
            ["together with rate"],
        ),
        (
            changed(ON_A, "data: {name: eth0, link: {mtu: §9000}}"),
            "hosts.a.nics.data.link.mtu",
            ["at most 1500", "networks.data.link.mtu"],
        ),
        (with_host("firewall: {accept: [§0]}"), "hosts.c.firewall.accept[0]", ["a range"]),
        (with_host("firewall: {accept: [§9-5]}"), "hosts.c.firewall.accept[0]", ["a range"]),
        (with_host("firewall: {otherwise: §deny}"), "hosts.c.firewall.otherwise", ["drop"]),
        (
            with_host("firewall: {networks: [§data]}"),
            "hosts.c.firewall.networks[0]",
            ["not on network data", "spare"],
        ),
        (with_host("firewall: {networks: [§dota]}"), "hosts.c.firewall.networks[0]", ["data"]),
        (with_host("ports_in_use: [5, §5]"), "hosts.c.ports_in_use[1]", ["twice"]),
        (with_host("ports_in_use: [§70000]"), "hosts.c.ports_in_use[0].port", ["65535"]),
    ],
)  # fmt: skip
def test_refused_with_its_place(text: str, path: str, fragments: list[str]) -> None:
    assert_refused(text, path, *fragments)
