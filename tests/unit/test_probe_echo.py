"""Echo requests are sent and answered without `ping`, by either kind of socket."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import fedtest
from fedtest.probe import echo

PROGRAM = Path(fedtest.__file__).parent / "probe" / "echo.py"


def allowed(family: int) -> bool:
    """Whether this user may ask for an echo here, and this machine has the family."""
    try:
        with socket.create_server(
            ("127.0.0.1" if family == socket.AF_INET else "::1", 0), family=family
        ):
            echo.Echo(family, 8).close()
    except OSError:
        return False
    return True


by_ipv4 = pytest.mark.skipif(not allowed(socket.AF_INET), reason="this user may ask for no echo")
by_ipv6 = pytest.mark.skipif(not allowed(socket.AF_INET6), reason="there is no echo by IPv6 here")


def ask(*words: str) -> tuple[int, list[str], str]:
    """By its text alone, as it is sent beside hosts."""
    command = [sys.executable, "-I", "-c", PROGRAM.read_text(encoding="utf-8"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(
    "address",
    [pytest.param("127.0.0.1", marks=by_ipv4), pytest.param("::1", marks=by_ipv6)],
)
def test_who_is_there_answers_each_request(address: str) -> None:
    code, told, _ = ask("-c", "3", "-i", "0.01", address)
    assert code == 0
    assert [line.partition(" time=")[0] for line in told] == [
        f"{address} seq=1",
        f"{address} seq=2",
        f"{address} seq=3",
        told[3],
    ]
    assert told[3].startswith(f"{address} min/avg/max = ")


@by_ipv4
def test_of_several_each_is_asked_until_it_answers() -> None:
    words = ("--first", "-c", "3", "-i", "0.01", "-W", "0.05")
    # Nobody is in that range (RFC 6890), and no route out of loopback leads there.
    code, told, _ = ask(*words, "-I", "lo", "127.0.0.1", "240.0.0.1", "127.0.0.2")
    assert code == 0
    assert sorted(line.partition(" time=")[0] for line in told) == [
        "127.0.0.1 seq=1",
        "127.0.0.2 seq=1",
    ]


@by_ipv4
def test_who_is_not_there_does_not_answer() -> None:
    code, told, _ = ask("-W", "0.05", "-I", "lo", "240.0.0.1")
    assert (code, told) == (1, [])


@by_ipv4
def test_what_would_have_to_be_fragmented_is_not_sent() -> None:
    code, told, said = ask("-W", "0.05", "-s", "65600", "127.0.0.1")
    assert (code, told) == (1, [])
    assert said == "127.0.0.1: Message too long\n"


def test_a_name_without_an_address_is_told() -> None:
    code, told, said = ask("-4", "::1")
    assert (code, told) == (1, [])
    assert said.startswith("::1: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have a raw socket")
def test_a_raw_socket_does_where_the_kernel_gives_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    real, given = socket.socket, []

    def only_raw(family: int, kind: int, protocol: int) -> socket.socket:
        given.append(kind)
        if kind == socket.SOCK_DGRAM:
            raise PermissionError
        return real(family, kind, protocol)

    monkeypatch.setattr(echo.socket, "socket", only_raw)
    asked = echo.Echo(socket.AF_INET, 57)
    asked.send("127.0.0.1", 7)
    found: list[echo.Answer] = []
    for _ in range(1000):
        if not found:
            echo.select.select([asked], [], [], 1.0)
            found += asked.answers()
    asked.close()
    assert [(item.address, item.number) for item in found] == [("127.0.0.1", 7)]
    assert given == [socket.SOCK_DGRAM, socket.SOCK_RAW]


class Received:
    """Gives what a socket would."""

    def __init__(self, *packets: tuple[bytes, str]) -> None:
        self._packets = list(packets)

    def recvfrom(self, size: int) -> tuple[bytes, tuple[str, int]]:
        if not self._packets:
            raise BlockingIOError
        packet, sender = self._packets.pop(0)
        return packet, (sender, 0)


def test_only_an_answer_to_what_was_asked_counts() -> None:
    asked = echo.Echo.__new__(echo.Echo)
    asked._family, asked._raw = socket.AF_INET, False
    asked._sent = {("10.0.0.1", 1): 0.0, ("10.0.0.2", 1): 0.0}
    answer = struct.pack("!BBHHH", 0, 0, 0, 5, 1) + echo.MARK
    request = b"\x08" + answer[1:]
    stranger = answer[:8] + bytes(8)
    other = struct.pack("!BBHHH", 0, 0, 0, 5, 2) + echo.MARK
    asked._socket = Received(
        (request, "10.0.0.1"),
        (stranger, "10.0.0.1"),
        (other, "10.0.0.1"),
        (answer, "10.0.0.3"),
        (b"", "10.0.0.1"),
        (answer, "10.0.0.2"),
        (answer, "10.0.0.2"),
    )
    assert [item.address for item in asked.answers()] == ["10.0.0.2"]
