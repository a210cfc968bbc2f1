"""Becoming a member of the process group: in time, or with an error that says what is missing.

torch's own rendezvous is used as FedLab uses it, so that the two meet. Beside
its keys in the store of rank 0 ours write a few of their own, under `fedtest/`:
who has joined, from which address, and where the heartbeat connections go.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch import distributed as dist

from fedtest.comm import heartbeat, interfaces, short
from fedtest.comm.errors import (
    DuplicateRank,
    JoinError,
    PortTaken,
    RendezvousTimeout,
    WorldSizeError,
    one_line,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

log = logging.getLogger(__name__)

_BEFORE = 0.2  # of the time-out is left when the ranks that have joined are looked at
_GRACE = 1.0  # seconds beyond the time-out for torch to give its own reason
_ASK = timedelta(seconds=2)  # for a look at the store after something failed

# Debian's torch 2.6 has no libuv, 1.13 has no choice, and all understand each other.
WITHOUT_LIBUV = {"use_libuv": False} if "use_libuv" in str(dist.TCPStore.__init__.__doc__) else {}


@dataclass(frozen=True)
class Request:
    """Who wants to join what."""

    host: str  # rank 0's
    port: int
    world_size: int
    rank: int
    ethernet: str | None  # interface names for Gloo; None: the variable's, or none
    timeout: float  # seconds
    heartbeat: bool


@dataclass(frozen=True)
class Member:
    """What a rank says of itself in the store. `listens` is where its heartbeat is."""

    interface: str | None
    address: str
    listens: tuple[str, int, str] | None  # address, port, secret
    short: int  # the most bytes of a package of the short form; 0: it takes none

    @classmethod
    def parse(cls, text: bytes) -> Member:
        found = json.loads(text)
        listens = found["listens"]
        return cls(
            found["interface"],
            found["address"],
            tuple(listens) if listens else None,
            found.get("short", 0),
        )


@dataclass
class Joined:
    """A member of the group."""

    group: Any
    interface: str | None  # that Gloo took
    address: str
    links: dict[int, socket.socket]  # heartbeat connections
    ours: frozenset[int]  # the other ranks that have this library, too
    short: frozenset[int]  # those of them that take the short form of a package


def join(request: Request) -> Joined:
    """Join the group. Raises JoinError, at the latest a second after the time-out."""
    if dist.is_initialized():
        raise JoinError("this process is in a process group already: close that first")
    names = request.ethernet or os.environ.get(interfaces.VARIABLE) or None
    address = interfaces.check(names) if names else interfaces.default_address()
    if request.rank == 0:
        interfaces.check_own(request.host)
    attempt = _Attempt(request, address)
    with _gloo_interface(request.ethernet):
        return attempt.run()


@contextmanager
def _gloo_interface(ethernet: str | None) -> Iterator[None]:
    """The variable that Gloo reads is `ethernet`, for as long as it reads it."""
    before = os.environ.get(interfaces.VARIABLE)
    if not ethernet:
        yield
        return
    if before not in (None, "", ethernet):
        log.warning("ethernet=%r is used, not %s=%r", ethernet, interfaces.VARIABLE, before)
    os.environ[interfaces.VARIABLE] = ethernet
    try:
        yield
    finally:
        if before is None:
            del os.environ[interfaces.VARIABLE]
        else:
            os.environ[interfaces.VARIABLE] = before


class _Attempt:
    """One try to join.

    torch's part runs in a thread of its own, for some of its waits have no end
    (a port that accepts and stays silent) or five times the one asked for.
    """

    def __init__(self, request: Request, address: str) -> None:
        self.request = request
        self.address = address
        self.deadline = time.monotonic() + request.timeout
        self.listener = heartbeat.Listener(address) if request.heartbeat else None
        self.registry: Any = None  # keys of ours in the store, by a connection of its own
        self.seen: dict[int, Member] = {}  # ranks that had joined by then
        self.store_gone = False
        self.result: Joined | None = None
        self.error: Exception | None = None
        self.lock = threading.Lock()
        self.abandoned = False

    def run(self) -> Joined:
        thread = threading.Thread(target=self._try, name="fedtest.comm join", daemon=True)
        thread.start()
        # Who has joined is looked at while rank 0, which may give up first, has the store.
        thread.join(max(0.0, self.deadline - time.monotonic() - _BEFORE * self.request.timeout))
        if thread.is_alive():
            self._look()
        thread.join(max(0.0, self.deadline - time.monotonic()) + _GRACE)
        with self.lock:
            self.abandoned = self.result is None
            result, error = self.result, self.error
        if self.listener is not None:
            self.listener.close()
        if result is not None:
            return result
        if isinstance(error, JoinError):
            raise error
        raise self._explained(error) from error

    def _try(self) -> None:
        try:
            result = self._join()
        except Exception as error:  # noqa: BLE001 - it is raised by run()
            self._look()  # as long as rank 0, if this is it, has the store
            with self.lock:
                self.error = error.with_traceback(None)  # whose frames have the store, and its port
            return
        with self.lock:
            if not self.abandoned:
                self.result = result
                return
        dist.destroy_process_group()  # nobody waits for it any more

    def _join(self) -> Joined:
        request = self.request
        store = self._store(is_master=request.rank == 0)
        # A look at who has joined must not wait behind what torch waits for.
        self.registry = dist.PrefixStore("fedtest", self._store(is_master=False, wait=False))
        self._register()
        before = interfaces.listening()
        dist.init_process_group(
            "gloo",
            # As torch itself wraps the store that it makes of a tcp:// address.
            store=dist.PrefixStore("default_pg", store),
            rank=request.rank,
            world_size=request.world_size,
            timeout=timedelta(seconds=request.timeout),
        )
        found = {place for place, _ in interfaces.listening() - before}
        # Of several interfaces Gloo listens on each; packages go over the first, whose
        # address is ours.
        address = self.address if self.address in found or not found else min(found)
        try:
            # Everybody is in the group, so all of ours have registered before.
            members = self._members()
            links = self._link(members)
        except (OSError, RuntimeError):
            dist.destroy_process_group()
            raise
        ours = frozenset(members) - {request.rank}
        return Joined(
            dist.group.WORLD,
            interfaces.interface_of(address),
            address,
            links,
            ours,
            frozenset(rank for rank in ours if members[rank].short >= short.MOST),
        )

    def _store(self, *, is_master: bool, wait: bool | None = None) -> Any:
        request = self.request
        return dist.TCPStore(
            request.host,
            request.port,
            request.world_size if wait is None else None,
            is_master,
            timedelta(seconds=max(0.001, self.deadline - time.monotonic())),
            # Rank 0 does not wait here: it would not say who is missing. The
            # others are counted, for a rank 0 of torch's own does.
            wait_for_workers=(not is_master) if wait is None else wait,
            **WITHOUT_LIBUV,
        )

    def _register(self) -> None:
        request = self.request
        world = self.registry.compare_set("world", "", str(request.world_size))
        if int(world) != request.world_size:
            raise WorldSizeError(
                f"{self._where()}: others have joined with a world size of {int(world)}"
            )
        if self.registry.add(f"rank/{request.rank}", 1) > 1:
            other = self._members().get(request.rank)
            where = f", from {other.address}" if other else ""
            raise DuplicateRank(
                f"{self._where()}: a process has joined with this rank{where}; "
                "if it has died, all ranks have to start anew"
            )
        listens = None
        if self.listener is not None:
            listens = (*self.listener.address, self.listener.secret.hex())
        own = {
            "interface": interfaces.interface_of(self.address),
            "address": self.address,
            "listens": listens,
            "short": 0 if short.EXACT else short.MOST,
        }
        self.registry.set(f"member/{request.rank}", json.dumps(own))
        self.registry.add(f"registered/{request.rank}", 1)
        self.seen = self._members()

    def _members(self) -> dict[int, Member]:
        """Those of ours that have joined so far."""
        found = {}
        for rank in range(self.request.world_size):
            # Not check(), which torch 1.13 has not.
            if self.registry.add(f"registered/{rank}", 0):
                found[rank] = Member.parse(self.registry.get(f"member/{rank}"))
        return found

    def _look(self) -> None:
        """See who has joined, if the store is still there; one that was gone is not asked again."""
        if self.registry is None or self.store_gone:
            return
        try:
            self.registry.set_timeout(_ASK)
            self.seen = self._members()
        except RuntimeError:
            self.store_gone = True

    def _link(self, members: dict[int, Member]) -> dict[int, socket.socket]:
        """The heartbeat connections, with all of `members` that have a heartbeat."""
        own = self.request.rank
        links: dict[int, socket.socket] = {}
        if self.listener is not None:
            beating = {r: m.listens for r, m in members.items() if m.listens and r != own}
            for peer, place in beating.items():
                if peer < own:
                    host, port, secret = place
                    try:
                        links[peer] = heartbeat.connect(
                            own,
                            self.listener.address[0],
                            (host, port),
                            bytes.fromhex(secret),
                            self.deadline,
                        )
                    except OSError as error:
                        raise OSError(f"no heartbeat connection to rank {peer}: {error}") from error
            links |= self.listener.accept((r for r in beating if r > own), self.deadline)
        # Rank 0 has the store: it stays until all have read what they need.
        if self.registry.add("linked", 1) == len(members):
            self.registry.set("all-linked", "1")
        if own == 0:
            left = max(0.001, self.deadline - time.monotonic())
            self.registry.wait(["all-linked"], timedelta(seconds=left))
        return links

    def _where(self) -> str:
        request = self.request
        return (
            f"joining as rank {request.rank} of {request.world_size} "
            f"at {request.host}:{request.port} from {self.address}"
        )

    def _explained(self, error: Exception | None) -> JoinError:
        words = f": {one_line(error)}" if error is not None else ""
        if error is not None and not isinstance(error, (OSError, RuntimeError, ValueError)):
            return JoinError(f"{self._where()}{words}")
        if "EADDRINUSE" in words or "address already in use" in words.lower():
            return PortTaken(f"{self._where()}: the port is taken{words}")
        request = self.request
        timeout = f"not all came together within {request.timeout:g} s"
        self._look()
        members = self.seen
        if not members:
            ranks = range(request.world_size)
            missing = [rank for rank in ranks if rank != request.rank]
            return RendezvousTimeout(
                f"{self._where()}: {timeout}, and rank 0 does not answer there{words}",
                [request.rank],
                missing if request.rank == 0 else [0],
            )
        missing = [rank for rank in range(request.world_size) if rank not in members]
        said = ", ".join(
            f"rank {rank} from {member.address} ({member.interface})"
            for rank, member in members.items()
        )
        lack = f"; missing: rank {', '.join(map(str, missing))}" if missing else ""
        hint = "" if missing else "; are these addresses on one network that all of them share?"
        return RendezvousTimeout(
            f"{self._where()}: {timeout}; joined: {said}{lack}{hint}{words}",
            list(members),
            missing,
        )
