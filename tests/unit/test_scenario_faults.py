"""Faults in the file: spans, what is refused, and that the rest reads back as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError
from scenario_texts import BASE, assert_refused

from fedtest.scenario.faults.spans import Span, parse_span
from fedtest.scenario.load import dump, loads

QUICK = settings(max_examples=200, deadline=None, database=None)


def with_fault(*faults: str) -> str:
    """BASE with faults, which come at once where nothing else is said."""
    return f"{BASE}faults: [{', '.join(f'{{{fault}}}' for fault in faults)}]\n"


@pytest.mark.parametrize(
    ("text", "span", "written"),
    [
        ("5s", Span(5, 5), "5s"),
        ("5s..20s", Span(5, 20), "5s..20s"),
        ("500ms .. 1m", Span(0.5, 60), "500ms..1m"),
        ("0s", Span(0, 0), "0s"),
        ("0s..1s", Span(0, 1), "0s..1s"),
        ("7s..7s", Span(7, 7), "7s"),
    ],
)
def test_spans(text: str, span: Span, written: str) -> None:
    assert parse_span(text) == span
    assert str(span) == written


@pytest.mark.parametrize(
    "value", ["5", 5, "20s..5s", "5s..", "..5s", "1s..2s..3s", "-1s", "5..6", "soon", None, ""]
)
def test_no_spans(value: object) -> None:
    with pytest.raises(PydanticCustomError):
        parse_span(value)


def test_a_span_that_ends_before_it_begins_says_what_one_is() -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse_span("20s..5s")
    context = caught.value.context or {}
    assert context["message"] == "a range that ends before it begins"
    assert "5s..20s" in context["allowed"]


@QUICK
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_is_written_out_is_the_same_span(one: int, other: int) -> None:
    low, high = sorted([one, other])
    span = parse_span(f"{low}ms..{high}ms")
    assert parse_span(str(span)) == span


EVERY = [
    "kill: {process: trainer, host: {any: ring}, signal: TERM}, at: 1s..2s, id: k",
    "pause: {process: trainer}, at: 0s, for: 1s..2s, repeat: {times: 3, every: 5s..6s}",
    "pause: {host: {any: [a, b]}}, when: k.applied, until: k.healed",
    "restart: {process: trainer, host: b}, when: {host: a, log: x}",
    "restart: {host: c, start: false}, at: 5s",
    "stop: {host: a, start: false}, when: {process: trainer, value: v, is: '>= 3'}",
    "partition: {network: data, sides: [[a], [b]], way: forward}, at: 1s",
    "cut: {network: data, from: a, to: b}, when: {host: a, network: data, bytes: 1MB}",
    "link: {network: data, change: {delay: 5ms, loss: 0%}}, at: 1s, for: 1s",
    "interface: {host: a, network: data, ip: 192.168.0.77}, at: 1s",
    "interface: {host: a, network: data, name: eth7}, at: 1s",
    "interface: {host: a, network: data, down: true}, at: 1s",
    "block: {host: a, ports: [5, 10-20], from: b, answer: reject}, at: 1s",
    "resolve: {names: {a: b, b: 127.0.1.1, x.y: missing}}, at: 1s",
    "fill: {host: a, path: /dev/shm}, at: 1s",
]


@pytest.mark.parametrize("fault", EVERY)
def test_every_kind_reads_and_written_out_loads_again_to_the_same(fault: str) -> None:
    scenario = loads(with_fault(EVERY[0], fault) if fault != EVERY[0] else with_fault(fault))
    assert loads(dump(scenario.scenario)).scenario == scenario.scenario


F = "faults[0]"
REFUSED = [
    # What is said of when it comes.
    ("§{kill: {process: trainer}}", F, ["neither at nor when"]),
    ("§{at: 1s}", F, ["none of kill", "exactly one of"]),
    ("§{at: 1s, kill: {process: trainer}, fill: {host: a, path: /x}}", F, ["both kill and fill"]),
    ("§{at: 1s, stop: {host: a}, for: 1s, until: {host: a, log: x}}", F, ["both for and until"]),
    ("§{at: 1s, kill: {process: trainer}, for: 1s}", F, ["a kill does not last"]),
    ("§{at: 1s, restart: {host: a}, until: {host: a, log: x}}", F, ["a restart does not last"]),
    ("§{at: 1s, stop: {host: a}, for: 0s}", F, ["lasts no time", "more than 0"]),
    ("§{at: 1s, stop: {host: a}, repeat: {times: 2, every: 1s}}", F, ["repeat together with"]),
    ("{at: §soon, stop: {host: a}}", f"{F}.at", ['found "soon"', "500ms"]),
    ("{at: §9s..1s, stop: {host: a}}", f"{F}.at", ["ends before it begins", "9s..1s"]),
    ("{at: 1s, for: 1s, stop: {host: a}, repeat: {times: §1, every: 1s}}",
     f"{F}.repeat.times", ["at least 2"]),
    # Moments.
    ("{when: §sometime, stop: {host: a}}", f"{F}.when", ["FAULT.applied or FAULT.healed"]),
    ("{when: §x.applied, stop: {host: a}}", f"{F}.when", ['found "x"']),
    ("{id: me, when: §me.applied, stop: {host: a}}", f"{F}.when",
     ["cannot wait for itself", "another fault's id"]),
    ("{when: {host: §d, log: x}, stop: {host: a}}", f"{F}.when.host", ['found "d"', "a, b, c"]),
    ("{when: §{host: a, bytes: 1MB}, stop: {host: a}}", f"{F}.when", ["bytes together with"]),
    ("{when: §{process: trainer, network: data, bytes: 1MB}, stop: {host: a}}", f"{F}.when",
     ["bytes with host"]),
    ("{when: {host: §c, network: data, bytes: 1MB}, stop: {host: a}}", f"{F}.when.host",
     ["not on network data", "spare"]),
    ("{when: {host: a, network: §date, bytes: 1MB}, stop: {host: a}}", f"{F}.when.network",
     ['did you mean "data"']),
    ("{at: 1s, cut: {network: data}, until: {process: trainer, host: §c, log: x}}",
     f"{F}.until.host", ["trainer does not run on", "a, b"]),
    # Whom it is about.
    ("{at: 1s, kill: {process: §trainr}}", f"{F}.kill.process", ['did you mean "trainer"']),
    ("{at: 1s, kill: {process: trainer, host: §c}}", f"{F}.kill.host",
     ["trainer does not run on host c", "a, b"]),
    ("{at: 1s, kill: {process: trainer, signal: §TREM}}", f"{F}.kill.signal", ["TREM"]),
    ("{at: 1s, pause: §{}}", f"{F}.pause", ["at least one of process, host"]),
    ("{at: 1s, restart: §{}}", f"{F}.restart", ["at least one of process, host"]),
    ("{at: 1s, stop: {host: {any: §rung}}}", f"{F}.stop.host.any", ['did you mean "ring"']),
    ("{at: 1s, stop: {host: {any: [a, §d]}}}", f"{F}.stop.host.any[1]", ["a, b, c"]),
    ("{at: 1s, stop: {host: {any: §[]}}}", f"{F}.stop.host.any", []),
    # Networks.
    ("{at: 1s, cut: {network: §nope}}", f"{F}.cut.network", ["mgmt, data, spare"]),
    ("{at: 1s, cut: {network: data, from: §c}}", f"{F}.cut.from", ["not on network data"]),
    ("{at: 1s, cut: §{network: data, from: a, to: a}}", f"{F}.cut", ["two hosts"]),
    ("{at: 1s, link: §{network: data, from: a, to: a, change: {}}}", f"{F}.link", ["two hosts"]),
    ("{at: 1s, link: {network: data, to: §d, change: {}}}", f"{F}.link.to", ["a, b, c"]),
    ("{at: 1s, link: {network: data, change: {rate: §5}}}", f"{F}.link.change.rate", ["unit"]),
    ("{at: 1s, partition: {network: data, sides: §[[a]]}}", f"{F}.partition.sides", ["at least 2"]),
    ("{at: 1s, partition: {network: data, sides: [[a], [§x]]}}",
     f"{F}.partition.sides[1][0]", ["no host or group", "ring"]),
    ("{at: 1s, partition: {network: data, sides: [[a], [b, §a]]}}",
     f"{F}.partition.sides[1][1]", ["host a is on side 1 already", "each host once"]),
    ("{at: 1s, partition: {network: data, sides: [[a], [§c]]}}",
     f"{F}.partition.sides[1][0]", ["not on network data"]),
    ("{at: 1s, interface: §{host: a, network: data}}", f"{F}.interface", ["none of down"]),
    ("{at: 1s, interface: {host: a, network: data, name: §mgmt0}}",
     f"{F}.interface.name", ["has an interface of that name", "none of mgmt0, eth0"]),
    ("{at: 1s, interface: {host: a, network: mgmt, ip: §10.0.0.1}}",
     f"{F}.interface.ip", ["needs a subnet"]),
    ("{at: 1s, interface: {host: b, network: data, ip: §10.0.0.1}}",
     f"{F}.interface.ip", ["not in the network's subnet 192.168.0.0/24"]),
    ("{at: 1s, interface: {host: b, network: data, ip: §192.168.0.1}}",
     f"{F}.interface.ip", ["host a has this address"]),
    ("{at: 1s, interface: {host: b, network: data, ip: §192.168.0.254}}",
     f"{F}.interface.ip", ["the gateway's"]),
    ("{at: 1s, interface: {host: b, network: data, ip: §192.168.0.255}}",
     f"{F}.interface.ip", ["no host can have"]),
    ("{at: 1s, block: {host: a, ports: §[]}}", f"{F}.block.ports", []),
    ("{at: 1s, block: {host: a, ports: [5, §0]}}", f"{F}.block.ports[1]", ["a range"]),
    ("{at: 1s, block: {host: a, ports: [5], from: §a}}", f"{F}.block.from", ["another host"]),
    ("{at: 1s, block: {host: a, ports: [5], from: §c}}", f"{F}.block.from", ["no network with"]),
    # What hosts know and keep.
    ("{at: 1s, resolve: {names: §{}}}", f"{F}.resolve.names", []),
    ("{at: 1s, resolve: {names: {a: §d}}}", f"{F}.resolve.names.a", ["a, b, c"]),
    ("{at: 1s, fill: {host: a, path: §data}}", f"{F}.fill.path", ["absolute path", "/dev/shm"]),
    ("{at: 1s, fill: {host: §d, path: /data}}", f"{F}.fill.host", ["a, b, c"]),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "path", "fragments"), REFUSED, ids=[item[0] for item in REFUSED])
def test_refused_with_its_place(fault: str, path: str, fragments: list[str]) -> None:
    assert_refused(f"{BASE}faults: [{fault}]\n", path, *fragments)


@pytest.mark.parametrize(
    ("faults", "path"),
    [
        ("{id: x, at: 1s, stop: {host: a}}, {id: §x, at: 1s, stop: {host: b}}", "faults[1].id"),
        # An id that another fault has because it has none of its own.
        ("{id: stop-2, at: 1s, stop: {host: a}}, §{at: 1s, stop: {host: b}}", "faults[1]"),
    ],
)
def test_ids_are_unique_given_or_not(faults: str, path: str) -> None:
    assert_refused(f"{BASE}faults: [{faults}]\n", path, "another fault has this id")


def test_two_faults_that_wait_for_each_other_would_wait_for_ever() -> None:
    text = (
        f"{BASE}faults: [{{id: x, when: §y.applied, stop: {{host: a}}}},"
        " {id: y, when: x.healed, stop: {host: b}}]\n"
    )
    assert_refused(text, "faults[0].when", "wait for each other")


def test_checks_may_name_a_faults_moments_and_no_others() -> None:
    fault = "faults: [{at: 1s, stop: {host: a}, id: off}]\n"
    check = "  - time: {from: off.applied, to: §of.healed, within: 1s}\n"
    assert_refused(BASE + check + fault, "checks[2].time.to", 'did you mean "off"')
    assert loads((BASE + check + fault).replace("§of.", "off.")).scenario.faults
