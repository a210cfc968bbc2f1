"""A host is read back from what its own files say, with nothing but a shell in it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from ipaddress import IPv4Address, IPv4Interface, IPv6Interface
from pathlib import Path

import pytest

from fedtest.engine.inside import END, SNAPSHOT
from fedtest.engine.snapshot import Snapshot, TcpSocket, parse

# Printed by SNAPSHOT in namespaces with three interfaces, one of them down, and
# two processes that talk over a dual-stack socket.
CAPTURE = Path(__file__).parent / "captures" / "three-interfaces.txt"

SHELLS = {"sh": ["/bin/sh"], "busybox": ["busybox", "sh"], "bash": ["bash"]}


@pytest.fixture(scope="module")
def captured() -> Snapshot:
    return parse(CAPTURE.read_text(encoding="utf-8"))


def look(shell: list[str]) -> Snapshot:
    result = subprocess.run([*shell, "-c", SNAPSHOT], capture_output=True, check=False, timeout=30)
    return parse(result.stdout.decode("utf-8", "replace"))


def test_every_interface_is_found_with_its_state(captured: Snapshot) -> None:
    assert {name: item.up for name, item in captured.interfaces.items()} == {
        "lo": True,
        "enps1": True,
        "mgmt0": True,
        "ib0": False,
    }
    assert captured.interfaces["mgmt0"].mac == "2e:dc:da:28:37:e5"
    assert captured.interfaces["mgmt0"].mtu == 1500


def test_every_address_is_found_with_its_prefix(captured: Snapshot) -> None:
    assert captured.interfaces["mgmt0"].addresses == (IPv4Interface("10.1.0.2/28"),)
    assert set(captured.interfaces["enps1"].addresses) == {
        IPv4Interface("192.168.0.2/24"),
        IPv4Interface("172.20.0.9/16"),
    }


def test_ipv6_addresses_are_those_that_somebody_gave(captured: Snapshot) -> None:
    text = CAPTURE.read_text(encoding="utf-8")
    lines = (
        "fd000001000000000000000000000002 02 40 00 80 mgmt0\n"
        "fe800000000000000042acfffe120002 02 40 20 80 mgmt0\n"
        "00000000000000000000000000000001 01 80 10 80       lo\n"
    )
    head = "==> /proc/net/if_inet6 <==\n"
    before, _, after = text.partition("==> /proc/net/tcp <==")
    found = parse(f"{before.partition(head)[0]}{head}{lines}\n==> /proc/net/tcp <=={after}")
    assert found.interfaces["mgmt0"].addresses == (
        *captured.interfaces["mgmt0"].addresses,
        IPv6Interface("fd00:1::2/64"),
    )
    assert found.interfaces["lo"].addresses == (IPv6Interface("::1/128"),)


def test_an_interface_that_is_down_has_no_address_that_could_be_used(captured: Snapshot) -> None:
    assert captured.interfaces["ib0"].addresses == ()


def test_counters_are_the_kernels(captured: Snapshot) -> None:
    mgmt = captured.interfaces["mgmt0"]
    assert (mgmt.rx_bytes, mgmt.rx_packets, mgmt.tx_bytes, mgmt.tx_packets) == (0, 0, 304, 4)


def test_sockets_are_found_with_the_session_that_holds_them(captured: Snapshot) -> None:
    own, master = IPv4Address("192.168.0.2"), 23456
    assert TcpSocket(own, 40000, own, master, "established", 56) in captured.sockets


def test_an_ipv4_connection_of_a_dual_stack_socket_has_ipv4_addresses(captured: Snapshot) -> None:
    own, master = IPv4Address("192.168.0.2"), 23456
    assert TcpSocket(own, master, own, 40000, "established", 1) in captured.sockets


def test_listening_sockets_are_told_from_connected_ones(captured: Snapshot) -> None:
    listening = {item.local_port for item in captured.sockets if item.state == "listen"}
    assert listening == {5555, 23456}


def test_names_and_clock_are_kept_as_they_were(captured: Snapshot) -> None:
    assert captured.hosts_file == "127.0.0.1\tlocalhost\n10.1.0.2\tserver1"
    assert captured.resolv_conf == "nameserver 127.0.0.11\noptions ndots:0"
    assert captured.uptime > 0
    assert len(captured.boot) == 36


def test_text_that_was_cut_short_anywhere_is_refused() -> None:
    text = CAPTURE.read_text(encoding="utf-8")
    for end in range(0, text.index(END), 97):
        with pytest.raises(ValueError, match="cut short"):
            parse(text[:end])


def test_text_whose_beginning_is_lost_is_refused() -> None:
    text = CAPTURE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="lacks"):
        parse(text[text.index("==> /proc/net/route <==") :])


def test_a_command_name_with_parentheses_and_blanks_does_not_confuse() -> None:
    text = CAPTURE.read_text(encoding="utf-8")
    odd = parse(text.replace("(python3)", "(a) S 9 (b c)"))
    assert odd.sockets == parse(text).sockets


def test_an_interface_that_went_away_while_we_looked_is_left_out() -> None:
    text = CAPTURE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.strip().startswith("mgmt0:")]
    assert "mgmt0" not in parse("\n".join(lines)).interfaces


def test_a_host_without_ipv6_is_read_too() -> None:
    text = CAPTURE.read_text(encoding="utf-8")
    begin, end = text.index("==> /proc/net/tcp6 <=="), text.index("==> /etc/hosts <==")
    found = parse(f"{text[:begin]}==> /proc/net/tcp6 <==\n\n{text[end:]}")
    assert {item.local.version for item in found.sockets} == {4}


@pytest.mark.parametrize("shell", SHELLS)
def test_this_machine_is_described_by_any_posix_shell(shell: str) -> None:
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"no {shell} here")
    here = look(SHELLS[shell])
    assert here.interfaces["lo"].up
    assert here.boot == Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@pytest.mark.skipif(shutil.which("ip") is None, reason="no ip here to compare with")
def test_this_machines_interfaces_are_those_that_ip_tells_of() -> None:
    def by_ip() -> dict[str, tuple[str | None, set[str]]]:
        told = json.loads(
            subprocess.run(["ip", "-j", "addr"], capture_output=True, check=True).stdout
        )
        every = json.loads(
            subprocess.run(["ip", "-j", "link"], capture_output=True, check=True).stdout
        )
        addresses = {
            item["ifname"]: {
                f"{info['local']}/{info['prefixlen']}"
                for info in item["addr_info"]
                # /proc says of no such address whose it is, and link-local ones are everybody's.
                if info["prefixlen"] < 32 or info["family"] == "inet6"
                if info["scope"] != "link"
            }
            for item in told
            if "UP" in item["flags"]
        }
        return {
            item["ifname"]: (item.get("address"), addresses.get(item["ifname"], set()))
            for item in every
            if item["ifname"] != "lo"
        }

    # Others may change the machine's interfaces while we look.
    for _ in range(5):
        before = by_ip()
        here = look(["/bin/sh"])
        if by_ip() == before:
            break
    else:
        pytest.skip("the interfaces of this machine do not keep still")
    assert {
        name: (item.mac, {str(address) for address in item.addresses})
        for name, item in here.interfaces.items()
        if name != "lo"
    } == before


def test_our_own_listening_socket_is_found_under_our_session() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        here = look(["/bin/sh"])
    ours = [item for item in here.sockets if item.local_port == port and item.state == "listen"]
    assert [item.session for item in ours] == [os.getsid(0)]
