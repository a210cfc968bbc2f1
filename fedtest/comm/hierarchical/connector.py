"""Connector: one side of a middle server, a process with a network and two queues."""

from __future__ import annotations

import logging
import signal
import threading
import time
from multiprocessing import Process, current_process, get_start_method
from queue import Empty, Full
from typing import TYPE_CHECKING, Any

import torch

from fedtest.comm.codes import MessageCode
from fedtest.comm.errors import CommError, ConnectorLost, HierarchyError
from fedtest.comm.hierarchical.heard import Heard
from fedtest.comm.hierarchical.queue import MessageQueue
from fedtest.comm.hierarchical.watch import interrupts_later, interrupts_now, watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from fedtest.comm.hierarchical.signs import Sign
    from fedtest.comm.network import DistNetwork

log = logging.getLogger(__name__)

LOOK = 0.5
"""Seconds after which who waits for a message looks whether it still should."""
LEAVING = 5.0
"""Seconds for what is said to others after an error."""
_JOINING = 1.0  # seconds to end for a side that has not been set up: it has nobody to tell
EXIT_TIMEOUT = 60.0

Message = tuple[int | None, MessageCode, Any]
"""Sender's rank, message code, tensors or None; the sender None is the middle server itself."""
END: Message = (None, MessageCode.Exit, None)
"""The last message in a queue."""


class Connector(Process):
    """A side of a middle server. Base of ServerConnector and ClientConnector.

    `network`      the group of this side, not connected yet
    `write_queue`  messages for the other side: a MessageQueue, or one of
                   torch.multiprocessing
    `read_queue`   messages from the other side
    `exit_timeout` seconds that answers to Exit may take

    Started, it is a process that ends with 0, or with 1 and one line on
    standard error; called, `run` raises CommError.
    """

    side = "a side"
    other_side = "the other side"

    def __init__(
        self,
        network: DistNetwork,
        write_queue: Any,
        read_queue: Any,
        *,
        exit_timeout: float = EXIT_TIMEOUT,
    ) -> None:
        super().__init__()
        self._network = network
        self.mq_write = write_queue
        self.mq_read = read_queue
        self.exit_timeout = exit_timeout
        self.lifeline: tuple[Connection, Connection] | None = None
        """Its second end is with who started this: when that closes, this ends."""
        self.report: Connection | None = None
        """Where an error is told."""
        self.sign: Sign | None = None
        """Where it says that it is there."""
        self.error: BaseException | None = None
        """Why this side ends early: the first reason."""
        # Locks and events cannot be taken along to another process: `run` makes them.
        self._heard: Heard  # what `mq_read` is by then
        self._lock: threading.Lock
        self._receiving: threading.Lock  # held while a message from the network is dealt with
        self._dealt: threading.Event  # deal_queue has ended
        self._given_up: threading.Event  # nobody waits for it any more
        self._dealing = False  # communication has begun
        self._handed_over = False  # messages are dealt with as they come
        self._deaf = False  # the other side takes nothing more
        self._leave_by = 0.0
        self._last: Message = END  # that came from the other side

    # The stages.

    def start(self) -> None:
        with interrupts_later():
            super().start()

    def run(self) -> None:
        """Initialisation, communication, shutdown. Raises CommError."""
        mine = current_process() is self
        self._begin(mine=mine)
        try:
            try:
                self.setup()
                self.main_loop()
            except BaseException as error:  # noqa: BLE001 - it is raised below, once all is told
                self.fail(error)
            self.shutdown()
        except BaseException as error:  # noqa: BLE001
            self.fail(error)
        if self.error is None:
            return
        text = f"{type(self.error).__name__}: {self.error}"
        if self.report is not None:
            self.report.send(text)
        if mine and isinstance(self.error, CommError):
            raise SystemExit(1 if self.report is not None else f"{self.name}: {text}")
        raise self.error

    def setup(self) -> None:
        """Join the group."""
        self._network.init_network_connection()
        if isinstance(self.mq_write, MessageQueue):
            self._network.receive_in(self.mq_write.empty)

    def main_loop(self) -> None:
        """Receive until this side is over."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """Close the network."""
        self._network.close_network_connection(LEAVING if self.error else self.exit_timeout)

    # What a subclass may do otherwise, and with what.

    def on_receive(self, sender: int, message_code: MessageCode, payload: Any) -> None:
        """What is done with a message from this side's network: it is passed on.

        Called for one message at a time, in a thread of the network's.
        """
        self.pass_on(sender, message_code, payload)

    def deal_queue(self) -> None:
        """What is done with the messages from the other side, in a thread of its own."""
        raise NotImplementedError

    def messages(self) -> Iterator[Message]:
        """The messages from the other side, up to the last. Raises ConnectorLost."""
        while True:
            try:
                message: Message = self.mq_read.get(timeout=LOOK)
            except Empty:
                if self._given_up.is_set() or (self.error is not None and not self._dealing):
                    return
                continue
            except (EOFError, OSError) as error:
                raise ConnectorLost(f"{self.other_side} of the middle server is gone") from error
            if self._is_last(message):
                self._last = message
                return
            # After an error it is taken, so that nobody waits, and dropped.
            if self.error is None:
                yield message
            del message

    def pass_on(self, sender: int | None, message_code: MessageCode, payload: Any) -> None:
        """Put a message into the queue to the other side; waits while that is full."""
        deadline = time.monotonic() + self._network.timeout
        while not self._deaf:
            try:
                self.mq_write.put((sender, message_code, payload), timeout=LOOK)
            except Full:
                if self.error is not None and time.monotonic() > self._leave_by:
                    return
                if time.monotonic() > deadline:
                    raise ConnectorLost(
                        f"{self.other_side} of the middle server has taken nothing "
                        f"for {self._network.timeout:g} s"
                    ) from None
            except (OSError, ValueError):
                # Why it has ended is in the other queue.
                self._deaf = True
            else:
                return

    def fail(self, error: BaseException) -> None:
        """This side ends early, for this reason if it is the first."""
        with self._lock:
            if self.error is None:
                self.error = error
                self._leave_by = time.monotonic() + LEAVING
                log.warning("%s of the middle server: %s", self.side, error)

    # Within.

    def _begin(self, *, mine: bool) -> None:
        self._lock = threading.Lock()
        self._receiving = threading.Lock()
        self._dealt = threading.Event()
        self._given_up = threading.Event()
        for queue, only in ((self.mq_write, "only_put"), (self.mq_read, "only_get")):
            if mine and isinstance(queue, MessageQueue):
                getattr(queue, only)()
        self.mq_read = self._heard = Heard(self.mq_read)
        if not mine:
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it is told, and ends it
        interrupts_now()
        if get_start_method(allow_none=True) in (None, "fork"):
            torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
        lifeline = None
        if self.lifeline is not None:
            lifeline, other_end = self.lifeline
            other_end.close()
        say = _nothing if self.sign is None else self.sign.say
        watch(lifeline, self._parent_gone, self._other_ended, say)

    def _parent_gone(self) -> float:
        self.fail(ConnectorLost("what had started the middle server has ended, or has ended it"))
        return self.exit_timeout + 2 * LEAVING if self._dealing else _JOINING

    def _other_ended(self) -> float | None:
        """While this side communicates, the queue says so, and better."""
        if self._dealing:
            return None
        self.fail(ConnectorLost(f"{self.other_side} of the middle server is gone"))
        return _JOINING

    def _take(self, sender: int, code: MessageCode, payload: Any) -> bool:
        """Deal with a message from the network; true if the main thread has to look."""
        raise NotImplementedError

    def _taken(self, sender: int, code: MessageCode, payload: Any) -> bool:
        with self._receiving:
            try:
                return self._take(sender, code, payload)
            except BaseException as error:  # noqa: BLE001 - the main thread raises it
                self.fail(error)
                return True

    def _look(self, src: int | None = None, timeout: float = LOOK) -> None:
        """Wait until there is something that the main thread has to know. Raises PeerError.

        Messages are dealt with in the threads that receive them, but for those
        that had come before.
        """
        if not self._handed_over:
            self._handed_over = self._network.hand_over(self._taken)
        before = not self._handed_over
        message = self._network.recv(src, count=before, timeout=timeout)
        if before:
            self._taken(*message)

    def _start_dealing(self) -> None:
        self._dealing = True
        threading.Thread(target=self._deal, name="fedtest.comm queue", daemon=True).start()

    def _deal(self) -> None:
        try:
            self.deal_queue()
            self._all_dealt()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.fail(error)
        finally:
            self._dealt.set()

    def _is_last(self, message: Message) -> bool:
        raise NotImplementedError

    def _all_dealt(self) -> None:
        """Everything that came from the other side has been dealt with."""
        raise NotImplementedError


def _nothing() -> None:
    """Nobody looks whether it is there."""


def lost_early(side: str) -> HierarchyError:
    return ConnectorLost(f"{side} of the middle server has ended before Exit came from above")
