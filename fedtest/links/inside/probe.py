"""Measures ways between hosts: round trips, losses, rates. UDP only, bounded in time and bytes.

`probe.py serve PORT` answers until it is ended. `probe.py ask JSON` measures
one target after the other and prints what it found as JSON.

A message begins with a letter: `e` is sent back as it is, `c` and `r` are
counted under the number that follows, `q` asks for what was counted. What is
asked again has the same number, so an answer that is lost is no harm.
"""

import json
import select
import socket
import struct
import sys
import time
from typing import Any

HEAD = struct.Struct("!cII")  # letter, number of the measurement, number of the packet
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
BUFFER = 1 << 24
HEADERS = 14 + 20 + 8
"""Ethernet, IP, UDP: what a packet is longer than what it carries."""
PAYLOAD_HEADERS = 20 + 8
WARM_UP = 0.3
"""The part of a flow, by time, that does not count: the queue fills, the burst goes."""
QUERIES = 40
BETWEEN_QUERIES = 0.1


class Flow:
    """What came of one measurement; `arrivals`: when by the kernel's clock, and bytes."""

    def __init__(self) -> None:
        self.packets = 0
        self.seen: set[int] = set()
        self.twice = 0
        self.late = 0
        self.last = -1
        self.arrivals: list[tuple[float, int]] = []

    def count(self, number: int) -> None:
        """A packet came that has a number of its own."""
        self.packets += 1
        if number in self.seen:
            self.twice += 1
        elif number < self.last:
            self.late += 1
        self.seen.add(number)
        self.last = max(self.last, number)

    def arrive(self, when: float, size: int, packets: int) -> None:
        """So much came at once, in so many packets."""
        self.packets += packets
        self.arrivals.append((when, size))

    def result(self) -> dict[str, float]:
        """For JSON."""
        return {"packets": self.packets, "distinct": len(self.seen), "twice": self.twice,
                "late": self.late, "rate": self.rate(), "arrivals": len(self.arrivals)}  # fmt: skip

    def rate(self) -> float:
        """Bits a second after the warm-up; 0 if too little came to tell."""
        if len(self.arrivals) < 2:
            return 0.0
        begin = self.arrivals[0][0]
        whole = self.arrivals[-1][0] - begin
        counted = [item for item in self.arrivals if item[0] - begin >= whole * WARM_UP]
        taken = counted[-1][0] - counted[0][0]
        # The first is the mark that time is taken from.
        return sum(size for _, size in counted[1:]) * 8 / taken if taken > 0 else 0.0


def serve(port: int) -> None:
    """Answer and count for ever."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    _large(sock)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    sock.bind(("", port))
    flows: dict[tuple[str, int], Flow] = {}
    while True:
        data, ancillary, _, sender = sock.recvmsg(1 << 16, 256)
        when, segment = _when(ancillary), _segment(ancillary) or len(data)
        # The kernel may hand over several packets of a length as one.
        for at in range(0, len(data), max(segment, 1)):
            one = data[at : at + segment]
            if len(one) < HEAD.size:
                continue
            letter, number_of, number = HEAD.unpack_from(one)
            key = (sender[0], number_of)
            if letter == b"e":
                sock.sendto(one, sender)
            elif letter == b"q":
                found = flows.get(key, Flow()).result()
                sock.sendto(one[: HEAD.size] + json.dumps(found).encode(), sender)
            elif letter == b"c":
                flows.setdefault(key, Flow()).count(number)
            elif letter == b"r":
                packets = -(-len(data) // segment)
                size = len(data) + packets * HEADERS
                flows.setdefault(key, Flow()).arrive(when, size, packets)
                break


def _large(sock: socket.socket) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    except PermissionError:  # without root on the machine itself
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)


def _when(ancillary: list[tuple[int, int, bytes]]) -> float:
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanos = struct.unpack_from("@ll", value)
            return int(seconds) + int(nanos) / 1e9
    return time.time()


def _segment(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, value in ancillary:
        if level == SOL_UDP and kind == UDP_GRO:
            return int(struct.unpack_from("@i", value)[0])
    return 0


class Asker:
    """Measures the way to one target, to which and back takes less than `wait` seconds.

    `start` makes the numbers of its measurements its own.
    """

    def __init__(self, address: str, port: int, start: int, wait: float) -> None:
        self._wait = wait
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        _large(self._sock)
        self._sock.connect((address, port))
        self._next = start

    def close(self) -> None:
        """Let go of the socket."""
        self._sock.close()

    def round_trips(self, count: int, interval: float) -> list[float]:
        """Seconds of each packet that came back."""
        flow = self._number()
        sent: dict[int, float] = {}
        found: list[float] = []
        begin = time.monotonic()
        end = begin + count * interval + self._wait
        while len(found) < count and (now := time.monotonic()) < end:
            due = begin + len(sent) * interval
            if len(sent) < count and now >= due:
                number = len(sent)
                sent[number] = time.monotonic()
                self._send(HEAD.pack(b"e", flow, number))
                continue
            until = due if len(sent) < count else end
            if not select.select([self._sock], [], [], max(until - now, 0))[0]:
                continue
            data = self._receive()
            if len(data) >= HEAD.size:
                letter, number_of, number = HEAD.unpack_from(data)
                if letter == b"e" and number_of == flow and number in sent:
                    found.append(time.monotonic() - sent.pop(number))
                    sent[number] = float("inf")  # It counts once.
        return [item for item in found if item > 0]

    def losses(self, count: int, interval: float) -> dict[str, float]:
        """What the target counted of so many packets."""
        flow = self._number()
        begin = time.monotonic()
        for number in range(count):
            ahead = begin + number * interval - time.monotonic()
            if ahead > 0.001:
                time.sleep(ahead)
            self._send(HEAD.pack(b"c", flow, number) + bytes(20))
        return self._counted(flow)

    def rate(self, seconds: float, payload: int, at_once: int, unsent: int) -> dict[str, float]:
        """What the target counted while as much was sent as the way takes.

        The socket holds no more than `unsent` bytes back, so that the end comes
        soon after the last is sent; what waits longer than that waits on the way.
        """
        flow = self._number()
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, unsent)
        if at_once > 1:
            self._sock.setsockopt(SOL_UDP, UDP_SEGMENT, payload)
        # Each begins as a message of its own, for where they travel one by one.
        data = (HEAD.pack(b"r", flow, 0) + bytes(payload - HEAD.size)) * at_once
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self._send(data)
        finally:
            if at_once > 1:
                self._sock.setsockopt(SOL_UDP, UDP_SEGMENT, 0)
        return self._counted(flow)

    def _counted(self, flow: int) -> dict[str, float]:
        """Asked until two answers are the same: something may still be on its way."""
        before: dict[str, float] | None = None
        for _ in range(QUERIES):
            self._send(HEAD.pack(b"q", flow, 0))
            if not select.select([self._sock], [], [], self._wait)[0]:
                continue
            data = self._receive()
            if len(data) < HEAD.size or HEAD.unpack_from(data)[:2] != (b"q", flow):
                continue
            found: dict[str, float] = json.loads(data[HEAD.size :])
            if found == before:
                return found
            before = found
            time.sleep(BETWEEN_QUERIES)
        return before or Flow().result()

    def _number(self) -> int:
        self._next += 1
        return self._next

    def _send(self, data: bytes) -> None:
        try:
            self._sock.send(data)
        except (BlockingIOError, ConnectionRefusedError):
            pass  # Nobody listens there yet, or the kernel is full: the counts will tell.
        except OSError:
            time.sleep(0.001)

    def _receive(self) -> bytes:
        try:
            return self._sock.recv(1 << 16)
        except ConnectionRefusedError:
            return b""


def ask(orders: list[dict[str, Any]], port: int) -> list[dict[str, Any]]:
    """Each order's results: its keys are the measurements, its values their arguments."""
    answers: list[dict[str, Any]] = []
    start = int(time.monotonic() * 1000) % (1 << 31)
    for at, order in enumerate(orders):
        asker = Asker(order["target"], port, start + at * 16, order["wait"])
        answer: dict[str, Any] = {}
        for name in ("round_trips", "losses", "rate"):
            if name in order:
                answer[name] = getattr(asker, name)(**order[name])
        asker.close()
        answers.append(answer)
    return answers


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    asked = json.loads(sys.argv[2])
    sys.stdout.write(json.dumps(ask(asked["orders"], asked["port"])) + "\n")
