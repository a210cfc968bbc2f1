"""Delays packets: `delay.py NUMBER:DELAY:JITTER ...`, a queue of NFQUEUE each, in microseconds.

Each packet is let go when its delay is over, in the order in which they came,
as a cable would, and never before. The kernel keeps the packets and tells when
they came; with jitter each delay is drawn evenly from DELAY - JITTER to DELAY +
JITTER, and one that is drawn shorter waits for those before it.

Speaks netlink itself, as linux/netfilter/nfnetlink_queue.h defines it: BIND,
COPY_META with the GSO flag (what TCP hands over as one stays one), and
VERDICT_BATCH, which accepts every packet up to an id in one message.
"""

import ctypes
import gc
import random
import select
import socket
import struct
import sys
import time
from collections import deque

NETLINK_NETFILTER = 12
SOL_NETLINK, NETLINK_NO_ENOBUFS = 270, 5
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
PR_SET_TIMERSLACK = 29
REQUEST, ACK = 1, 4
QUEUE = 3 << 8  # NFNL_SUBSYS_QUEUE
PACKET, CONFIG, VERDICT_BATCH = QUEUE, QUEUE | 2, QUEUE | 3
NF_ACCEPT = 1
PACKET_HEAD, TIMESTAMP = 1, 4  # NFQA_PACKET_HDR, NFQA_TIMESTAMP
COPY_META, FLAG_GSO = 1, 4

LONGEST_QUEUE = 1 << 16
BUFFER = 1 << 26
LATEST = 0.0005
"""Seconds that a timer is late, at most, to be believed (measured: 30 to 300 us)."""
SET = 0.001
"""Seconds that a clock moves when it was set (one that is steered, 0.5 ms in a second)."""

HEAD = struct.Struct("=IHHII")  # nlmsghdr
ATTRIBUTE = struct.Struct("=HH")
STAMP = struct.Struct("!QQ")  # seconds and microseconds of the time of day
GENERIC = struct.Struct("!BBH")  # nfgenmsg: family, version, number of the queue
FIRST = HEAD.size + GENERIC.size


def message(kind: int, flags: int, number: int, *attributes: tuple[int, bytes]) -> bytes:
    """One request about a queue."""
    body = GENERIC.pack(socket.AF_UNSPEC, 0, number)
    for key, value in attributes:
        body += ATTRIBUTE.pack(ATTRIBUTE.size + len(value), key) + value
        body += bytes(-len(value) % 4)
    return HEAD.pack(HEAD.size + len(body), kind, REQUEST | flags, 0, 0) + body


def packet_id(packet: memoryview) -> int:
    """Of a message about a packet: the kernel puts NFQA_PACKET_HDR first."""
    length, key = ATTRIBUTE.unpack_from(packet, FIRST)
    assert key == PACKET_HEAD and length >= 8, "a packet without its header"  # noqa: PT018, S101 - one thing
    return int.from_bytes(packet[FIRST + 4 : FIRST + 8], "big")


def stamp(packet: memoryview) -> float | None:
    """The time of day when the packet came; None before the kernel has begun to stamp."""
    at = FIRST
    while at < len(packet):
        length, key = ATTRIBUTE.unpack_from(packet, at)
        if key == TIMESTAMP:
            seconds, micros = STAMP.unpack_from(packet, at + ATTRIBUTE.size)
            found: float = seconds + micros / 1e6
            return found
        at += (length + 3) & ~3
    return None


class Clock:
    """When packets came. To be told of one takes 100 to 300 us on an idle machine.

    The kernel stamps with the time of day, which may be set; what is due is due by the
    time since the machine was started. Of packets that are told of when the two have just
    moved apart, one knows only that they are there.
    """

    def __init__(self) -> None:
        self.offset = time.time() - time.monotonic()
        self.now = 0.0
        self.moved = False

    def look(self) -> None:
        """Before packets of one message."""
        before, time_of_day = self.offset, time.time()
        # After the other: who is interrupted in between takes packets for later, not for earlier.
        self.now = time.monotonic()
        self.offset = time_of_day - self.now
        self.moved = abs(self.offset - before) > SET

    def came(self, packet: memoryview) -> float:
        """By the clock of `time.monotonic`."""
        stamped = None if self.moved else stamp(packet)
        return self.now if stamped is None else min(stamped - self.offset, self.now)


class Line:
    """The packets of one queue, by when they are let go."""

    def __init__(self, number: int, delay: float, jitter: float) -> None:
        self.number = number
        self.delay = delay
        self.jitter = jitter
        self.waiting: deque[tuple[float, int]] = deque()

    def add(self, packet: int, came: float) -> None:
        """A packet came at `came`."""
        due = came + self.delay
        if self.jitter:
            due += random.uniform(-self.jitter, self.jitter)  # noqa: S311 - no secret
            if self.waiting:
                due = max(due, self.waiting[-1][0])
        self.waiting.append((due, packet))

    def due(self, now: float) -> bytes:
        """The verdict on all packets that are due, or nothing."""
        last = None
        while self.waiting and self.waiting[0][0] <= now:
            last = self.waiting.popleft()[1]
        if last is None:
            return b""
        return message(VERDICT_BATCH, 0, self.number, (2, struct.pack("!II", NF_ACCEPT, last)))


class Lateness:
    """By how much a timer is late on this machine, in seconds: a moving mean."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def learn(self, late: float) -> None:
        """So late it was this time; a machine that had no time teaches nothing."""
        if late < LATEST:
            self.seconds += (late - self.seconds) / 16


def bind(netlink: socket.socket, number: int) -> None:
    """Take over a queue. OSError if somebody else has it."""
    gso = struct.pack("!I", FLAG_GSO)
    for attributes in (
        [(1, struct.pack("!BBH", 1, 0, socket.AF_UNSPEC))],  # NFQA_CFG_CMD: BIND
        # NFQA_CFG_PARAMS, MASK and FLAGS.
        [(2, struct.pack("!IB", 0, COPY_META)), (4, gso), (5, gso)],
        [(3, struct.pack("!I", LONGEST_QUEUE))],  # NFQA_CFG_QUEUE_MAXLEN
    ):
        netlink.send(message(CONFIG, ACK, number, *attributes))
        answer = netlink.recv(1 << 16)
        code = struct.unpack_from("=i", answer, HEAD.size)[0]
        if code:
            raise OSError(-code, f"queue {number} cannot be had")


def serve(lines: dict[int, Line]) -> None:
    """Delay packets for ever."""
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    netlink.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)
    try:
        netlink.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    except PermissionError:  # without root on the machine itself
        netlink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    netlink.bind((0, 0))
    # The kernel stamps what comes as long as one socket wants it.
    stamps = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stamps.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    for number in lines:
        bind(netlink, number)
    netlink.setblocking(False)
    # The kernel may be 50 us late by default, to save power.
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()  # There is nothing circular here, and it would pause.
    buffer = bytearray(1 << 16)
    late, clock = Lateness(), Clock()
    while True:
        nexts = [line.waiting[0][0] for line in lines.values() if line.waiting]
        asked = time.monotonic()
        # Woken early it asks again without a wait, until a packet is due.
        timeout = max(min(nexts) - asked - late.seconds, 0) if nexts else None
        if select.select([netlink], [], [], timeout)[0]:
            take(netlink, buffer, lines, clock)
        elif timeout:
            late.learn(time.monotonic() - asked - timeout)
        for line in lines.values():
            if verdict := line.due(time.monotonic()):
                netlink.send(verdict)


def take(netlink: socket.socket, buffer: bytearray, lines: dict[int, Line], clock: Clock) -> None:
    """Take in what has come, but not so much that those who are due wait for it."""
    for _ in range(64):
        try:
            size = netlink.recv_into(buffer)
        except BlockingIOError:
            return
        clock.look()
        at = 0
        while at < size:
            length, kind, _, _, _ = HEAD.unpack_from(buffer, at)
            if kind == PACKET:
                number = GENERIC.unpack_from(buffer, at + HEAD.size)[2]
                packet = memoryview(buffer)[at : at + length]
                lines[number].add(packet_id(packet), clock.came(packet))
            at += (length + 3) & ~3


if __name__ == "__main__":
    wanted = {}
    for word in sys.argv[1:]:
        queue, micros, spread = map(int, word.split(":"))
        wanted[queue] = Line(queue, micros / 1e6, spread / 1e6)
    serve(wanted)
