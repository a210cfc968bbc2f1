"""Bytes between two hosts: the rules that count them, and what they have counted."""

from __future__ import annotations

import subprocess

from fedtest.links.counting import Count, Counted, parse, read, start

SENT = Count("tx", ("10.0.0.2", "fd00::2"))
RECEIVED = Count("rx", ("10.0.0.2",))


def test_what_is_sent_is_counted_last_and_what_is_received_first() -> None:
    script = start([SENT, RECEIVED])
    assert "iptables -w -t mangle -A fedtest-pair-0 -d 10.0.0.2\n" in script
    assert "ip6tables -w -t mangle -A fedtest-pair-0 -d fd00::2\n" in script
    assert "iptables -w -t mangle -I POSTROUTING 1 -j fedtest-pair-0" in script
    assert "iptables -w -t mangle -A fedtest-pair-1 -s 10.0.0.2\n" in script
    assert "iptables -w -t mangle -I PREROUTING 1 -j fedtest-pair-1" in script


def test_both_are_shell() -> None:
    for script in (start([SENT, RECEIVED]), read([SENT, RECEIVED])):
        done = subprocess.run(["/bin/sh", "-n"], input=script, text=True, check=False)
        assert done.returncode == 0


def test_the_families_of_a_peer_add_up() -> None:
    assert parse([SENT, RECEIVED], "0 1000 10\n0 500 1\n1 7 1\n") == [
        Counted(1500, 11),
        Counted(7, 1),
    ]


def test_what_is_not_whole_is_not_known() -> None:
    assert parse([SENT, RECEIVED], "0 1000 10\nnonsense\n9 1 1\n") == [None, None]
    assert parse([Count("tx", ())], "") == [None]
