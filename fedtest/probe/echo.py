"""Sends echo requests as `ping` does, which no host needs to have: `echo.py [OPTIONS] ADDRESS...`.

By the socket that the kernel has for it where this user may have one (the setting
net.ipv4.ping_group_range), and by a raw one otherwise. A time is from before a request is
sent until a program has the answer. Nothing is fragmented. By itself, so that its text can
travel to where nothing of fedtest is installed.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import struct
import sys
import time
from typing import NamedTuple

HEAD = struct.Struct("!BBHHH")
REQUEST: dict[int, int] = {socket.AF_INET: 8, socket.AF_INET6: 128}
ANSWER: dict[int, int] = {socket.AF_INET: 0, socket.AF_INET6: 129}
PROTOCOL: dict[int, int] = {
    socket.AF_INET: socket.IPPROTO_ICMP,
    socket.AF_INET6: socket.IPPROTO_ICMPV6,
}
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, NEVER_FRAGMENT = 10, 23, 2
MARK = os.urandom(8)
"""What each of our requests carries, and so its answer."""


class Answer(NamedTuple):
    """Who has answered which request, and after how many seconds."""

    address: str
    number: int
    seconds: float


class Echo:
    """The requests to addresses of one family. PermissionError if this user may send none."""

    def __init__(self, family: int, size: int, interface: str = "") -> None:
        self._family = family
        self._load = MARK + bytes(max(size - len(MARK), 0))
        self._raw = False
        try:
            self._socket = socket.socket(family, socket.SOCK_DGRAM, PROTOCOL[family])
        except PermissionError:
            self._socket = socket.socket(family, socket.SOCK_RAW, PROTOCOL[family])
            self._raw = True
        self._socket.setblocking(False)
        if family == socket.AF_INET:
            self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, NEVER_FRAGMENT)
        else:
            self._socket.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, NEVER_FRAGMENT)
        if interface:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        self._sent: dict[tuple[str, int], float] = {}

    def close(self) -> None:
        """No answer is waited for any more."""
        self._socket.close()

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def send(self, address: str, number: int) -> None:
        """Ask once. OSError if that cannot even be sent."""
        head = HEAD.pack(REQUEST[self._family], 0, 0, os.getpid() & 0xFFFF, number)
        if self._family == socket.AF_INET:
            total = _sum(head + self._load)
            head = HEAD.pack(REQUEST[self._family], 0, total, os.getpid() & 0xFFFF, number)
        self._sent[address, number] = time.monotonic()
        self._socket.sendto(head + self._load, (address, 0))

    def answers(self) -> list[Answer]:
        """What has come of answers to what was asked, each once."""
        found: list[Answer] = []
        while True:
            try:
                packet, sender = self._socket.recvfrom(1 << 16)
            except BlockingIOError:
                return found
            except OSError:
                continue  # Somebody on the way says that it goes no further.
            now = time.monotonic()
            if self._raw and self._family == socket.AF_INET:
                packet = packet[(packet[0] & 15) * 4 :]  # The IP header is there, too.
            if len(packet) < HEAD.size + len(MARK) or packet[0] != ANSWER[self._family]:
                continue
            number = HEAD.unpack_from(packet)[4]
            address = str(sender[0]).partition("%")[0]
            sent = self._sent.pop((address, number), None)
            if sent is not None and packet[HEAD.size :].startswith(MARK):
                found.append(Answer(address, number, now - sent))


def _sum(packet: bytes) -> int:
    """The checksum, which the kernel adds only to what is no raw socket's."""
    words = struct.unpack(f"!{(len(packet) + 1) // 2}H", packet + bytes(len(packet) % 2))
    total: int = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def main() -> int:
    """Ask, print each answer as it comes; 0 if every address has answered, and otherwise 1.

    With `--first` also 0 if some have not: what is printed tells.
    """
    arguments = _arguments()
    names: dict[
        str, tuple[str, int]
    ] = {}  # the address itself -> what it was called, and its family
    for name in arguments.addresses:
        try:
            found = socket.getaddrinfo(name, None, arguments.family, socket.SOCK_DGRAM)
        except OSError as error:
            print(f"{name}: {error.strerror or error}", file=sys.stderr)
            return 1
        names[str(found[0][4][0])] = name, found[0][0]
    families: set[int] = {family for _, family in names.values()}
    try:
        echoes = {family: Echo(family, arguments.size, arguments.interface) for family in families}
    except OSError as error:
        print(f"no echo can be asked for: {error.strerror}", file=sys.stderr)
        return 1
    try:
        times = _ask(arguments, names, echoes)
    finally:
        for echo in echoes.values():
            echo.close()
    for address, (name, _) in names.items():
        some = times[address]
        if some and not arguments.first:
            least, mean, most = (
                1000 * value for value in (min(some), sum(some) / len(some), max(some))
            )
            print(f"{name} min/avg/max = {least:.3f}/{mean:.3f}/{most:.3f} ms")
    return 0 if arguments.first or all(times.values()) else 1


def _ask(
    arguments: argparse.Namespace, names: dict[str, tuple[str, int]], echoes: dict[int, Echo]
) -> dict[str, list[float]]:
    """The times of every address."""
    times: dict[str, list[float]] = {address: [] for address in names}
    wrong: dict[str, str] = {}
    wanted = 1 if arguments.first else arguments.count
    began = time.monotonic()
    due, end, number = began, began, 0
    while left := [address for address, some in times.items() if len(some) < wanted]:
        now = time.monotonic()
        if number < arguments.count and now >= due:
            number += 1
            due += arguments.interval
            for address in left:
                try:
                    echoes[names[address][1]].send(address, number & 0xFFFF)
                except OSError as error:
                    wrong[address] = error.strerror or str(error)
            end = now + arguments.wait
        if number >= arguments.count and now >= end:
            break
        until = due if number < arguments.count else end
        ready, _, _ = select.select(echoes.values(), [], [], max(until - time.monotonic(), 0))
        for answer in (item for echo in ready for item in echo.answers()):
            times[answer.address].append(answer.seconds)
            name, took = names[answer.address][0], 1000 * answer.seconds
            print(f"{name} seq={answer.number} time={took:.3f} ms", flush=True)
    for address, why in wrong.items():
        if not times[address]:
            print(f"{names[address][0]}: {why}", file=sys.stderr)
    return times


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="echo", description="Sends echo requests.")
    parser.add_argument("addresses", nargs="+", metavar="ADDRESS", help="or a name")
    parser.add_argument("-c", dest="count", type=int, default=1, help="requests to each")
    parser.add_argument("-i", dest="interval", type=float, default=0.2, help="seconds between two")
    parser.add_argument("-W", dest="wait", type=float, default=1.0, help="seconds for the last")
    parser.add_argument("-s", dest="size", type=int, default=56, help="bytes in each")
    parser.add_argument("-I", dest="interface", default="", help="by this interface alone")
    parser.add_argument("--first", action="store_true", help="ask nobody who has answered again")
    for version, family in ((4, socket.AF_INET), (6, socket.AF_INET6)):
        parser.add_argument(f"-{version}", dest="family", action="store_const", const=family,
                            default=socket.AF_UNSPEC, help=f"by IPv{version}")  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
