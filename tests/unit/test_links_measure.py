"""Which ways are measured, when, how long; and what counts as being as asked for."""

from __future__ import annotations

import pytest

from fedtest.links.measure import Measurement, answers, measurements, rounds
from fedtest.links.tolerance import judge
from pretend_links import perfect, plan_of

HOSTS = """
fedtest: 1
name: s
networks: {mgmt: {}, data: {%s}}
hosts:
"""


def scenario(network: str, count: int = 3) -> str:
    hosts = "".join(f"  h{at}: {{nics: {{mgmt: m0, data: d0}}}}\n" for at in range(count))
    return HOSTS % network + hosts


def ways(network: str, count: int = 3) -> list[str]:
    return [str(item) for item in measurements(plan_of(scenario(network, count)))]


def one(network: str) -> Measurement:
    return measurements(plan_of(scenario(network, 2)))[0]


def test_each_conditioned_attachment_is_measured_against_one_peer() -> None:
    found = ways("link: {rate: 1gbit}")
    assert found == ["h0 to h1 on data", "h1 to h2 on data", "h2 to h0 on data"]


def test_a_pair_is_measured_by_itself_and_no_attachment_by_it() -> None:
    found = ways("link: {rate: 1gbit}, pairs: [{from: h0, to: h1, link: {rate: 1mbit}}]")
    assert found == [
        "h0 to h2 on data",
        "h0 to h1 on data",
        "h1 to h2 on data",
        "h2 to h0 on data",
    ]


def test_what_is_not_to_be_probed_and_what_cannot_be_is_not_measured() -> None:
    assert ways("link: {rate: 1gbit, probe: false}") == []
    assert ways("link: {mtu: 1400}") == []
    assert ways("") == []


def test_a_way_whose_delay_is_switched_off_is_measured() -> None:
    found = ways("link: {delay: 5ms}, pairs: [{from: h0, to: h1, link: {delay: 0ms}}]", 2)
    assert found == ["h0 to h1 on data", "h1 to h0 on data"]


def test_measurements_of_a_round_share_no_host_and_send_no_more_than_a_small_machine_can() -> None:
    every = measurements(plan_of(scenario("link: {rate: 300mbit}", 20)))
    found = list(rounds(every))
    assert sorted(map(str, every)) == sorted(str(item) for some in found for item in some)
    for some in found:
        hosts = [host for item in some for host in (item.way.sender, item.way.receiver)]
        assert len(hosts) == len(set(hosts))
        assert sum(item.way.link.rate or 0 for item in some) <= 10**9
    assert len(found) <= 8


def test_one_that_is_faster_than_that_is_alone() -> None:
    every = measurements(plan_of(scenario("link: {rate: 10gbit}", 4)))
    assert [len(some) for some in rounds(every)] == [1, 1, 1, 1]


def test_rounds_grow_with_the_hosts_and_not_with_their_pairs() -> None:
    every = measurements(plan_of(scenario("link: {delay: 1ms}", 64)))
    assert len(every) == 64
    assert len(list(rounds(every))) <= 64 // 8 + 2


@pytest.mark.parametrize("rate", ["64kbit", "1mbit", "100mbit", "1gbit", "100gbit"])
@pytest.mark.parametrize("loss", ["0%", "0.01%", "1%", "90%"])
@pytest.mark.parametrize("delay", ["0ms", "1ms, jitter: 1ms", "2s, jitter: 2s"])
def test_time_and_bytes_are_bounded(rate: str, loss: str, delay: str) -> None:
    order = one(f"link: {{rate: {rate}, loss: {loss}, delay: {delay}}}").order()
    trips = order.get("round_trips", {"count": 0, "interval": 0})
    assert trips["count"] * trips["interval"] <= 40
    losses = order.get("losses", {"count": 0, "interval": 0})
    assert losses["count"] * losses["interval"] <= 4
    assert order["rate"]["seconds"] <= 6
    assert order["rate"]["seconds"] * min(one("link: {rate: %s}" % rate).way.link.rate or 0, 10**12) <= 8 * 65_000_000  # fmt: skip  # noqa: E501, UP031


LINKS = [
    "rate: 100mbit",
    "delay: 5ms",
    "delay: 20ms, jitter: 5ms",
    "loss: 1%",
    "loss: 5%, rate: 10mbit",
    "duplicate: 2%",
    "corrupt: 5%",
]


@pytest.mark.parametrize("link", LINKS)
def test_what_is_as_asked_for_fits(link: str) -> None:
    item = one(f"link: {{{link}}}")
    figures = judge(item, perfect(item))
    assert figures
    assert all(figure.fits for figure in figures), list(map(str, figures))


@pytest.mark.parametrize("link", LINKS)
def test_a_way_on_which_nothing_is_done_is_noticed(link: str) -> None:
    """As an unconditioned one is measured: at once, all of it, at 20 Gbit/s."""
    item = one(f"link: {{{link}}}")
    order = item.order()
    count = order.get("losses", {"count": 0})["count"]
    answer = {
        "round_trips": [0.0002] * 40,
        "losses": {"distinct": count, "twice": 0},
        "rate": {"rate": 2e10},
    }
    assert not all(figure.fits for figure in judge(item, answer))


@pytest.mark.parametrize("link", LINKS)
def test_a_probe_that_tells_nothing_is_noticed(link: str) -> None:
    item = one(f"link: {{{link}}}")
    assert not all(figure.fits for figure in judge(item, answers("")))


@pytest.mark.parametrize(
    ("link", "answer", "fits"),
    [
        ("rate: 100mbit", {"rate": {"rate": 95.1e6}}, True),
        ("rate: 100mbit", {"rate": {"rate": 104.9e6}}, True),
        ("rate: 100mbit", {"rate": {"rate": 94.9e6}}, False),
        ("rate: 100mbit", {"rate": {"rate": 105.1e6}}, False),
        ("delay: 50ms", {"round_trips": [0.0951] * 20}, True),
        ("delay: 50ms", {"round_trips": [0.1059] * 20}, True),
        ("delay: 50ms", {"round_trips": [0.0949] * 20}, False),
        ("delay: 50ms", {"round_trips": [0.1061] * 20}, False),
        ("delay: 50ms", {"round_trips": [0.1] * 10 + [0.9] * 10}, True),
        ("delay: 50ms", {"round_trips": [0.1] * 4}, False),
        ("delay: 50ms, jitter: 10ms", {"round_trips": [0.1] * 40}, False),
        ("delay: 50ms, jitter: 1ms", {"round_trips": [0.05, 0.15] * 20}, False),
        ("loss: 1%", {"losses": {"distinct": 2500 - 5}}, True),
        ("loss: 1%", {"losses": {"distinct": 2500 - 45}}, True),
        ("loss: 1%", {"losses": {"distinct": 2500 - 4}}, False),
        ("loss: 1%", {"losses": {"distinct": 2500 - 46}}, False),
    ],
)
def test_tolerances_are_two_sided(link: str, answer: dict[str, object], fits: bool) -> None:
    figures = judge(one(f"link: {{{link}}}"), answer)
    assert all(figure.fits for figure in figures) == fits, list(map(str, figures))


def test_a_round_trip_takes_both_ways() -> None:
    network = "link: {delay: 5ms}, pairs: [{from: h0, to: h1, link: {delay: 50ms}}]"
    (figure,) = judge(one(network), {"round_trips": [0.055] * 20})
    assert figure.fits
    assert figure.low == 52.25


def test_what_does_not_fit_says_what_it_should_be_and_is() -> None:
    (figure,) = judge(one("link: {rate: 100mbit}"), {"rate": {"rate": 2e10}})
    assert str(figure) == "the rate should be 95 to 105 Mbit/s, it is 2e+04 Mbit/s"
