"""Who is to blame when an exchange does not complete.

Gloo tells only of the neighbour: when one rank stands still, every rank times
out, each with the next. So there is a connection of its own between every two
ranks (those that joining made), over the same interface, and a thread that
answers on it which rank this one waits for. When a transfer has failed, the
others are asked: who does not answer is to blame, and who has died was seen to
close its connection. Whoever gives up says because of whom, before it closes.

Lines of JSON: `{"ask": 1}`, `{"tell": RANK}` (the rank that is waited for, -1 for
none), `{"end": RANK, "why": TEXT, "silent": true}` (-1: in order; its own: for a reason of
its own).
"""

from __future__ import annotations

import json
import selectors
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedtest.comm.heartbeat import unanswered

if TYPE_CHECKING:
    from collections.abc import Mapping

NOBODY = -1
_LONGEST = 1 << 12  # bytes of a line
_TOLD_APART = 0.4  # of the time for finding out: until what has happened is known


@dataclass(frozen=True)
class Blame:
    """The rank to blame, why, and whether it is lost or only silent."""

    rank: int
    why: str
    silent: bool


class Watch:
    """The connections to all other ranks. `waiting_for` is what this rank tells when asked."""

    def __init__(self, rank: int, links: Mapping[int, socket.socket], timeout: float) -> None:
        self.rank = rank
        self.waiting_for = NOBODY
        self._links = dict(links)
        self._timeout = timeout
        self._changed = threading.Condition()
        self._received = dict.fromkeys(links, b"")
        self._lost: dict[int, Blame] = {}  # in the order they were lost
        self._ended: dict[int, Blame] = {}  # what those said who ended
        self._told: dict[int, int] = {}  # answers to the question under way
        self._selector = selectors.DefaultSelector()
        self._waker, self._wake = socket.socketpair()
        self._selector.register(self._wake, selectors.EVENT_READ, NOBODY)
        for peer, link in self._links.items():
            _keep_alive(link, timeout)
            link.setblocking(False)
            self._selector.register(link, selectors.EVENT_READ, peer)
        self._thread = threading.Thread(target=self._run, name="fedtest.ring watch", daemon=True)
        self._thread.start()

    def blame(self, peer: int, seconds: float) -> Blame:
        """Who is to blame that a transfer with `peer` failed (-1: with anybody)."""
        began = time.monotonic()
        with self._changed:
            self._changed.wait_for(self._known, _TOLD_APART * seconds)
            found = self._verdict(peer)
        return found or self._asked(peer, seconds - (time.monotonic() - began))

    def close(self, blamed: Blame | None = None) -> None:
        """Tell all why this rank ends (None: it is done), and close."""
        end = blamed or Blame(NOBODY, "", silent=False)
        self._waker.close()
        self._thread.join()
        for peer in self._links:
            self._send(peer, {"end": end.rank, "why": end.why, "silent": end.silent})
            self._links[peer].close()
        self._wake.close()
        self._selector.close()

    def _known(self) -> bool:
        return bool(self._lost) or any(end.rank != NOBODY for end in self._ended.values())

    def _verdict(self, peer: int) -> Blame | None:
        """What is known without asking: deaths, then what others said before they ended."""
        if self._lost:
            rank = peer if peer in self._lost else next(iter(self._lost))
            return self._lost[rank]
        for other, end in self._ended.items():
            if end.rank == self.rank:
                return Blame(other, f"has given up on this one, which {end.why}", silent=False)
            if end.rank != NOBODY:
                first_hand = end.rank == other or "(says rank" in end.why
                told = end.why if first_hand else f"{end.why} (says rank {other})"
                return Blame(end.rank, told, end.silent)
        return None

    def _asked(self, peer: int, seconds: float) -> Blame:
        with self._changed:
            self._told.clear()
            asked = {other for other in self._links if other not in self._ended}
        for other in asked:
            self._send(other, {"ask": 1})
        with self._changed:
            self._changed.wait_for(
                lambda: self._known() or asked <= self._told.keys() | self._ended.keys(),
                max(0.05, seconds),
            )
            known, told, ended = self._verdict(peer), dict(self._told), list(self._ended)
        if known is not None:
            return known
        silent = asked - told.keys() - set(ended)
        long = f"was silent for {self._timeout:g} s"
        if silent == asked and len(asked) > 1:
            return Blame(peer if peer in asked else min(asked), f"{long}, as were all others", True)
        # Along the chain of who waits for whom.
        rank, seen = peer, set[int]()
        while rank not in silent and told.get(rank, NOBODY) != NOBODY and rank not in seen:
            seen.add(rank)
            rank = told[rank]
        if rank == NOBODY and not silent and ended:
            rank = ended[0]
        if rank in ended:
            return Blame(rank, "has ended: it was done, and waits for nobody", silent=False)
        if silent and rank not in silent:
            rank = min(silent)
        if rank in (NOBODY, self.rank):
            rank = peer
        return Blame(rank, long, silent=True)

    def _send(self, peer: int, what: dict[str, Any]) -> None:
        with suppress(OSError):  # the thread finds out, and a full buffer is a silent rank
            self._links[peer].send(json.dumps(what).encode() + b"\n")

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data == NOBODY:
                    return
                if not self._read(key.data):
                    self._selector.unregister(key.fileobj)

    def _read(self, peer: int) -> bool:
        """Take what `peer` says; false when it will say no more."""
        try:
            data = self._links[peer].recv(_LONGEST)
        except BlockingIOError:
            return True
        except OSError as error:
            data, silent = b"", unanswered(error)
            why = f"is lost: its connection broke: {error.strerror or error}"
            if silent:
                why = f"was silent for {self._timeout:g} s"
        else:
            why, silent = "is lost: its process ended without a word", False
        lines = (self._received[peer] + data).split(b"\n")
        self._received[peer] = lines.pop()
        with self._changed:
            for line in lines:
                self._take(peer, line)
            garbled = len(self._received[peer]) > _LONGEST
            if (not data or garbled) and peer not in self._ended:
                self._lost[peer] = Blame(peer, why, silent)
            self._changed.notify_all()
        return bool(data) and not garbled

    def _take(self, peer: int, line: bytes) -> None:
        try:
            said = json.loads(line)
            if "ask" in said:
                self._send(peer, {"tell": self.waiting_for})
            elif "tell" in said:
                self._told[peer] = int(said["tell"])
            elif "end" in said:
                why = " ".join(str(said["why"]).split())
                self._ended[peer] = Blame(int(said["end"]), why, bool(said["silent"]))
        except (ValueError, TypeError, KeyError):
            self._lost[peer] = Blame(peer, "is lost: it sent what no rank sends", silent=False)


def _keep_alive(link: socket.socket, seconds: float) -> None:
    """Have the kernel give up on the other end after `seconds`: not before a transfer would."""
    probes = max(1, round(seconds / 2))
    for option, value in (("KEEPIDLE", 2), ("KEEPINTVL", 2), ("KEEPCNT", min(probes, 127))):
        link.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{option}"), value)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1000, int(1000 * seconds)))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
