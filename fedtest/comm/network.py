"""DistNetwork: one process's membership in a group of ranks that send each other packages."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Self

from torch import distributed as dist

from fedtest.comm import outgoing, processor, wire
from fedtest.comm.endpoint import LEAVING, Endpoint
from fedtest.comm.errors import ArgumentError, CommError, JoinError, NotConnected, PeerLost
from fedtest.comm.rendezvous import Request, join

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import torch

    from fedtest.comm.codes import MessageCode
    from fedtest.comm.inbox import Received

log = logging.getLogger(__name__)

HEARTBEAT = 5.0


class DistNetwork:
    """A rank in a group of `world_size`, over Gloo. Also a context manager: `with` closes it.

    `address`     host and port of rank 0
    `world_size`  how many ranks there are
    `rank`        which this is, 0 to world_size - 1
    `ethernet`    the interface that Gloo's connections are to use; several with
                  commas. None: what GLOO_SOCKET_IFNAME says, or else the one
                  that the host's own name leads to
    `dist_backend` only "gloo"
    `timeout`     seconds that a call waits for other ranks, unless it says otherwise
    `heartbeat`   seconds after which a rank that cannot be reached is taken for
                  lost; 0 turns that off. Needs this library on both sides: with
                  FedLab's the time-out counts
    `strict`      refuse tensors that would lose something by taking the dtype
                  of the first one
    `max_package_bytes` the largest content, in bytes, that is sent or received

    Raises ArgumentError for a rank, port, time-out or backend that cannot be.

    One process can be in one group at a time. A sender thread and a receiver
    thread on one network are safe, so are several senders. Two receives at
    once must be from two different ranks, or the second raises ArgumentError;
    so does any call in a fork of the process.

    A send of at most 1 MiB returns when the package is under way, up to 16 MiB
    to each rank; a larger one when it is taken, and until then the tensor must
    not be changed. Packages of at most 1 MiB are read ahead, 64 from each rank.
    """

    def __init__(
        self,
        address: tuple[str, int],
        world_size: int,
        rank: int,
        ethernet: str | None = None,
        dist_backend: str = "gloo",
        *,
        timeout: float = processor.TIMEOUT,
        heartbeat: float = HEARTBEAT,
        strict: bool = False,
        max_package_bytes: int = wire.MAX_PACKAGE_BYTES,
    ) -> None:
        host, port = address[0], int(address[1])
        if not 0 < port < 1 << 16:
            raise ArgumentError(f"port {port}: 1 to 65535 can be")
        if not 0 <= rank < world_size:
            raise ArgumentError(f"rank {rank} of {world_size}: ranks are 0 to world_size - 1")
        if dist_backend != "gloo":
            raise ArgumentError(f"dist_backend={dist_backend!r}: packages travel over gloo")
        self.address = (host, port)
        self.world_size = world_size
        self.rank = rank
        self.ethernet = ethernet
        self.dist_backend = dist_backend
        self.timeout = _seconds(timeout)
        self.heartbeat = heartbeat
        self.strict = strict
        self.max_package_bytes = max_package_bytes
        self.send_volume_intotal = 0
        """Bytes of content sent and counted."""
        self.recv_volume_intotal = 0
        """Bytes of content received and counted."""
        self.interface: str | None = None
        """The interface that Gloo took, once connected."""
        self.ours: frozenset[int] = frozenset()
        """The other ranks that have this library, too, once connected."""
        self._endpoint: Endpoint | None = None
        self._closed = False
        self._counting: Any = None

    def init_network_connection(self, timeout: float | None = None) -> None:
        """Join the group; returns when all ranks have. Raises JoinError."""
        if self._endpoint is not None:
            self._endpoint.check_process()
            raise JoinError("this network is connected already")
        joined = join(
            Request(
                *self.address,
                self.world_size,
                self.rank,
                self.ethernet,
                self._time(timeout),
                heartbeat=self.heartbeat > 0,
            )
        )
        self.interface = joined.interface
        self.ours = joined.ours
        self._counting = threading.Lock()
        self._endpoint = Endpoint(
            joined.group,
            limit=self.max_package_bytes,
            ahead=True,
            links=joined.links,
            heartbeat=self.heartbeat,
            short=joined.short,
        )
        processor.use(self._endpoint)
        self._closed = False
        log.info("connected: %s, interface %s (%s)", self, joined.interface, joined.address)

    def close_network_connection(self, timeout: float | None = None) -> None:
        """Wait until what was sent is taken, and leave the group. Closing twice is fine.

        Raises PeerError if a rank has not taken everything; the network is
        closed all the same.
        """
        endpoint, self._endpoint = self._endpoint, None
        self._closed = True
        if endpoint is None:
            return
        if endpoint.forked:
            return  # and the group is left to whose it is
        group = endpoint.group
        try:
            endpoint.close(self._time(timeout))
        finally:
            processor.forget(endpoint)
            # Not the group of somebody else who came after.
            if dist.is_initialized() and dist.group.WORLD is group:
                dist.destroy_process_group()
            log.info(
                "closed: rank %d sent %d bytes of content, received %d",
                self.rank,
                self.send_volume_intotal,
                self.recv_volume_intotal,
            )

    def send(
        self,
        content: torch.Tensor | Sequence[torch.Tensor] | None = None,
        message_code: MessageCode | int | None = None,
        dst: int = 0,
        count: bool = True,
        *,
        timeout: float | None = None,
    ) -> None:
        """Send a tensor, a list or tuple of tensors, or none, to rank `dst`.

        Of any shapes, and of the dtypes in DTYPES; all take the first one's.
        `count` adds the bytes of content to
        `send_volume_intotal`. Everything is checked before the first byte goes
        out. Raises PackageError, PeerError, ArgumentError.
        """
        self._send(content, message_code, [dst], count, timeout)

    def recv(
        self, src: int | None = None, count: bool = True, *, timeout: float | None = None
    ) -> tuple[int, MessageCode, list[torch.Tensor] | None]:
        """Sender's rank, message code and tensors of the next package, from `src` or anybody.

        The tensors are views of one memory of their own, with the shapes that
        were sent; None if there are none. After a TransferTimeout nothing is
        lost: the next call has it. When a rank is lost, a receive from anybody
        raises PeerLost once, and goes on with the others when called again.
        Raises PackageError, PeerError, ArgumentError.
        """
        received = self._receive(src, count, timeout)
        return received.sender, received.code, received.content

    def broadcast_send(
        self,
        content: torch.Tensor | Sequence[torch.Tensor] | None = None,
        message_code: MessageCode | int | None = None,
        dst: Sequence[int] | None = None,
        count: bool = True,
        *,
        timeout: float | None = None,
    ) -> None:
        """Send the same to all ranks of `dst` at once (default: all others); itself is left out.

        If some cannot be reached, the others still get it; then the first
        error is raised, with notes of the others. `timeout` is for all
        together. Raises PackageError, PeerError, ArgumentError.
        """
        self._send(content, message_code, self._others(dst, "dst"), count, timeout)

    def broadcast_recv(
        self,
        src: Sequence[int] | None = None,
        count: bool = True,
        *,
        timeout: float | None = None,
    ) -> tuple[list[int], list[MessageCode], list[list[torch.Tensor] | None]]:
        """A package from each rank of `src` (default: all others), in that order.

        Three lists: senders' ranks, message codes, and tensors as `recv` has
        them. `timeout` is for all together. If a package does not come, or is
        none, the others' are there for the next call. Raises PackageError,
        PeerError, ArgumentError.
        """
        received = self._connected().receive_each(self._others(src, "src"), self._time(timeout))
        if count:
            with self._counting:
                self.recv_volume_intotal += sum(each.volume for each in received)
        return (
            [each.sender for each in received],
            [each.code for each in received],
            [each.content for each in received],
        )

    def receive_in(self, allocate: Callable[[int, torch.dtype], torch.Tensor]) -> None:
        """Have contents of more than 1 MiB received in what `allocate(elements, dtype)` gives."""
        self._connected().receive_in(allocate)

    def hand_over(
        self, take: Callable[[int, MessageCode, list[torch.Tensor] | None], bool]
    ) -> bool:
        """Have packages given to `take` as they come, in the threads that have received them.

        That spares each the way to another thread. `recv` still has to be
        called: it raises what there is to raise, lets large contents come, and
        returns those packages, already counted, for which `take` returned true.
        False, and nothing is changed, if there are packages to be received first.
        """

        def counted(received: Received) -> bool:
            with self._counting:
                self.recv_volume_intotal += received.volume
            return take(received.sender, received.code, received.content)

        return self._connected().hand_over(counted)

    @property
    def lost(self) -> dict[int, PeerLost]:
        """The ranks that are gone, and why."""
        return {} if self._endpoint is None else dict(self._endpoint.lost)

    def __enter__(self) -> Self:
        """Connect, unless that was done."""
        if self._endpoint is None:
            self.init_network_connection()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close; after an error without a second one."""
        try:
            self.close_network_connection(min(self.timeout, LEAVING) if kind else None)
        except CommError:
            if kind is None:
                raise

    def __str__(self) -> str:
        return (
            f"rank {self.rank} of {self.world_size} at {self.address[0]}:{self.address[1]}, "
            f"ethernet {self.ethernet}"
        )

    def _send(
        self,
        content: object,
        code: MessageCode | int | None,
        destinations: Sequence[int],
        count: bool,
        timeout: float | None,
    ) -> None:
        endpoint = self._connected()
        ready = outgoing.prepare(
            content,
            code,
            strict=self.strict,
            limit=self.max_package_bytes,
            memory=endpoint.memory,
            stacklevel=3,
        )
        done: list[int] = []
        try:
            endpoint.send(ready, destinations, self._time(timeout), done)
        finally:
            if count and done:
                with self._counting:
                    self.send_volume_intotal += ready.volume * len(done)

    def _receive(self, src: int | None, count: bool, timeout: float | None) -> Received:
        received = self._connected().receive(src, self._time(timeout))
        if count:
            with self._counting:
                self.recv_volume_intotal += received.volume
        return received

    def _others(self, ranks: Sequence[int] | None, name: str) -> list[int]:
        if ranks is None:
            ranks = range(self.world_size)
        elif isinstance(ranks, (str, bytes)) or not all(type(rank) is int for rank in ranks):
            raise ArgumentError(f"{name} must be a list of ranks, not {ranks!r}")
        return [rank for rank in ranks if rank != self.rank]

    def _connected(self) -> Endpoint:
        if self._endpoint is None:
            if self._closed:
                raise NotConnected("the network is closed")
            raise NotConnected("not connected: call init_network_connection() first")
        self._endpoint.check_process()
        return self._endpoint

    def _time(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else _seconds(timeout)


def _seconds(timeout: float) -> float:
    if not 0 < timeout <= 366 * 86_400:
        raise ArgumentError(f"timeout={timeout}: seconds, above 0 and at most a year")
    return timeout
