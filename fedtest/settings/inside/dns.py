"""A small DNS server: `dns.py ADDRESS PORT ANSWERS`, until it is ended.

ANSWERS is JSON: for each name its addresses, or `nxdomain`, `servfail`, `silent`. A, AAAA and
PTR are answered, by UDP and TCP; names that are not there do not exist.
"""

import ipaddress
import json
import socket
import struct
import sys
import threading

A, PTR, AAAA = 1, 12, 28
OK, SERVFAIL, NXDOMAIN, NOTIMP = 0, 2, 3, 4
HEAD = struct.Struct("!HHHHHH")
TTL = 0
Answers = dict[str, list[str] | str]


class Zone:
    """All that the server knows."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.reverse: dict[str, str] = {}
        for name, value in answers.items():
            for address in value if isinstance(value, list) else ():
                self.reverse.setdefault(ipaddress.ip_address(address).reverse_pointer, name)

    def reply(self, packet: bytes) -> bytes | None:
        """The answer to a packet, or None for silence, also to what cannot be read."""
        try:
            number, flags, questions, *_ = HEAD.unpack_from(packet)
            name, end = name_in(packet, HEAD.size)
            kind, _ = struct.unpack_from("!HH", packet, end)
        except (IndexError, struct.error):
            return None
        if flags & 0x8000 or questions != 1 or self.answers.get(name) == "silent":
            return None
        asks = not flags & 0x7800
        code, records = self.answer(name, kind) if asks else (NOTIMP, [])
        # It has authority, and recursion is at hand for whoever desires it.
        flags = 0x8480 | flags & 0x7900 | code
        body = b"".join(
            struct.pack("!HHHIH", 0xC00C, kind, 1, TTL, len(data)) + data for data in records
        )
        question = packet[HEAD.size : end + 4]
        return HEAD.pack(number, flags, 1, len(records), 0, 0) + question + body

    def answer(self, name: str, kind: int) -> tuple[int, list[bytes]]:
        """A code, and the data of each record of that kind."""
        value = self.answers.get(name)
        if isinstance(value, list):
            addresses = [ipaddress.ip_address(address) for address in value]
            version = {A: 4, AAAA: 6}.get(kind)
            return OK, [item.packed for item in addresses if item.version == version]
        if value is None and name in self.reverse:
            return OK, [packed(self.reverse[name])] if kind == PTR else []
        return SERVFAIL if value == "servfail" else NXDOMAIN, []


def name_in(packet: bytes, at: int) -> tuple[str, int]:
    """The name at an offset, in small letters, and where it ends. IndexError."""
    labels = []
    while size := packet[at]:
        labels.append(packet[at + 1 : at + 1 + size].decode("latin-1").lower())
        at += 1 + size
    return ".".join(labels), at + 1


def packed(name: str) -> bytes:
    """A name as it is in packets."""
    labels = [label.encode("latin-1") for label in name.split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def serve(address: str, port: int, answers: Answers) -> None:
    """Answer for ever."""
    zone = Zone(answers)
    listener = socket.create_server((address, port), backlog=64)
    threading.Thread(target=accept, args=(listener, zone), daemon=True).start()
    # Last: whoever sees it may ask.
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((address, port))
    while True:
        packet, sender = datagrams.recvfrom(4096)
        reply = zone.reply(packet)
        if reply is not None:
            datagrams.sendto(reply, sender)


def accept(listener: socket.socket, zone: Zone) -> None:
    """Talk to whoever connects."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=talk, args=(connection, zone), daemon=True).start()


def talk(connection: socket.socket, zone: Zone) -> None:
    """Questions one after the other, each after its length."""
    connection.settimeout(30)
    try:
        with connection, connection.makefile("rb") as stream:
            while len(head := stream.read(2)) == 2:
                reply = zone.reply(stream.read(int.from_bytes(head, "big")))
                if reply is not None:
                    connection.sendall(len(reply).to_bytes(2, "big") + reply)
    except OSError:
        return


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
