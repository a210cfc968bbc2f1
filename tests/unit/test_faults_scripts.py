"""What faults run in hosts, as text, and what they make of what is printed, garbage included."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedtest.links import barriers, interfaces, passage
from fedtest.links.passage import Passage
from fedtest.plan import AttachmentPlan, HostPlan, ImagePlan
from fedtest.plan_links import BarrierPlan

if TYPE_CHECKING:
    from pathlib import Path

QUICK = settings(max_examples=200, deadline=None, database=None)
HOST = HostPlan("a", ImagePlan(), (), (), ())
NIC = AttachmentPlan("data", "eth0", IPv4Interface("10.9.0.1/24"))
WAY = Passage("a", "b", "10.9.0.1", "10.9.0.2", passage.PORT, open=True)


def with_barriers(*items: BarrierPlan) -> HostPlan:
    return replace(HOST, barriers=items)


def is_shell(script: str) -> bool:
    done = subprocess.run(
        ["/bin/sh", "-n"], input=script, text=True, capture_output=True, check=False
    )
    return done.returncode == 0 and not done.stderr


def rules(script: str) -> list[str]:
    return [line for line in script.splitlines() if line.startswith("-A ")]


EVERY = (
    BarrierPlan("eth0"),
    BarrierPlan("eth0", "10.9.0.2"),
    BarrierPlan(ports=((22, 22), (80, 90)), answer="reject"),
    BarrierPlan(source="fd00::2", ports=((5, 5),)),
)


def test_barriers_are_put_in_place_at_once_and_before_everything_else() -> None:
    script = barriers.script(with_barriers(*EVERY))
    assert is_shell(script)
    assert script.count("iptables-restore -w --noflush") == 1
    for hook in ("INPUT", "FORWARD"):
        assert f"iptables -w -I {hook} 1 -j {barriers.CHAIN}" in script
    assert "-A fedtest-faults -s 10.9.0.2/32 -i eth0 -j DROP" in rules(script)
    assert (
        "-A fedtest-faults -p tcp -m multiport --dports 22,80:90"
        " -j REJECT --reject-with tcp-reset" in rules(script)
    )
    assert "-A fedtest-faults -s fd00::2/128 -p udp -m multiport --dports 5 -j DROP" in rules(
        script
    )


def test_without_barriers_nothing_of_them_stays() -> None:
    script = barriers.script(HOST)
    assert is_shell(script)
    assert not rules(script)
    for words in ("-D INPUT", "-D FORWARD", "-F", "-X"):
        assert f"iptables -w {words}" in script
        assert f"ip6tables -w {words}" in script


def test_more_ports_than_a_rule_can_hold_are_several_rules() -> None:
    ports = tuple((at, at + 1) for at in range(10, 50, 4))
    found = rules(barriers.script(with_barriers(BarrierPlan(source="10.0.0.1", ports=ports))))
    assert len(found) == 4  # Two of TCP and two of UDP.
    assert all(rule.count(":") <= 7 for rule in found)


def there(*items: BarrierPlan) -> str:
    """What would be printed with these in place."""
    host = with_barriers(*items)
    jumps = [f"-A {hook} -j {barriers.CHAIN}" for hook in ("INPUT", "FORWARD")]
    families = 1 + any(":" in (item.source or "") or item.source is None for item in items)
    return "\n".join([*jumps * (families if items else 0), *rules(barriers.script(host))])


def test_barriers_that_are_there_differ_in_nothing() -> None:
    assert barriers.differences(with_barriers(*EVERY), there(*EVERY)) == []
    assert barriers.differences(HOST, "-P INPUT ACCEPT\n") == []


@pytest.mark.parametrize(
    "told",
    [
        "",
        "garbage",
        there(*EVERY[:-1]),
        there(*EVERY).replace("-A INPUT", "-A OUTPUT"),
        there(*EVERY).replace("DROP", "ACCEPT", 1),
        there(*reversed(EVERY)),
    ],
)
def test_barriers_that_are_not_are_noticed(told: str) -> None:
    (found,) = barriers.differences(with_barriers(*EVERY), told)
    assert "the rules of fedtest-faults should be -A fedtest-faults -i eth0 -j DROP" in found


def test_barriers_that_stay_are_noticed() -> None:
    (found,) = barriers.differences(HOST, there(EVERY[1]))
    assert "should be none, they are -A fedtest-faults -s 10.9.0.2/32" in found


CUT = (BarrierPlan("eth0"), BarrierPlan("eth0", "fd00::2"))
IPV6 = "00000000000000000000000000000001 01 80 10 80       lo\n"
HAS_IPV6 = f"{IPV6}fd000000000000000000000000000001 02 40 00 80     eth0\n"


def run_beside(path: Path, monkeypatch: pytest.MonkeyPatch, addresses: str | None) -> str:
    """What is printed where there is an iptables, and an ip6tables that does not work."""
    tools, there = path / "tools", path / "if_inet6"
    tools.mkdir()
    listed = there_by_ipv4(CUT[0])
    for name, does in (
        ("iptables", f"[ $2 != -S ] || echo '{listed}'"),
        ("iptables-restore", "cat >/dev/null"),
        ("ip6tables", "exit 3"),
        ("ip6tables-restore", "echo 'no such table' >&2; exit 3"),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{does}\n", encoding="ascii")
        (tools / name).chmod(0o755)
    if addresses is not None:
        there.write_text(addresses, encoding="ascii")
    monkeypatch.setattr(barriers, "_ADDRESSES6", str(there))
    done = subprocess.run(
        ["/bin/sh"],
        input=barriers.script(with_barriers(*CUT)),
        text=True,
        capture_output=True,
        check=False,
        env={"PATH": f"{tools}:/usr/bin:/bin"},
    )
    return done.stdout if done.returncode == 0 else done.stderr


def there_by_ipv4(item: BarrierPlan) -> str:
    jumps = [f"-A {hook} -j {barriers.CHAIN}" for hook in ("INPUT", "FORWARD")]
    return "\n".join([*jumps, rules(barriers.script(with_barriers(item)))[0]])


@pytest.mark.parametrize("addresses", [None, "", IPV6])
def test_a_kernel_without_ipv6_needs_no_barriers_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, addresses: str | None
) -> None:
    told = run_beside(tmp_path, monkeypatch, addresses)
    assert barriers.differences(with_barriers(*CUT), told) == []
    # What is there by IPv4 is looked at all the same.
    assert barriers.differences(with_barriers(*CUT), told.replace("DROP", "ACCEPT"))


def test_a_host_with_an_ipv6_address_does_need_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = run_beside(tmp_path, monkeypatch, HAS_IPV6)
    assert told == "no such table\n"
    assert barriers.differences(with_barriers(*CUT), told)


@QUICK
@given(st.text())
@example("-A ")
@example("-A 'INPUT")
def test_no_output_of_hosts_is_too_strange(text: str) -> None:
    assert barriers.differences(with_barriers(EVERY[0]), text)
    assert interfaces.differences([(NIC, NIC)], text)
    assert passage.wrong([WAY], text)


# Interfaces.


def told(flags: list[str], *addresses: str) -> str:
    items = [{"family": "inet", "local": address, "prefixlen": 24} for address in addresses]
    return f"==> 0 <==\n{json.dumps([{'flags': flags, 'addr_info': items}])}\n"


DOWN = replace(NIC, up=False)
NAMED = replace(NIC, interface="eth9")
MOVED = replace(NIC, address=IPv4Interface("10.9.0.9/24"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((NIC, DOWN), ["ip link set dev eth0 down"]),
        ((DOWN, NIC), ["ip link set dev eth0 up", "ip route replace"]),
        ((NIC, NAMED), ["ip link set dev eth0 name eth9", "ip link set dev eth9 up"]),
        ((NIC, MOVED), ["address flush dev eth0", "address add 10.9.0.9/24"]),
    ],
)
def test_changes_of_interfaces(change: interfaces.Change, words: list[str]) -> None:
    script = interfaces.script([change])
    assert is_shell(script)
    assert all(word in script for word in words)
    assert f"ip -j address show dev {change[1].interface}" in script


@pytest.mark.parametrize(
    ("wanted", "text", "found"),
    [
        (NIC, told(["UP"], "10.9.0.1"), None),
        (DOWN, told([], "10.9.0.1"), None),
        (NIC, told([], "10.9.0.1"), "interface eth0 (network data) is down"),
        (DOWN, told(["UP"], "10.9.0.1"), "interface eth0 (network data) is up"),
        (MOVED, told(["UP"], "10.9.0.1"), "should have 10.9.0.9/24, it has 10.9.0.1/24"),
        (NIC, told(["UP"]), "it has no address"),
        (NAMED, "==> 0 <==\n", "interface eth9 (network data) is not there"),
        (NAMED, "==> 0 <==\n[{}]\n", "interface eth9 (network data) is not there"),
        (NAMED, "==> 0 <==\n{\n", "interface eth9 (network data) is not there"),
        (NIC, "==> 0 <==\n[7]\n", "is not there"),
        (NIC, "", "could not be read back"),
    ],
)
def test_an_interface_that_is_not_as_it_should_be_is_noticed(
    wanted: AttachmentPlan, text: str, found: str | None
) -> None:
    lines = interfaces.differences([(NIC, wanted)], text)
    assert (lines == []) if found is None else (len(lines) == 1 and found in lines[0])


# Passages.


def test_what_is_counted_is_dropped_after_it_and_nothing_stays() -> None:
    some = [WAY, replace(WAY, port=80), replace(WAY, port=80, protocol="tcp")]
    for script in (passage.counting(some), passage.sending(some), passage.arrived(some)):
        assert is_shell(script)
    assert "-s 10.9.0.1 -d 10.9.0.2 -p udp --dport 80 -j DROP" in passage.counting(some)
    tcp = "-s 10.9.0.1 -d 10.9.0.2 -p tcp --sport 940:999 --dport 80 -j DROP"
    assert tcp in passage.counting(some)
    for place in ("mangle -X fedtest-count", "filter -X fedtest-count", "filter -X fedtest-met"):
        assert f"iptables -w -t {place}" in passage.arrived(some)


def test_more_is_sent_where_packets_are_lost() -> None:
    assert " 10 udp/10.9.0.2/47115" in passage.sending([WAY])
    assert " 60 udp/10.9.0.2/47115" in passage.sending([replace(WAY, lossy=True)])


@pytest.mark.parametrize(
    ("is_open", "counts", "found"),
    [
        (True, "10 10 10", None),
        (True, "10 10 1", None),
        (False, "10 10 0", None),
        (True, "10 10 0", "what is sent from a to b (10.9.0.2) does not arrive"),
        (False, "10 10 10", "what is sent from a to b (10.9.0.2) arrives"),
        (False, "0 0 0", "does not even reach the host"),
        (True, "0 0 0", "does not even reach the host"),
        (False, "10 0 0", "does not come by what should keep it out"),
        (True, "10 10", "could not be counted"),
        (True, "", "could not be counted"),
        (True, "10 10 10 10", "could not be counted"),
    ],
)
def test_a_way_that_is_not_as_it_should_be_is_noticed(
    is_open: bool,
    counts: str,
    found: str | None,
) -> None:
    lines = passage.wrong([replace(WAY, open=is_open)], "\n".join(counts.split()))
    assert (lines == []) if found is None else (len(lines) == 1 and found in lines[0])


def test_what_some_program_hears_came_through_whatever_the_counts_say() -> None:
    closed = replace(WAY, open=False)
    told = f"10\n10\n0\nready\n10.9.0.9 10.9.0.2/{passage.PORT}\n"
    assert passage.wrong([closed], told) == []
    told += f"10.9.0.1 10.9.0.2/{passage.PORT}\n"
    assert "arrives" in passage.wrong([closed], told)[0]


def test_of_tcp_only_the_counts_tell() -> None:
    closed = replace(WAY, port=80, protocol="tcp", open=False)
    # What a program hears at that port, it hears by UDP.
    assert passage.wrong([closed], "10\n10\n0\n10.9.0.1 10.9.0.2/80\n") == []
    (line,) = passage.wrong([closed], "10\n10\n10\n")
    assert line == "what is sent from a to b (10.9.0.2, TCP port 80) arrives"
    assert "hear" not in passage.counting([closed]) + passage.arrived([closed])


def test_counts_belong_to_their_ways_whatever_the_family() -> None:
    six = Passage("a", "b", "fd00::1", "fd00::2", 80, open=False)
    # Families one after the other, IPv4 first; each table in that order.
    (line,) = passage.wrong([six, WAY], "10\n10\n10\n10\n0\n0")
    assert line == "what is sent from a to b (10.9.0.2) does not arrive"
    assert is_shell(passage.counting([six, WAY]))
