"""What is looked at before joining: interfaces, names, the port, and what a firewall looks like."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack, suppress

import pytest
from torch import distributed as dist

from fedtest.comm import PortTaken
from fedtest.comm.rendezvous import WITHOUT_LIBUV
from fedtest.ring import preflight
from fedtest.ring.errors import StartError
from fedtest.ring.torchrun import meeting


def test_the_interface_whose_network_holds_the_master_is_proposed() -> None:
    assert "lo" in preflight.networks()
    assert str(preflight.networks()["lo"][0]) == "127.0.0.1/8"
    assert preflight.proposed("127.3.2.1") == "lo"
    assert preflight.proposed("203.0.113.7") is None


def test_what_there_is_and_what_is_proposed_is_said() -> None:
    said: list[str] = []
    preflight.look(said.append, "127.0.0.1", None, 2)
    assert "lo 127.0.0.1/8" in said[0]
    assert "proposal: --gloo_socket_ifname lo, whose network holds rank 0's 127.0.0.1" in said
    assert any(line.startswith("without it Gloo takes ") for line in said)
    del said[:]
    preflight.look(said.append, "203.0.113.7", None, 2)
    assert "note: no interface here is in one network with rank 0's 203.0.113.7" in said
    del said[:]
    preflight.look(said.append, "127.0.0.1", "lo", 2)
    assert len(said) == 1


def test_an_alias_that_is_missing_is_named() -> None:
    with pytest.raises(StartError) as refused:
        preflight.resolve("server1.invalid", 1)
    assert "is the alias missing from /etc/hosts? Add a line like `192.168.0.1 server1.inv" in str(
        refused.value
    )


def test_a_master_that_is_this_machine_itself_is_noticed_by_the_others() -> None:
    assert preflight.resolve("localhost", 0) in {"127.0.0.1", "::1"}
    assert preflight.resolve("127.0.0.1", 1) == "127.0.0.1"
    with pytest.raises(StartError, match="which is this machine itself"):
        preflight.resolve("localhost", 1)


def test_a_port_is_free_or_not(port: int) -> None:
    preflight.port_is_free("127.0.0.1", port)
    with socket.create_server(("", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"port {taken} is in use .* `ss -tlnp"):
            preflight.port_is_free("127.0.0.1", taken)


def test_a_master_that_comes_later_is_waited_for(port: int) -> None:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    starts = threading.Timer(0.5, server.listen)
    starts.start()
    try:
        assert preflight.wait_for_master(print, "127.0.0.1", port, 30) >= 0.4
    finally:
        starts.join()
        server.close()


def test_a_refusal_and_silence_are_told_apart(port: int) -> None:
    with pytest.raises(StartError, match="the machine is there, but nothing listens"):
        preflight.wait_for_master(print, "127.0.0.1", port, 0.3)
    with ExitStack() as open_until_then:
        server = open_until_then.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        place = server.getsockname()
        for _ in range(3):  # a queue that is full drops what comes, as a firewall does
            waiting = open_until_then.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(place)
        with pytest.raises(StartError, match="a firewall that drops packets looks like"):
            preflight.wait_for_master(print, *place, 0.5)


def test_without_torchrun_the_ranks_meet_where_they_were_told() -> None:
    assert meeting("h", 7, 0, 1.0, {}) == ("h", 7)
    beside = {
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "MASTER_ADDR": "other",
        "MASTER_PORT": "7",
    }
    assert meeting("h", 7, 0, 1.0, beside) == ("h", 7)


def test_ranks_meet_at_another_port_when_torchruns_store_has_the_one_it_gave(port: int) -> None:
    store = dist.TCPStore("127.0.0.1", port, None, True, wait_for_workers=False, **WITHOUT_LIBUV)
    there = {
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    first = meeting("127.0.0.1", port, 0, 30.0, there)
    assert first[0] == "127.0.0.1"
    assert first[1] != port
    assert meeting("127.0.0.1", port, 1, 30.0, there) == first
    del store


def test_a_store_of_torchrun_that_is_not_there_is_told(port: int) -> None:
    there = {
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    with pytest.raises(StartError, match=r"torchrun's store at 127\.0\.0\.1"):
        meeting("127.0.0.1", port, 1, 0.5, there)
