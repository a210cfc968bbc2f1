"""A run whose hosts have networks of their own making: settled, read back, measured, or invalid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fedtest.run.result import Verdict
from pretend_networks import Network
from runs import Lab, Run

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
fedtest: 1
name: settled
deadline: 200s
networks: {left: {}, right: {ipv6: true}}
hosts:
  a: {nics: {left: {name: eth0, mac: "02:00:00:00:00:01"}}, gateway: r}
  r: {nics: {left: eth0, right: eth1}, forward: {nat: right}}
  b: {nics: {right: eth0}, dns: {x.example: a, y.example: silent}}
  c: {nics: {right: {name: eth0, ip6: none}}, routes: [{to: left, via: r}]}
processes: {work: {hosts: [a], run: "echo ran"}}
checks: [exit: {process: work}]
"""
PLAIN = """
fedtest: 1
name: plain
networks: {left: {}}
hosts: {a: {nics: {left: eth0}, aliases: [head], names: {web: 192.0.2.1}}}
processes: {work: {hosts: [a], run: "echo ran"}}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def run(lab: Lab, network: Network) -> Run:
    return lab.run(SCENARIO, network.engine)


def assert_invalid(done: Run, *fragments: str) -> None:
    """Invalid before any process ran, for the reason that is told."""
    assert done.result.verdict is Verdict.INVALID
    assert not done.events("started")
    for fragment in fragments:
        assert fragment in "\n".join(done.messages)


def test_networks_that_are_as_asked_for_let_the_run_go_on(lab: Lab) -> None:
    done = run(lab, Network())
    assert done.result.verdict is Verdict.PASSED, done.messages
    kinds = [event["kind"] for event in done.events()]
    assert kinds.count("settings applied") == 4
    assert kinds.index("way tried") < kinds.index("started")
    assert kinds.index("dns asked") < kinds.index("started")
    stages = [stage.name for stage in done.result.stages]
    assert stages.index("settings") == stages.index("hosts") + 1


def test_settings_json_has_what_was_done_read_and_answered(lab: Lab) -> None:
    (entry,) = run(lab, Network()).json("settings.json")
    assert "ip link set dev eth0 address 02:00:00:00:00:01" in entry["applied"]["a"]["commands"]
    assert "MASQUERADE" in entry["applied"]["r"]["read_back"]
    assert [item["what"] for item in entry["answers"] if item["over"]] == [
        "host b through r",
        "host a through r",
    ]
    assert "x.example" in entry["dns"]["b"]


def test_a_scenario_without_settings_has_no_stage_and_no_script(lab: Lab) -> None:
    network = Network()
    done = lab.run(PLAIN, network.engine)
    assert done.result.verdict is Verdict.PASSED, done.messages
    assert network.engine.conditioned == []
    assert "settings" not in [stage.name for stage in done.result.stages]
    assert "settings.json" not in done.names


def test_only_hosts_with_settings_are_touched(lab: Lab) -> None:
    network = Network()
    asking = "hosts: {b: {nics: {left: eth0}, dns: {x: 192.0.2.1}}, a:"
    lab.run(PLAIN.replace("hosts: {a:", asking), network.engine)
    assert {host for host, _ in network.engine.conditioned} == {"b"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("default", "10.9.9.0/24", "host a: the route to default should be via"),
        ("MASQUERADE", "RETURN", "host r: it does not masquerade IPv4"),
        ("<==\n1", "<==\n0", "host r: it does not forward IPv4"),
        ("==> ", "", "host a: the route to default"),
    ],
)
def test_what_reads_back_otherwise_makes_the_run_invalid(
    lab: Lab, old: str, new: str, said: str
) -> None:
    assert_invalid(run(lab, Network(bend=lambda _, text: text.replace(old, new))), said)


def test_a_way_out_that_is_still_open_makes_the_run_invalid(lab: Lab) -> None:
    network = Network()

    def bend(host: str, text: str) -> str:
        for route in network.plan.host(host).closed:
            way = f'[{{"dst": "default", "gateway": "{route.via}", "dev": "{route.interface}"}}]'
            text = text.replace("==> routes 4 <==\n[]", f"==> routes 4 <==\n{way}")
        return text

    network.bend = bend
    assert_invalid(run(lab, network), "host b: there is a way out via", "host r: there is a way")


def test_who_does_not_answer_makes_the_run_invalid_with_a_way_out(lab: Lab) -> None:
    done = run(lab, Network(dead=lambda _: True))
    assert_invalid(done, "host a: host b through r", "the next hop to 0.0.0.0/0", "does not answer")
    assert "bridge-nf-call-iptables" in done.result.problems[0].remedy
    assert not any(item["way"]["answers"] for item in done.events("way tried"))


def test_who_answers_when_asked_again_does_answer(lab: Lab) -> None:
    asked: set[str] = set()

    def dead(address: str) -> bool:
        """The first time."""
        first = address not in asked
        asked.add(address)
        return first

    done = run(lab, Network(dead=dead))
    assert done.result.verdict is Verdict.PASSED, done.messages


def test_dns_that_answers_otherwise_makes_the_run_invalid(lab: Lab) -> None:
    done = run(lab, Network(dns={"y.example": "nxdomain"}))
    assert_invalid(done, "host b: DNS should answer silent to y.example, it answers nxdomain")


def test_dns_that_says_nothing_that_can_be_read_is_told(lab: Lab) -> None:
    network = Network()
    answer = network.answer
    network.engine.defects.answer = lambda host, script: (
        ""
        if script.startswith("python3 -c") and "--first" not in script.split()
        else answer(host, script)
    )
    assert_invalid(run(lab, network), "to x.example, it answers nothing that can be read")


def test_what_nobody_is_there_to_tell_is_said(lab: Lab) -> None:
    text = SCENARIO.replace("{nat: right}", "true").replace(", routes: [{to: left, via: r}]", "")
    done = lab.run(text, Network().engine)
    assert done.result.verdict is Verdict.PASSED, done.messages
    (entry,) = done.json("settings.json")
    (line,) = entry["not measured"]
    assert "host a: nobody is behind" in line
    assert f"not measured: {line}" in lab.recorder.told
