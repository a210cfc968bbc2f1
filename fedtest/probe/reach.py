"""Whether a TCP connection to an address and port comes to be, from here."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTED = "connected"


def reach_all(targets: Sequence[tuple[str, int, float]]) -> list[str]:
    """For each address, port and seconds to wait: `connected`, or why not; all at once."""
    if not targets:
        return []
    with ThreadPoolExecutor(min(len(targets), 64)) as pool:
        return list(pool.map(lambda target: reach(*target), targets))


def reach(address: str, port: int, seconds: float) -> str:
    """`connected`, or what the kernel says: `Connection refused`, `timed out`."""
    try:
        socket.create_connection((address, port), timeout=seconds).close()
    except TimeoutError:
        return "timed out"
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)
    return CONNECTED
