"""What hosts' networks have on real hosts is noticed when it is not as asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from conftest import run_with

from fedtest.engine.choose import open_engine
from fedtest.engine.docker import hosts
from fedtest.engine.inside import FIRST_PROCESS
from fedtest.run.result import Result, Verdict
from fedtest.settings import make
from network_scenarios import routed, two

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The same code looks and judges on every engine; without Docker it takes less time.
without_docker = pytest.mark.netns


def broken(runs: Path, text: str, engine: str) -> Result:
    result = run_with(open_engine(engine), text, runs)
    assert result.verdict is Verdict.INVALID
    assert result.processes == ()
    return result


def tampering(old: str, new: str) -> Callable[[Any], str]:
    original = make.script

    def tampered(item: Any) -> str:
        whole = original(item)
        return whole.replace(old, new)

    return tampered


MAC = '{name: eth0, mac: "02:00:00:00:00:0a"}'
# Each of these is broken on purpose: what is asked for is not what is done.
BROKEN = [
    (two(a=MAC), "00:0a", "00:0b", "should have the MAC address 02:00:00:00:00:0a"),
    (two(b="{name: ib0, ip: none}"), "flush", "show", "should have no IPv4 address"),
    pytest.param(
        (two("{ipv6: true}"), "::1/64", "::9/64", "::1/64, it has"),
        marks=pytest.mark.needs("ipv6"),
    ),
    (routed(), "echo 1 >", "echo 0 >", "host r: it does not forward IPv4"),
    (routed(", forward: {nat: right}", back=""), "-o eth1", "-o eth0", "does not masquerade IPv4"),
    (routed(), "route replace", "route show", "the route to default should be via"),
    (
        two(rest="dns: {web.example: 192.0.2.7}\n"),
        '["192.0.2.7"]', '["192.0.2.8"]',
        "DNS should answer 192.0.2.7 to web.example, it answers 192.0.2.8",
    ),
    (two(rest="dns: {x.example: silent}\n"), '"silent"}', '"nxdomain"}', "silent to x.example"),
]  # fmt: skip


@without_docker
@pytest.mark.parametrize("case", BROKEN, ids=lambda case: str(case[1]))
def test_a_network_that_is_not_as_asked_for_makes_the_run_invalid(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    engine_name: str,
    case: tuple[str, str, str, str],
) -> None:
    text, old, new, said = case
    monkeypatch.setattr(make, "script", tampering(old, new))
    assert said in broken(tmp_path, text, engine_name).problems[0].message


@without_docker
def test_a_host_that_drops_what_it_should_forward_makes_the_run_invalid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine_name: str
) -> None:
    """All reads back as it should, and only the measuring tells."""
    original = make.script
    monkeypatch.setattr(
        make, "script", lambda item: f"iptables -w -P FORWARD DROP\n{original(item)}"
    )
    (problem,) = broken(tmp_path, routed(), engine_name).problems
    assert "host a: host b through r" in problem.message
    assert "does not answer" in problem.message


@pytest.mark.docker  # Whose hosts' first process is tampered with.
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", names: {b: missing}", "host a: /etc/hosts is not what it should be"),
        (", dns: {web.example: b}", "host a: /etc/resolv.conf is not what it should be"),
    ],
)
def test_names_that_lead_elsewhere_make_the_run_invalid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: str, said: str
) -> None:
    other = "127.0.0.1 localhost\n"
    monkeypatch.setattr(hosts.inside, "FIRST_PROCESS", f"set '{other}' '{other}'\n{FIRST_PROCESS}")
    assert said in broken(tmp_path, two(more=more), "docker").problems[0].message


def test_a_gateway_that_nobody_has_makes_the_run_invalid(tmp_path: Path, engine_name: str) -> None:
    text = two("{subnet: 10.78.8.0/24}", more=", gateway: 10.78.8.77")
    (problem,) = broken(tmp_path, text, engine_name).problems
    assert "host a: the next hop to 0.0.0.0/0 (10.78.8.77) does not answer" in problem.message
