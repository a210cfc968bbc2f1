"""Whether a TCP connection to an address and port comes to be, from here."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTED = "connected"


def reach_all(targets: Sequence[tuple[str, int, float]]) -> list[tuple[str, int]]:
    """For each address, port and seconds to wait, what `reach` says; all at once."""
    if not targets:
        return []
    with ThreadPoolExecutor(min(len(targets), 64)) as pool:
        return list(pool.map(lambda target: reach(*target), targets))


def reach(address: str, port: int, seconds: float) -> tuple[str, int]:
    """`connected`, or what the kernel says: `Connection refused`, `timed out`; and our own port.

    The port, because the host's kernel remembers the connection for a minute
    after it was closed, and it must not be taken for one of the host's processes.
    """
    try:
        with socket.create_connection((address, port), timeout=seconds) as connection:
            return CONNECTED, connection.getsockname()[1]
    except TimeoutError:
        return "timed out", 0
    except OSError as error:
        return (os.strerror(error.errno) if error.errno else str(error)), 0
