"""One rank that shows what packages do between hosts: `python -m fedtest.comm.trial`.

delivery   rank 0 sends everything to all, then all send theirs to rank 0; what
           arrives is hashed where it arrives and compared with where it left
coercion   what each mix of dtypes becomes between two ranks, and what is said
join       tries to join, and reports which error it was and after how long

Results are reported as values for a testbed's checks.
"""

# ruff: noqa: T201 - what it prints is its purpose
from __future__ import annotations

import argparse
import hashlib
import math
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING

import torch

from fedtest import values
from fedtest.comm import (
    DTYPES,
    CoercionError,
    CoercionWarning,
    CommError,
    DistNetwork,
    JoinError,
    MessageCode,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

SHAPES = ((), (1,), (0,), (7,), (3, 4), (2, 3, 4), (2, 1, 3, 2), (1, 2, 3, 2, 2), (2, 0, 3))
SIZES = (1, 1000, 262_144, 262_145, 5_000_000)  # elements of float32; 1 MiB is a border


def contents(rank: int) -> list[list[torch.Tensor] | None]:
    """What `rank` sends: every dtype and shape, alone and together, and large ones."""

    def tensor(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return ((torch.arange(math.prod(shape)) + rank) % 101 - 50).to(dtype).view(shape)

    found: list[list[torch.Tensor] | None] = [None]
    for dtype in DTYPES:
        found += [[tensor(shape, dtype)] for shape in SHAPES]
        found.append([tensor(shape, dtype) for shape in reversed(SHAPES)])
    found += [[tensor((size,), torch.float32)] for size in SIZES]
    found.append([tensor((number % 9,), torch.int64) for number in range(1000)])
    return found


def add(sha: hashlib._Hash, code: MessageCode, tensors: Sequence[torch.Tensor] | None) -> None:
    sha.update(f"{code.value} {tensors is None}".encode())
    for tensor in tensors or ():
        sha.update(f"{tensor.dtype} {list(tensor.shape)}".encode())
        sha.update(tensor.contiguous().numpy().tobytes())


def delivery(network: DistNetwork) -> int:
    """Rank 0 to all, then all to rank 0; each tells the other what has arrived."""
    sha = hashlib.sha256()
    sent = contents(network.rank)
    if network.rank == 0:
        for number, content in enumerate(sent):
            network.broadcast_send(content, _code(number))
            add(sha, _code(number), content)
        arrived = {rank: hashlib.sha256() for rank in range(1, network.world_size)}
        same = True
        for _ in range((len(sent) + 1) * len(arrived)):
            sender, code, tensors = network.recv()
            if code is MessageCode.Exit:  # the last of each
                same &= tensors is not None and bytes(tensors[0].tolist()) == sha.digest()
                digest = torch.tensor(list(arrived[sender].digest()), dtype=torch.int16)
                network.send(digest, MessageCode.Exit, dst=sender)
            else:
                add(arrived[sender], code, tensors)
    else:
        for _ in range(len(contents(0))):
            _, code, tensors = network.recv(src=0)
            add(sha, code, tensors)
        own = hashlib.sha256()
        for number, content in enumerate(sent):
            network.send(content, _code(number))
            add(own, _code(number), content)
        network.send(torch.tensor(list(sha.digest()), dtype=torch.int16), MessageCode.Exit)
        _, _, tensors = network.recv(src=0)
        same = tensors is not None and bytes(tensors[0].tolist()) == own.digest()
    values.report("same", int(same))
    values.report("sent_bytes", network.send_volume_intotal)
    values.report("received_bytes", network.recv_volume_intotal)
    return 0 if same else 1


def _code(number: int) -> MessageCode:
    codes = [code for code in MessageCode if code is not MessageCode.Exit]
    return codes[number % len(codes)]


def coercion(network: DistNetwork) -> int:
    """Rank 0 sends 1.75 or 300, as the dtype has it, after a tensor of each other dtype."""
    warned = refused = arrived = 0
    for first in DTYPES:
        for then in DTYPES:
            value = torch.tensor([1.75 if then.is_floating_point else 300]).to(then)
            content = [torch.zeros(1, dtype=first), value]
            if network.rank == 1:
                _, _, tensors = network.recv(src=0)
                what = [(str(t.dtype).removeprefix("torch."), t.tolist()) for t in tensors or ()]
                print(f"arrived {what}")
                due = [tensor.to(first) for tensor in content]
                arrived += what == [(str(first).removeprefix("torch."), t.tolist()) for t in due]
                continue
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                network.send(content, dst=1)
            for each in told:
                warned += issubclass(each.category, CoercionWarning)
                print(f"warned: {each.message}")
            network.strict = True
            try:
                # What strict lets through is lossless; it goes nowhere that it is not expected.
                if told:
                    network.send(content, dst=1)
            except CoercionError as error:
                refused += 1
                print(f"refused: {error}")
            network.strict = False
    values.report("warned", warned)
    values.report("refused", refused)
    values.report("arrived", arrived)
    return 0


def join(network: DistNetwork) -> int:
    began = time.monotonic()
    try:
        network.init_network_connection()
    except JoinError as error:
        print(error)
        values.report("error", type(error).__name__)
        values.report("seconds", round(time.monotonic() - began, 3))
        return 0
    values.report("error", "none")
    values.report("interface", network.interface)
    network.close_network_connection()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fedtest.comm.trial",
        description="Show what packages do between hosts, and what is said when ranks cannot join.",
    )
    parser.add_argument("what", choices=("delivery", "coercion", "join"))
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--ethernet")
    parser.add_argument("--environ", help="set GLOO_SOCKET_IFNAME in os.environ to this")
    parser.add_argument("--timeout", type=float, default=60.0)
    given = parser.parse_args(arguments)
    if given.environ:
        os.environ["GLOO_SOCKET_IFNAME"] = given.environ
    try:
        network = DistNetwork(
            (given.host, given.port),
            given.world_size,
            given.rank,
            given.ethernet,
            timeout=given.timeout,
        )
        if given.what == "join":
            return join(network)
        with network:
            values.report("interface", network.interface)
            return delivery(network) if given.what == "delivery" else coercion(network)
    except CommError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
