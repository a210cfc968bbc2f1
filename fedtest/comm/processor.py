"""PackageProcessor: packages over the group that this process is in."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from torch import distributed as dist

from fedtest.comm import outgoing, wire
from fedtest.comm.endpoint import Endpoint
from fedtest.comm.errors import NotConnected

if TYPE_CHECKING:
    import torch

    from fedtest.comm.codes import MessageCode
    from fedtest.comm.package import Package

TIMEOUT = 1800.0
"""Seconds that a call waits for another rank unless it is told otherwise: torch's own."""

_lock = threading.Lock()
_endpoint: Endpoint | None = None


class PackageProcessor:
    """Sends and receives packages over the open DistNetwork of this process.

    Without one, over the default process group of torch.distributed; messages
    that are sent there by other means must then have another tag than 0, or be
    received before a call of `recv_package` is waiting for any rank. When the
    process ends, it waits up to five seconds for packages to be taken, and the
    group's connections close.
    """

    @staticmethod
    def send_package(package: Package, dst: int, timeout: float = TIMEOUT) -> None:
        """Send `package` to rank `dst`; its header's ranks are set.

        Everything is checked before the first byte goes out. Returns when the
        package is taken, or at once if it has at most 1 MiB. Raises
        PackageError, PeerError, ArgumentError.
        """
        endpoint = current()
        ready = outgoing.of_package(package, endpoint.limit)
        package.header[wire.SENDER] = endpoint.rank
        package.header[wire.RECEIVER] = dst
        endpoint.send(ready, [dst], timeout, [])

    @staticmethod
    def recv_package(
        src: int | None = None, timeout: float = TIMEOUT
    ) -> tuple[int, MessageCode, list[torch.Tensor] | None]:
        """Sender's rank, message code and tensors of the next package from `src`, or anybody.

        The tensors are views of one memory; None if there are none. Raises
        PackageError, PeerError, ArgumentError.
        """
        received = current().receive(src, timeout)
        return received.sender, received.code, received.content


def current() -> Endpoint:
    """The endpoint in use. Raises NotConnected if this process is in no group."""
    global _endpoint  # noqa: PLW0603 - there is one default group per process
    with _lock:
        group = dist.group.WORLD if dist.is_initialized() else None
        if _endpoint is not None and not _endpoint.closed and _endpoint.group is group:
            _endpoint.check_process()
            return _endpoint
        if group is None:
            raise NotConnected("not connected: call init_network_connection() first")
        stale = _endpoint
        new = _endpoint = Endpoint(group, limit=wire.MAX_PACKAGE_BYTES, ahead=False)
    _leave(stale)
    return new


def use(endpoint: Endpoint) -> None:
    """Make `endpoint` the current one, until it is closed."""
    global _endpoint
    with _lock:
        stale, _endpoint = _endpoint, endpoint
    _leave(stale)


def _leave(stale: Endpoint | None) -> None:
    """What was made here for a group that is no more is closed; a DistNetwork closes its own."""
    if stale is not None and not stale.ahead and not stale.forked:
        stale.leave()


def forget(endpoint: Endpoint) -> None:
    """It is closed: what it holds, the port of rank 0's store included, is let go."""
    global _endpoint  # noqa: PLW0603
    with _lock:
        if _endpoint is endpoint:
            _endpoint = None
