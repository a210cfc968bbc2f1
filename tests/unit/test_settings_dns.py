"""The DNS server of ours, and the program that asks it, over a real socket."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedtest.settings import inside
from fedtest.settings.inside import ask, dns

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(inside.__file__).parent
ANSWERS: dns.Answers = {
    "web.example": ["192.0.2.7", "2001:db8::7"],
    "four.example": ["192.0.2.8"],
    "again.example": ["192.0.2.8"],
    "gone.example": "nxdomain",
    "bad.example": "servfail",
    "dead.example": "silent",
}


@pytest.mark.parametrize("name", ["ask", "dns"])
def test_a_program_needs_nothing_but_python(name: str) -> None:
    text = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
    assert "fedtest" not in text
    code = f"import sys; sys.argv = ['x']; __name__ = 'other'\n{text}"
    subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=60)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, int]]:
    """One that runs, at a port that was free."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = (PROGRAMS / "dns.py").read_text(encoding="utf-8")
    words = [sys.executable, "-I", "-c", program, "127.0.0.1", str(port), json.dumps(ANSWERS)]
    with subprocess.Popen(words) as process:
        item = ("four.example", ask.A)
        answer: ask.Answer = []
        # What asks may have drawn this very port for itself, and then hears its own question.
        while answer != ANSWERS["four.example"]:
            assert process.poll() is None
            with suppress(ConnectionRefusedError):
                answer = ask.by_udp(("127.0.0.1", port), [item], wait=1).get(item, [])
        yield "127.0.0.1", port
        process.kill()


def test_every_name_is_answered_as_it_was_told(server: tuple[str, int]) -> None:
    found = ask.ask(server, [*ANSWERS, "other.example"], ["dead.example"])
    assert found == {
        "web.example": ["192.0.2.7", "2001:db8::7"],
        "four.example": ["192.0.2.8"],
        "again.example": ["192.0.2.8"],
        "gone.example": "nxdomain",
        "bad.example": "servfail",
        "dead.example": "silent",
        "other.example": "nxdomain",
    }


def test_who_is_not_there_is_told_as_refusing_and_not_as_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = ask.ask(("127.0.0.1", port), ["dead.example"], ["dead.example"])
    assert "refused" in found["dead.example"]


def test_several_questions_go_over_one_connection(server: tuple[str, int]) -> None:
    packet = ask.question(3, "four.example", ask.A)
    with socket.create_connection(server, 5) as connection:
        connection.sendall((len(packet).to_bytes(2, "big") + packet) * 2)
        with connection.makefile("rb") as stream:
            for _ in range(2):
                answer = stream.read(int.from_bytes(stream.read(2), "big"))
                assert ask.answer_in(answer) == ["192.0.2.8"]


class TestZone:
    """Packets in and out, without a socket."""

    zone = dns.Zone(ANSWERS)

    def test_an_address_leads_back_to_the_first_name_that_has_it(self) -> None:
        reply = self.zone.reply(ask.question(1, "8.2.0.192.in-addr.arpa", dns.PTR))
        assert reply is not None
        assert reply.endswith(dns.packed("four.example"))
        assert struct.unpack_from("!HHHH", reply)[3] == 1

    def test_an_ipv6_address_leads_back_too(self) -> None:
        name = "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"
        reply = self.zone.reply(ask.question(1, name, dns.PTR))
        assert reply is not None
        assert reply.endswith(dns.packed("web.example"))

    def test_a_name_is_the_same_in_capitals(self) -> None:
        reply = self.zone.reply(ask.question(1, "FOUR.Example", dns.A))
        assert reply is not None
        assert ask.answer_in(reply) == ["192.0.2.8"]

    def test_of_a_kind_that_a_name_has_not_there_is_nothing_and_no_failure(self) -> None:
        reply = self.zone.reply(ask.question(1, "four.example", dns.AAAA))
        assert reply is not None
        assert ask.answer_in(reply) == []

    def test_what_no_question_is_gets_no_answer(self) -> None:
        question = ask.question(1, "four.example", dns.A)
        reply = self.zone.reply(question)
        assert reply is not None
        for packet in (b"", b"x" * 11, b"\xff" * 64, question[:-3], question[:14], reply):
            assert self.zone.reply(packet) is None

    def test_what_is_asked_otherwise_is_not_implemented(self) -> None:
        update = bytearray(ask.question(1, "four.example", dns.A))
        update[2] |= 5 << 3
        reply = self.zone.reply(bytes(update))
        assert reply is not None
        assert ask.answer_in(reply) == "failure 4"
