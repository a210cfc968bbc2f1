"""Asks a DNS server: `ask.py ADDRESS PORT NAMES SILENT`, both lists JSON. Prints JSON.

For each name: its addresses, or `nxdomain`, `servfail`, `silent`, or what else came of it. By UDP,
and the first that should be answered by TCP, too. For those in SILENT it waits only a little.
"""

import ipaddress
import json
import select
import socket
import struct
import sys
import time

A, AAAA = 1, 28
KINDS = (A, AAAA)
HEAD = struct.Struct("!HHHHHH")
CODES = {2: "servfail", 3: "nxdomain"}
TRIES, WAIT, SILENCE = 3, 1.0, 0.3
"""How often it is asked, and how many seconds is waited for an answer, and for none."""
Question = tuple[str, int]
Answer = list[str] | str


def question(number: int, name: str, kind: int) -> bytes:
    """A packet that asks."""
    labels = [label.encode("ascii") for label in name.split(".")]
    packed = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return HEAD.pack(number, 0x0100, 1, 0, 0, 0) + packed + struct.pack("!HH", kind, 1)


def answer_in(packet: bytes) -> Answer:
    """The addresses in an answer, or what it says instead."""
    _, flags, _, count, _, _ = HEAD.unpack_from(packet)
    if flags & 15:
        return CODES.get(flags & 15, f"failure {flags & 15}")
    at = HEAD.size
    while packet[at]:
        at += 1 + packet[at]
    at += 5
    found = []
    for _ in range(count):
        # The name is a pointer: it is the server beside this program that answers.
        kind, _, _, size = struct.unpack_from("!HHIH", packet, at + 2)
        at += 12
        if kind in KINDS:
            found.append(str(ipaddress.ip_address(packet[at : at + size])))
        at += size
    return found


def by_udp(
    where: tuple[str, int], questions: list[Question], *, wait: float
) -> dict[Question, Answer]:
    """What was answered; all are asked at once."""
    found: dict[Question, Answer] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(where)
        for number, item in enumerate(questions):
            sock.send(question(number, *item))
            _receive(sock, questions, found, 0)
        due = time.monotonic() + wait
        while len(found) < len(questions) and (left := due - time.monotonic()) > 0:
            _receive(sock, questions, found, left)
    return found


def _receive(
    sock: socket.socket, questions: list[Question], found: dict[Question, Answer], wait: float
) -> None:
    if select.select([sock], [], [], wait)[0]:
        packet = sock.recv(65536)
        found[questions[int.from_bytes(packet[:2], "big")]] = answer_in(packet)


def by_tcp(where: tuple[str, int], item: Question) -> Answer:
    """The same by TCP."""
    with socket.create_connection(where, WAIT) as connection:
        packet = question(0, *item)
        connection.sendall(len(packet).to_bytes(2, "big") + packet)
        with connection.makefile("rb") as stream:
            return answer_in(stream.read(int.from_bytes(stream.read(2), "big")))


def together(answers: list[Answer]) -> Answer:
    """What the answers for both families come to."""
    failures = sorted({item for item in answers if isinstance(item, str)})
    if failures:
        return " and ".join(failures)
    return sorted(address for item in answers for address in item) if answers else "silent"


def ask(where: tuple[str, int], names: list[str], silent: list[str]) -> dict[str, Answer]:
    """What becomes of each name."""
    everything = [(name, kind) for name in names for kind in KINDS]
    quick = [item for item in everything if item[0] not in silent]
    try:
        found: dict[Question, Answer] = {}
        for _ in range(TRIES):
            missing = [item for item in quick if item not in found]
            if missing:
                found |= by_udp(where, missing, wait=WAIT)
        found |= by_udp(where, [item for item in everything if item not in quick], wait=SILENCE)
        told = {
            name: together([found[name, kind] for kind in KINDS if (name, kind) in found])
            for name in names
        }
        for name in dict.fromkeys(name for name, _ in quick[:1]):
            also = together([by_tcp(where, (name, kind)) for kind in KINDS])
            if also != told[name]:
                told[name] = f"{told[name]} by UDP, {also} by TCP"
    except (OSError, struct.error) as error:
        return dict.fromkeys(names, str(error))
    return told


if __name__ == "__main__":
    server = (sys.argv[1], int(sys.argv[2]))
    json.dump(ask(server, json.loads(sys.argv[3]), json.loads(sys.argv[4])), sys.stdout)
