"""ServerConnector: the side of a middle server that is a client of the server above."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import Any

import torch

from fedtest.comm.codes import MessageCode
from fedtest.comm.errors import CommError, ConnectorLost, PeerLost, TransferTimeout
from fedtest.comm.hierarchical.connector import LEAVING, LOOK, Connector, Message, lost_early
from fedtest.comm.hierarchical.ids import decode
from fedtest.comm.hierarchical.setup import tell_clients

log = logging.getLogger(__name__)

_SERVER = 0


class ServerConnector(Connector):
    """Connects with the server above, as any client of its does.

    It tells for how many clients the middle server stands, passes what comes
    down, and sends up what comes from below.
    """

    side = "the upper side"
    other_side = "the lower side"

    def setup(self) -> None:
        """Join the group above, and tell how many clients there are below."""
        super().setup()
        message = next(self.messages(), None)
        if message is None:
            raise lost_early(self.other_side)
        _, _, payload = message
        self._total = int(payload[0])
        self._first = int(payload[1]) if len(payload) > 1 else 0
        tell_clients(self._network, self._total, tagged=len(payload) > 2)

    def main_loop(self) -> None:
        """Receive until Exit comes, and then until everything from below has gone up."""
        self._start_dealing()
        try:
            while self.error is None and not self._exiting.is_set():
                with suppress(TransferTimeout):
                    self._look(_SERVER)
        except PeerLost as error:
            # FedLab's server says nothing to a rank that stands for nobody.
            if self._total or error.closed is not None:
                raise
            self._taken(_SERVER, MessageCode.Exit, None)
        # The lower side ends, and says so. It has deadlines of its own, if it does not stand still.
        began = time.monotonic()
        limit = self.exit_timeout + 2 * LEAVING
        while self.error is None and not self._dealt.wait(LOOK):
            if time.monotonic() - max(began, self._heard.at) > limit:
                self.fail(
                    ConnectorLost(
                        f"{self.other_side} of the middle server has said nothing "
                        f"for {limit:g} s after Exit"
                    )
                )

    def deal_queue(self) -> None:
        """Send up what comes from below."""
        for sender, code, payload in self.messages():
            self.forward(sender, code, payload)

    def forward(self, sender: int | None, message_code: MessageCode, payload: Any) -> None:
        """Send one message up, as it is.

        FedLab's server would end at an Exit, which tells that clients are gone.
        """
        if message_code is MessageCode.Exit and _SERVER not in self._network.ours:
            log.warning("rank %s below and its clients are gone", sender)
            return
        self._network.send(payload, message_code, dst=_SERVER)

    def shutdown(self) -> None:
        """Tell both directions, after an error, and leave the group."""
        if self.error is not None:
            with suppress(CommError):
                self.pass_on(None, MessageCode.Exit, None)
            with suppress(CommError):
                if _SERVER in self._network.ours and _SERVER not in self._network.lost:
                    ids = torch.arange(self._first, self._first + self._total)
                    self._network.send(ids, MessageCode.Exit, dst=_SERVER, timeout=LEAVING)
        self._given_up.set()
        super().shutdown()

    def _take(self, sender: int, code: MessageCode, payload: Any) -> bool:
        if payload and _SERVER not in self._network.ours:
            # Its ids may have been cut by the payload's dtype.
            decode(payload[0], most=max(0, self._first + self._total - 1))
        if code is MessageCode.Exit:
            self._exiting.set()
        self.on_receive(sender, code, payload)
        return code is MessageCode.Exit

    def _begin(self, *, mine: bool) -> None:
        super()._begin(mine=mine)
        self._total = 0
        self._first = 0
        self._exiting = threading.Event()

    def _is_last(self, message: Message) -> bool:
        return message[0] is None and message[1] is MessageCode.Exit

    def _all_dealt(self) -> None:
        """Everything from below has gone up: Exit is answered."""
        if self.error is not None:
            return
        if not self._exiting.is_set():
            raise lost_early(self.other_side)
        network = self._network
        # FedLab's server waits for its last rank alone.
        if _SERVER in network.ours or network.rank == network.world_size - 1:
            with suppress(PeerLost):
                network.send(None, MessageCode.Exit, dst=_SERVER)
