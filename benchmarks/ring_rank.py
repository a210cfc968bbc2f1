"""The ranks of ring.py: measures, and prints a line of numbers.

python benchmarks/ring_rank.py loopback --worlds 2 4 8 --rounds 5
python benchmarks/ring_rank.py train --worlds 1 2 4 --rounds 5
python benchmarks/ring_rank.py link --host H --port P --rank R --world-size N --interface IF
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

from fedtest.ring import exchanges, model
from fedtest.ring.gradients import Gradients, Overlap
from fedtest.ring.group import Group, Place, joined

MARK = "ring-benchmark "
SIZES = {"1 KB": (256, 50), "1 MB": (1 << 18, 10), "100 MB": (25_000_000, 1)}  # float32, repeats
EXCHANGES = ("gloo", "chunked", "two-ring", "tutorial")
WAYS = ("two-ring", "chunked", "chunked, overlapped", "gloo", "DDP")
BATCH, STEPS = 32, 40
PATIENCE = 600  # seconds, for all rounds of a world size
ON_LINKS = 2_500_000  # elements: 10 MB


class Tutorial:
    """The ring as PyTorch's distributed tutorial describes it.

    N-1 times everything that came last is sent on to the right, while what
    comes from the left is added: (N-1) B bytes from every rank.
    """

    def __init__(self, group: Group) -> None:
        self.group = group

    def total(self, flat: Any, _: str) -> None:
        rank, size = self.group.rank, self.group.size
        sending, coming = flat.clone(), flat.clone()
        for number in range(size - 1):
            there, here = (sending, coming) if number % 2 == 0 else (coming, sending)
            work = dist.isend(there, (rank + 1) % size)
            dist.recv(here, (rank - 1) % size)
            flat += here
            work.wait()


def made(name: str, group: Group) -> Any:
    return Tutorial(group) if name == "tutorial" else exchanges.make(name, group)


def forked(run: Any, size: int, *arguments: Any) -> Any:
    """What rank 0 of `size` forked ranks puts into the queue."""
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    with socket.create_server(("127.0.0.1", 0)) as any_port:
        port = any_port.getsockname()[1]
    ranks = [
        context.Process(target=_rank, args=((rank, size, port), found, run, arguments))
        for rank in range(size)
    ]
    for rank in ranks:
        rank.start()
    result = found.get(timeout=PATIENCE)
    for rank in ranks:
        rank.join()
    return result


def _rank(here: tuple[int, int, int], found: Any, run: Any, arguments: Any) -> None:
    rank, size, port = here
    torch.set_num_threads(1)
    with joined(Place("127.0.0.1", port, rank, size, "lo", 120.0, 120.0)) as (group, _):
        result = run(group, *arguments)
    if rank == 0:
        found.put(result)


def all_reduces(group: Group, rounds: int) -> dict[str, Any]:
    """Times of each size by each exchange, in turns; and memory beyond the values."""
    times: dict[str, dict[str, list[float]]] = {}
    memory: dict[str, float] = {}
    by = {name: made(name, group) for name in EXCHANGES}
    for size, (elements, repeat) in SIZES.items():
        flat = torch.ones(elements)
        times[size] = {name: [] for name in by}
        for number in range(rounds + 1):
            for name, exchange in by.items():
                flat.fill_(1)
                before = peak(reset=True)
                dist.barrier()
                began = time.perf_counter()
                for _ in range(repeat):
                    exchange.total(flat, "benchmark")
                dist.barrier()
                seconds = (time.perf_counter() - began) / repeat
                if number:  # the first warms up
                    times[size][name].append(seconds)
                elif size == "100 MB":
                    memory[name] = (peak() - before) / (4 * elements)
    # Rank 0 of the two rings needs none; what counts is the rank that needs most.
    most = torch.tensor([memory[name] for name in by], dtype=torch.float64)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return {"times": times, "memory": dict(zip(by, most.tolist(), strict=True))}


def peak(*, reset: bool = False) -> int:
    """The largest resident memory since the last reset, in bytes."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def trainings(group: Group, rounds: int) -> dict[str, list[float]]:
    """Samples per second of all ranks together, by each way, in turns."""
    images = torch.randn(BATCH, 1, 28, 28)
    digits = torch.arange(BATCH) % 10
    ways = {name: _way(name, group, images, digits) for name in WAYS}
    speeds: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(rounds + 1):
        for name, step in ways.items():
            dist.barrier()
            began = time.perf_counter()
            for _ in range(STEPS):
                step()
            dist.barrier()
            if number:
                seconds = time.perf_counter() - began
                speeds[name].append(STEPS * BATCH * group.size / seconds)
    return speeds


def _way(name: str, group: Group, images: Any, digits: Any) -> Any:
    network = model.build(1)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9, nesterov=True)
    loss_of = torch.nn.functional.cross_entropy
    if name == "DDP":
        parallel = torch.nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)

        def step() -> None:
            optimizer.zero_grad()
            loss_of(parallel(images), digits).backward()
            optimizer.step()

        return step
    gradients = Gradients(network)
    exchange = exchanges.make(name.partition(",")[0], group)
    # For as long as the process lives.
    overlap = Overlap(gradients, exchange) if "overlapped" in name else None

    def ours() -> None:
        gradients.clear()
        if overlap is not None:
            overlap.begin("benchmark")
        loss_of(network(images), digits).backward()
        if overlap is not None:
            overlap.end()
        else:
            gradients.average(exchange, "benchmark")
        optimizer.step()

    return ours


def on_links(group: Group, address: str, rounds: int) -> dict[str, Any]:
    """What one TCP stream gets from rank 0 to rank 1, and the times of the exchanges.

    Beside them: streams from each rank to the next, all at once, of as many bytes as
    the best ring sends.
    """
    goodput: list[float] = []
    around: list[float] = []
    times: dict[str, list[float]] = {"chunked": [], "two-ring": [], "gloo": []}
    by = {name: made(name, group) for name in times}
    flat = torch.ones(ON_LINKS)
    for number in range(rounds + 1):
        stream = _stream(group, address)
        at_once = _around(group, address, 2 * (group.size - 1) * 4 * ON_LINKS // group.size)
        if number:
            goodput.append(stream)
            around.append(at_once)
        for name, exchange in by.items():
            flat.fill_(1)
            dist.barrier()
            began = time.perf_counter()
            exchange.total(flat, "benchmark")
            dist.barrier()
            if number:
                times[name].append(time.perf_counter() - began)
    return {
        "goodput": goodput,
        "times": {**times, "streams around": around},
        "bytes": 4 * ON_LINKS,
        "ranks": group.size,
    }


def _around(group: Group, address: str, total: int) -> float:
    """Seconds until each rank has sent `total` bytes to the next by a plain TCP stream."""
    places: list[Any] = [None] * group.size
    with socket.create_server((address, 0)) as server:
        dist.all_gather_object(places, server.getsockname()[:2])
        following = tuple(places[(group.rank + 1) % group.size])
        out = socket.create_connection(following, source_address=(address, 0))
        link, _ = server.accept()
    with out, link:
        dist.barrier()
        began = time.perf_counter()
        sender = threading.Thread(target=out.sendall, args=(b"\0" * total,))
        sender.start()
        left, memory = total, bytearray(1 << 20)
        while left:
            left -= link.recv_into(memory)
        sender.join()
        dist.barrier()
        return time.perf_counter() - began


def _stream(group: Group, address: str) -> float:
    """Bytes per second of one stream to rank 1, as rank 1 receives it."""
    places: list[Any] = [None] * group.size
    server = socket.create_server((address, 0)) if group.rank == 1 else None
    dist.all_gather_object(places, server.getsockname()[:2] if server else None)
    speed = torch.zeros(1, dtype=torch.float64)
    total = 4 * ON_LINKS
    if group.rank == 0:
        with socket.create_connection(tuple(places[1]), source_address=(address, 0)) as link:
            link.sendall(b"\0" * total)
            link.recv(1)
    elif server is not None:
        link, _ = server.accept()
        with server, link:
            left, memory = total, bytearray(1 << 20)
            began = 0.0
            while left:
                left -= link.recv_into(memory)
                began = began or time.perf_counter()
            speed[0] = total / (time.perf_counter() - began)
            link.sendall(b"!")
    dist.all_reduce(speed)
    return float(speed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("loopback", "train", "link"))
    parser.add_argument("--worlds", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--world-size", type=int)
    parser.add_argument("--interface")
    parser.add_argument("--address")
    given = parser.parse_args()
    if given.what == "link":
        torch.set_num_threads(1)
        place = Place(
            given.host, given.port, given.rank, given.world_size, given.interface, 120.0, 300.0
        )
        with joined(place) as (group, _):
            result = on_links(group, given.address, given.rounds)
        if given.rank:
            return
    else:
        run = all_reduces if given.what == "loopback" else trainings
        result = {str(size): forked(run, size, given.rounds) for size in given.worlds}
    print(MARK + json.dumps({"torch": torch.__version__, "found": result}), flush=True)


if __name__ == "__main__":
    main()
