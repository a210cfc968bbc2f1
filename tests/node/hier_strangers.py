"""A top or a client without this library: plain torch, and FedLab's packages; as in hier_cases.py.

Like FedLab, it knows ids only as numbers of the dtype of what follows them.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import torch
from comm_ranks import Here, failure
from hier_cases import CODES, MIDDLE, TOP, client, network, scheduler, serve
from torch import distributed as dist

from fedtest.comm import MessageCode, Package, PackageProcessor
from fedtest.comm.hierarchical import hear_clients, send_to

CLIENTS = 3000


def join(port: int, rank: int) -> None:
    """Become one of two, the other of which will find nothing of this library's here."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    where = f"tcp://127.0.0.1:{port}"
    limit = timedelta(seconds=120)
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2, timeout=limit)


def above(here: Here, lower: int, told: int, dtype: torch.dtype) -> Any:
    """The top sends one id as a number, whatever becomes of it in that dtype."""
    if here.rank == TOP:
        join(here.port, 0)
        _, code, content = PackageProcessor.recv_package(1)
        ids = torch.tensor([told]).to(dtype)
        package = Package(CODES[0], [ids, torch.ones(3).to(dtype)])
        PackageProcessor.send_package(package, 1)
        assert failure(lambda: PackageProcessor.recv_package(1))["kind"] == "PeerLost"
        return code.name, None if content is None else content[0].tolist()
    if here.rank == MIDDLE:
        return failure(scheduler(here, lower, 1).run)
    with client(here, lower, 1) as net:
        return serve(net, CLIENTS)


def below(here: Here, lower: int, told: int, dtype: torch.dtype) -> Any:
    """A client that would read another id than the one it is sent."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            total = hear_clients(net).total
            send_to(net, [told], torch.ones(3).to(dtype), CODES[0], 1)
            _, code, content = net.recv(1)
            return total, code.name, len(content[0]) if content else 0
    if here.rank == MIDDLE:
        return failure(scheduler(here, lower, 1).run)
    join(lower, 1)
    setup = Package(MessageCode.SetUp, [torch.tensor([CLIENTS], dtype=torch.int32)])
    PackageProcessor.send_package(setup, 0)
    _, code, content = PackageProcessor.recv_package(0)
    return code.name, content
