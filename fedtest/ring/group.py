"""The process group: becoming a member, transfers that say who is to blame, and leaving."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch import distributed as dist

from fedtest.comm import rendezvous
from fedtest.comm.errors import one_line
from fedtest.ring.errors import PeerError, RankLost, RankSilent
from fedtest.ring.watch import NOBODY, Blame, Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

Tensor = Any  # torch.Tensor; torch has no types where this is checked
Work = Any

_TAG = 0
_FINDING_OUT = 2.0  # seconds of the time-out, at most, for finding out who is to blame
_SHARE = 0.4  # of the time-out, at most
_SAID = 300  # characters, at most, of what others are told about an error
_ASKING = 0.7  # of that; the rest is for a last checkpoint


class Group:
    """`size` ranks of which this is `rank`; transfers of contiguous tensors between them.

    One that does not complete raises PeerError within `timeout` seconds; the
    group is of no use afterwards.
    """

    def __init__(self, group: Any, watch: Watch, timeout: float, *, loopback: bool) -> None:
        self.group = group
        self.loopback = loopback  # is it by that that this rank is reached?
        self.rank: int = group.rank()
        self.size: int = group.size()
        self._watch = watch
        self._grace = min(_FINDING_OUT, _SHARE * timeout)
        self.patience = timedelta(seconds=timeout - self._grace)

    def start_send(self, tensor: Tensor, to: int, phase: str) -> Work:
        """Begin to send; the tensor must not change, nor the handle be dropped, before `wait`."""
        try:
            return self.group.send([tensor], to, _TAG)
        except RuntimeError as error:
            raise self.error(to, "sending to", phase, error) from error

    def start_receive(self, tensor: Tensor, source: int, phase: str) -> Work:
        """Begin to receive; the same holds."""
        try:
            return self.group.recv([tensor], source, _TAG)
        except RuntimeError as error:
            raise self.error(source, "receiving from", phase, error) from error

    def wait_sent(self, work: Work, to: int, phase: str) -> None:
        self._watch.waiting_for = to
        try:
            work.wait(self.patience)
        except RuntimeError as error:
            raise self.error(to, "sending to", phase, error) from error

    def wait_received(self, work: Work, source: int, phase: str) -> None:
        self._watch.waiting_for = source
        try:
            work.wait(self.patience)
        except RuntimeError as error:
            raise self.error(source, "receiving from", phase, error) from error

    def send(self, tensor: Tensor, to: int, phase: str) -> None:
        self.wait_sent(self.start_send(tensor, to, phase), to, phase)

    def receive(self, tensor: Tensor, source: int, phase: str) -> None:
        self.wait_received(self.start_receive(tensor, source, phase), source, phase)

    def broadcast(self, tensor: Tensor, source: int, phase: str) -> None:
        """Give `tensor` of rank `source` to all."""
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = source, 0
        options.timeout = self.patience
        whom = NOBODY if source == self.rank else source
        self._watch.waiting_for = whom
        try:
            # Said twice: an old torch does not look at the operation's own time-out.
            self.group.broadcast([tensor], options).wait(self.patience)
        except RuntimeError as error:
            action = "broadcast" if whom == NOBODY else "broadcast from"
            raise self.error(whom, action, phase, error) from error
        self._watch.waiting_for = NOBODY

    def error(self, peer: int, action: str, phase: str, cause: RuntimeError) -> PeerError:
        """The error for a failed transfer with `peer` (-1: with all)."""
        found = self._watch.blame(peer, _ASKING * self._grace)
        kind = RankSilent if found.silent else RankLost
        whom = "" if peer == NOBODY else f" rank {peer}"
        return kind(phase, found.rank, found.why, f"{action}{whom} failed: {one_line(cause)}")


@dataclass(frozen=True)
class Place:
    """Who joins, where, and by which interface (None: Gloo chooses)."""

    host: str  # rank 0's
    port: int
    rank: int
    size: int
    interface: str | None
    join_timeout: float  # seconds
    timeout: float  # seconds, for each transfer


@contextmanager
def joined(place: Place) -> Iterator[tuple[Group, str | None]]:
    """The group, for as long as the block lasts, and the interface that Gloo took.

    Raises the JoinErrors of the communication library. The others are told why a block
    that raises has ended.
    """
    member = rendezvous.join(
        rendezvous.Request(
            place.host,
            place.port,
            place.size,
            place.rank,
            place.interface,
            place.join_timeout,
            heartbeat=True,
        )
    )
    watch = Watch(place.rank, member.links, place.timeout)
    blamed = None
    try:
        loopback = member.interface == "lo"
        yield Group(member.group, watch, place.timeout, loopback=loopback), member.interface
    except PeerError as error:
        blamed = Blame(error.rank, error.why, isinstance(error, RankSilent))
        raise
    except BaseException as error:
        said = f"{type(error).__name__}: {one_line(error)}"
        blamed = Blame(place.rank, f"has ended: {said[:_SAID]}", silent=False)
        raise
    finally:
        watch.close(blamed)
        # After an error there may be an operation under way, in another thread, too, that an
        # old torch would wait for, until the time-out for joining. The process ends anyway.
        if blamed is None:
            dist.destroy_process_group()
