"""Where ranks that torchrun has started meet.

It gives them MASTER_ADDR and MASTER_PORT, and keeps a store of its own there. So
rank 0 takes another port that is free, and tells the others in that store.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

from torch import distributed as dist

from fedtest.comm.errors import one_line
from fedtest.comm.rendezvous import WITHOUT_LIBUV
from fedtest.ring.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping


def meeting(
    host: str, port: int, rank: int, seconds: float, environment: Mapping[str, str] = os.environ
) -> tuple[str, int]:
    """Host and port to meet at: those given, unless torchrun's own store is there."""
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or not (
        environment.get("MASTER_ADDR") == host and environment.get("MASTER_PORT") == str(port)
    ):
        return host, port
    # After a restart of all ranks the port is another one.
    key = f"fedtest.ring/port/{environment.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    try:
        store = dist.TCPStore(
            host,
            port,
            is_master=False,
            timeout=timedelta(seconds=seconds),
            wait_for_workers=False,
            **WITHOUT_LIBUV,
        )
        if rank == 0:
            with socket.create_server(("", 0)) as any_port:
                store.set(key, str(any_port.getsockname()[1]))
        return host, int(store.get(key))
    except (RuntimeError, ValueError, OSError) as error:
        raise StartError(f"torchrun's store at {host}:{port}: {one_line(error)}") from error
