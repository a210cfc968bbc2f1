"""ClientConnector: the side of a middle server that is the server of the clients below."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from queue import Full
from typing import TYPE_CHECKING, Any

import torch

from fedtest.comm.codes import MessageCode
from fedtest.comm.errors import (
    CommError,
    ExitTimeout,
    IdError,
    PackageError,
    PeerLost,
    TransferTimeout,
)
from fedtest.comm.hierarchical.connector import (
    END,
    EXIT_TIMEOUT,
    LEAVING,
    LOOK,
    Connector,
    Message,
)
from fedtest.comm.hierarchical.heard import ALIVE
from fedtest.comm.hierarchical.ids import check_known, decode, encode, put_ids, take_ids
from fedtest.comm.hierarchical.setup import hear_clients, origin
from fedtest.comm.tensors import follows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedtest.comm.hierarchical.coordinator import Coordinator
    from fedtest.comm.network import DistNetwork

log = logging.getLogger(__name__)


class ClientConnector(Connector):
    """Connects with the clients below: rank 0 of their group.

    `mode`     LOCAL: clients are told ids that count from 0 on each rank;
               GLOBAL: the ids that the server above has said
    `first_id` the first id, if the server above has the mode GLOBAL
    `origins`  what goes up begins with two numbers: the first id that it is
               from, and how many. The server above takes them off by `origin`.
               Without it messages go up unchanged
    """

    side = "the lower side"
    other_side = "the upper side"

    def __init__(
        self,
        network: DistNetwork,
        write_queue: Any,
        read_queue: Any,
        *,
        mode: str = "LOCAL",
        first_id: int = 0,
        origins: bool = False,
        exit_timeout: float = EXIT_TIMEOUT,
    ) -> None:
        super().__init__(network, write_queue, read_queue, exit_timeout=exit_timeout)
        self.mode = mode
        self.first_id = first_id
        self.origins = origins
        self.coordinator: Coordinator
        """Which rank stands for which ids; there is one after `setup`."""
        self.gone: dict[int, str] = {}
        """Ranks that are no more, and why."""

    @property
    def ranks(self) -> list[int]:
        """The ranks that are there."""
        return [rank for rank in range(1, self._network.world_size) if rank not in self.gone]

    def setup(self) -> None:
        """Have the clients join, hear how many they stand for, tell the upper side."""
        super().setup()
        self.coordinator = hear_clients(self._network, self.mode, first=self.first_id)
        ids = self.coordinator.ids()
        told = [torch.tensor([number]) for number in (len(ids), ids.start)]
        if self.origins:
            told.append(torch.tensor([1]))
        self.pass_on(0, MessageCode.SetUp, told)

    def main_loop(self) -> None:
        """Receive until each client has answered to Exit, or is gone."""
        self._start_dealing()
        while not self._over():
            if self.error is not None and not self._exiting.is_set():
                self._exit(None, LEAVING)
            if self._exiting.is_set() and time.monotonic() > self._answers_by:
                self._late()
                break
            self._receive()
            self._say_alive()
        # Also to the thread: it has to read no more, after an error.
        self._given_up.set()

    def deal_queue(self) -> None:
        """Send down what comes from above."""
        for _, code, payload in self.messages():
            self.forward(code, payload, owned=True)

    def on_receive(self, sender: int, message_code: MessageCode, payload: Any) -> None:
        """Pass a message up. `sender` is its rank, or 0 for one that is from all clients."""
        if self.origins:
            ids, payload = self._origin(sender, payload)
            payload = put_ids([ids.start, len(ids)], payload)
        self.pass_on(sender, message_code, payload)

    def forward(self, message_code: MessageCode, payload: Any, *, owned: bool = False) -> None:
        """Send a message from above to those that it is for, each with its own ids in front.

        One without tensors is for all. `owned`: nobody looks at the payload
        afterwards, so that each rank's ids may be written where those from above
        are, and a large payload need not be copied. Raises IdError.
        """
        if not payload:
            for rank in self.ranks:
                self._send(rank, message_code, None)
            return
        ids, rest = take_ids(payload)
        there = [each for each in ids if each not in self._gone_ids]
        for rank, told in self.coordinator.map_id_list(there).items():
            own = self._own_ids(rank, told, payload[0])
            if owned:
                own = _in_front(own, payload[0], rest)
            # What was not taken may still be under way: its bytes stay as they are.
            owned = self._send(rank, message_code, [own, *rest]) and owned

    def shutdown(self) -> None:
        """Say that this side is over, and leave the group."""
        if not self._exiting.is_set():  # set-up has failed
            self._exit(None, LEAVING)
        self.pass_on(*END)
        super().shutdown()

    def _begin(self, *, mine: bool) -> None:
        super()._begin(mine=mine)
        self._untold: dict[int, CommError] = {}  # ranks that are gone, and why
        self._says_alive_at = 0.0
        self._gone_ids: set[int] = set()
        self._answered: set[int] = set()
        self._answers_by = 0.0
        self._exiting = threading.Event()

    # What comes from below.

    def _receive(self) -> None:
        """Wait for news from below, for LOOK at most."""
        if not self.ranks:
            self._exiting.wait(LOOK)
            return
        try:
            self._look()
        except TransferTimeout:
            self._look_at_lost()
        except (PeerLost, PackageError) as error:
            if error.peer is not None:
                self._is_gone(error.peer, error)
            self._look_at_lost()

    def _say_alive(self) -> None:
        """The upper side is told, should it wait for this one's end while much is sent down."""
        now = time.monotonic()
        if now < self._says_alive_at or (self._heard.at < now and not self._exiting.is_set()):
            return
        self._says_alive_at = now + LEAVING
        with suppress(Full, OSError, ValueError):
            self.mq_write.put(ALIVE, timeout=LOOK)

    def _look_at_lost(self) -> None:
        """Ranks that have closed are no news to a receive from anybody."""
        if self._untold:
            self._is_gone(*next(iter(self._untold.items())))  # and the others
        for rank in set(self._network.lost).intersection(self.ranks):
            try:
                self._look(rank, 0.001)
            except TransferTimeout:
                continue  # what it had sent may still be on its way
            except (PeerLost, PackageError) as error:
                self._is_gone(rank, error)

    def _is_gone(self, rank: int, error: CommError) -> None:
        """What it has sent goes up before; while that takes long, others are looked after."""
        self._untold[rank] = error
        if not self._receiving.acquire(timeout=LOOK):
            return
        try:
            while self._untold:
                self._lost(*self._untold.popitem())
        finally:
            self._receiving.release()

    def _take(self, sender: int, code: MessageCode, payload: Any) -> bool:
        if code is not MessageCode.Exit:
            if sender not in self.gone:
                self.on_receive(sender, code, payload)
            return False
        if payload:
            # A middle server below says which of its clients are gone.
            ids = [self.coordinator.id_of(sender, told) for told in decode(payload[0])]
            self._ids_gone(sender, ids)
        elif self._exiting.is_set():
            self._answered.add(sender)
        else:
            self._lost(sender, "it has said Exit")
        return True

    def _origin(self, sender: int, payload: Any) -> tuple[range, Any]:
        if sender == 0:
            return self.coordinator.ids(), payload
        return origin(self.coordinator, sender, payload)

    def _lost(self, rank: int, why: object) -> None:
        """The rank is no more: the server above is told which ids that were."""
        with self._lock:
            if rank in self.gone:
                return
            self.gone[rank] = str(why)
        if not self._exiting.is_set():
            log.warning("rank %d and its clients are gone: %s", rank, why)
            self._ids_gone(rank, self.coordinator.ids(rank))

    def _ids_gone(self, rank: int, ids: Sequence[int]) -> None:
        news = [each for each in ids if each not in self._gone_ids]
        self._gone_ids.update(news)
        if news and not self._exiting.is_set():
            self.pass_on(rank, MessageCode.Exit, [torch.tensor(news)])

    # What goes down.

    def _own_ids(self, rank: int, told: Sequence[int], before: torch.Tensor) -> torch.Tensor:
        """`told` in the dtype of the ids from above. Raises IdError."""
        own = encode(told, before.dtype)
        check_known(self._network, own, rank)
        return own

    def _send(
        self, rank: int, code: MessageCode, content: Any, timeout: float | None = None
    ) -> bool:
        """False if the rank is gone."""
        try:
            self._network.send(content, code, dst=rank, timeout=timeout)
        except PeerLost as error:
            self._lost(rank, error)
            return False
        return True

    def _exit(self, payload: Any, seconds: float) -> None:
        """Tell Exit to every client, whatever it stands for, and begin to wait for the answers."""
        with self._lock:
            if self._exiting.is_set():
                return
            self._answers_by = time.monotonic() + 366 * 86_400  # until all are told
            self._exiting.set()
        by_rank: dict[int, list[int]] = {}
        if payload:
            try:
                ids = [each for each in take_ids(payload)[0] if each not in self._gone_ids]
                by_rank = self.coordinator.map_id_list(ids)
            except IdError as error:
                log.warning("Exit from above: %s", error)
                payload = None  # it goes to everybody all the same
        late = []
        for rank in self.ranks:
            try:
                content = None
                if payload:
                    own = self._own_ids(rank, by_rank.get(rank, []), payload[0])
                    content = [own, *payload[1:]]
                self._send(rank, MessageCode.Exit, content, seconds)
            except TransferTimeout:
                late.append(rank)
            except CommError as error:
                # The network was not joined, or FedLab's client cannot be told these ids.
                self.fail(error)
                with suppress(CommError):
                    self._send(rank, MessageCode.Exit, None, LEAVING)
        self._answers_by = time.monotonic() + (0 if late else seconds)

    def _all_dealt(self) -> None:
        """Exit has come, or the upper side has ended and says so."""
        self._exit(self._last[2], self.exit_timeout)

    def _is_last(self, message: Message) -> bool:
        return message[1] is MessageCode.Exit

    def _over(self) -> bool:
        return self._exiting.is_set() and not self._missing()

    def _missing(self) -> list[int]:
        return [rank for rank in self.ranks if rank not in self._answered]

    def _late(self) -> None:
        missing = self._missing()
        ranks = ", ".join(map(str, missing))
        self.fail(
            ExitTimeout(
                f"rank {ranks} below has not answered to Exit within {self.exit_timeout:g} s",
                missing,
                self.exit_timeout,
            )
        )


def _in_front(
    own: torch.Tensor, before: torch.Tensor, rest: Sequence[torch.Tensor]
) -> torch.Tensor:
    """`own` where the ids `before` were, if that is right before `rest`: nothing is copied."""
    if not rest or not follows(rest[0], before) or own.numel() > before.numel():
        return own
    end = before.storage_offset() + before.numel()
    steps = (own.shape[1], 1) if own.dim() > 1 else (1,)
    return before.as_strided(own.shape, steps, end - own.numel()).copy_(own)
