"""Scheduler: a middle server, which is two connectors in two processes."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from multiprocessing import Process, current_process  # which is torch.multiprocessing's
from multiprocessing.connection import Pipe, wait
from typing import TYPE_CHECKING, Any

from fedtest.comm.errors import ArgumentError, ConnectorLost
from fedtest.comm.hierarchical.connector import EXIT_TIMEOUT, LEAVING, Connector
from fedtest.comm.hierarchical.lower import ClientConnector
from fedtest.comm.hierarchical.queue import MessageQueue
from fedtest.comm.hierarchical.signs import EVERY, Sign
from fedtest.comm.hierarchical.upper import ServerConnector
from fedtest.comm.hierarchical.watch import (
    OTHER_ENDED,
    interrupts_later,
    interrupts_now,
    parent_gone,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from fedtest.comm.network import DistNetwork

SILENCE_TIMEOUT = 60.0
SHORTEST = 3 * EVERY  # of it: a sign and a look may just miss each other, and a machine be busy
_KILLED = 2.0  # seconds for a process to end when it has been told so by a signal


class Scheduler(Process):
    """A middle server: a client of the server above, the server of the clients below.

    `net_upper`  its network above; its rank there is not 0
    `net_lower`  its network below, where it is rank 0
    `mode`, `first_id`, `origins`  as for ClientConnector
    `exit_timeout`  seconds that the clients' answers to Exit may take
    `silence_timeout`  seconds after which a side in which nothing has run is
                 taken for one that stands still; it is killed. At least 3; math.inf: never
    `server_connector`, `client_connector`  what makes the two sides: the
                 classes, or subclasses of them that do something else with what
                 comes

    Either `start` and `join` it, or call `run`, which raises ConnectorLost if a
    side has not ended in order; as a process it then ends with 1 and says so.
    """

    def __init__(
        self,
        net_upper: DistNetwork,
        net_lower: DistNetwork,
        *,
        mode: str = "LOCAL",
        first_id: int = 0,
        origins: bool = False,
        exit_timeout: float = EXIT_TIMEOUT,
        silence_timeout: float = SILENCE_TIMEOUT,
        server_connector: Callable[..., ServerConnector] = ServerConnector,
        client_connector: Callable[..., ClientConnector] = ClientConnector,
    ) -> None:
        super().__init__()
        if not silence_timeout >= SHORTEST:
            raise ArgumentError(
                f"silence_timeout={silence_timeout}: seconds, at least {SHORTEST:g}"
            )
        self.net_upper = net_upper
        self.net_lower = net_lower
        self.mode = mode
        self.first_id = first_id
        self.origins = origins
        self.exit_timeout = exit_timeout
        self.silence_timeout = silence_timeout
        self.server_connector = server_connector
        self.client_connector = client_connector

    def start(self) -> None:
        with interrupts_later():
            super().start()

    def run(self) -> None:
        """Start both sides and wait until they have ended. Raises ConnectorLost."""
        mine = current_process() is self
        try:
            if mine:
                interrupts_now()
            self._run(parent_gone() if mine else [])
        except ConnectorLost as error:
            if mine:
                raise SystemExit(f"{self.name}: {error}") from None
            raise
        except KeyboardInterrupt:
            if mine:
                raise SystemExit(128 + signal.SIGINT) from None
            raise

    def _run(self, parent: list[Any]) -> None:
        """`parent`: what becomes ready when nobody is there any more who wants all this."""
        up, down = MessageQueue(), MessageQueue()
        upper = self.server_connector(self.net_upper, down, up, exit_timeout=self.exit_timeout)
        lower = self.client_connector(
            self.net_lower,
            up,
            down,
            mode=self.mode,
            first_id=self.first_id,
            origins=self.origins,
            exit_timeout=self.exit_timeout,
        )
        sides: list[Connector] = [upper, lower]
        seconds = self.exit_timeout + 2 * LEAVING
        ends_by: float | None = None  # for both; the last LEAVING seconds without a lifeline
        lifeline = Pipe(duplex=False)
        reports: list[Connection] = []
        silent: list[Connector] = []
        try:
            for each in sides:
                each.lifeline = lifeline
                each.sign = Sign()
                report, each.report = Pipe(duplex=False)
                reports.append(report)
                each.start()
            for queue in (up, down):
                queue.close()
            lifeline[0].close()
            for each in sides:
                if each.report is not None:
                    each.report.close()
            ended = [each.sentinel for each in sides]
            # While both are well, there is no deadline. One that fails reports it, and then ends.
            ready: set[Any] = set()
            while not ready and not silent:
                ready = set(wait([*ended, *reports, *parent], EVERY))
                silent = [] if ready else [each for each in sides if self._is_silent(each)]
            for each in silent:  # then it is as if it had died
                each.kill()
            if not ready.intersection(parent):
                ends_by = time.monotonic() + seconds
                if wait(ended, seconds - LEAVING):
                    # When one has ended, the other has its own deadline.
                    with suppress(OSError):
                        lifeline[1].send_bytes(OTHER_ENDED)
                    _join(sides, ends_by - LEAVING)
        finally:
            lifeline[1].close()
            _join([each for each in sides if each.pid], ends_by or time.monotonic() + seconds)
            stuck = [each for each in sides if each.pid and each.is_alive()]
            for each in stuck:
                each.kill()
                each.join(_KILLED)
        above, below = (
            _what_became_of(each, report, self.silence_timeout if each in silent else None)
            for each, report in zip(sides, reports, strict=True)
        )
        if above or below:
            raise ConnectorLost(
                "; ".join(
                    f"{each.side}: {what}"
                    for each, what in zip(sides, (above, below), strict=True)
                    if what
                ),
                above,
                below,
            )

    def _is_silent(self, side: Connector) -> bool:
        return side.sign is not None and side.sign.missed() * EVERY >= self.silence_timeout


def _join(sides: list[Connector], deadline: float) -> None:
    for each in sides:
        each.join(max(0.0, deadline - time.monotonic()))


def _what_became_of(side: Connector, report: Connection, silent: float | None) -> str | None:
    """In words, if it did not end in order. `silent`: so long, and was killed for it."""
    if side.exitcode == 0:
        return None
    if silent is not None:
        then = "could not be killed" if side.exitcode is None else "was killed"
        return f"process {side.pid} has given no sign of life for {silent:g} s and {then}"
    with suppress(EOFError, OSError):
        if report.poll():
            return str(report.recv())
    if side.exitcode is not None and side.exitcode < 0:
        return f"process {side.pid} was ended by {signal.Signals(-side.exitcode).name}"
    return f"process {side.pid} ended with {side.exitcode}"
