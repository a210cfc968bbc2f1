"""The ranks of test_ring_exchange.py: argv is world size and port; prints JSON, a list by rank.

Each rank is a process that goes through all cases, forked from one that has
imported torch, as that is what costs.
"""

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from torch import distributed as dist

from fedtest.ring.exchange import TwoRing
from fedtest.ring.group import joined
from fedtest.ring.options import Options

SIZES = (0, 1, 2, 7, 1013, 100_003)
DTYPES = (torch.float32, torch.float64)


def values(rank: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * rank + size)
    return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)


def play(rank: int, world_size: int, port: int) -> dict[str, object]:
    options = Options(
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=world_size,
        gloo_socket_ifname="lo",
        epoch=1,
        batch_size=1,
        lr=1.0,
        seed=1,
        data=Path(),
        timeout=60.0,
    )
    torch.set_num_threads(1)
    moves: list[str] = []
    send, receive = dist.send, dist.recv

    def recording_send(tensor: torch.Tensor, to: int) -> None:
        moves.append(f"send {to}")
        send(tensor, to)

    def recording_receive(tensor: torch.Tensor, source: int) -> None:
        receive(tensor, source)
        moves.append(f"recv {source}")

    dist.send, dist.recv = recording_send, recording_receive
    with joined(options):
        exchange = TwoRing(rank, world_size)
        averages = {}
        for dtype in DTYPES:
            for size in SIZES:
                flat = values(rank, size, dtype)
                exchange.average(flat, f"size {size}")
                averages[f"{dtype} {size}"] = flat.numpy().tobytes().hex()
        counts = torch.tensor([rank, 2**40 + rank])
        moves.clear()
        exchange.total(counts, "counts")
    return {"averages": averages, "counts": counts.tolist(), "moves": moves}


def main(world_size: int, port: int) -> None:
    # Each rank is busy until all have joined, so that none is played twice by one process.
    with ProcessPoolExecutor(world_size, multiprocessing.get_context("fork")) as ranks:
        played = [ranks.submit(play, rank, world_size, port) for rank in range(world_size)]
        json.dump([one.result() for one in played], sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
