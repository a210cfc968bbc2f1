"""What benchmarks/forwarding.py runs on a host: a client, a top, and what is between; its numbers.

All ends have fedtest.comm, so that only the middle differs: none, ours,
FedLab's. All three are there at the same time and measured in turns.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import statistics
import time
import warnings
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

import torch

from fedtest.comm import DistNetwork, MessageCode
from fedtest.comm.hierarchical import Scheduler, put_ids, tell_clients

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

MARK = "forwarding-benchmark "  # what the line with the numbers begins with
WAYS = ("direct", "fedtest", "fedlab")
SMALL = 256  # elements of float32: 1 KB
LARGE = 25_000_000  # 100 MB
CODE = MessageCode.ParameterUpdate
PATIENCE = 120  # seconds


def network(port: int, rank: int) -> DistNetwork:
    return DistNetwork(("127.0.0.1", port), 2, rank, "lo", timeout=120)


def middle(way: str, upper: int, lower: int) -> None:
    if way == "fedtest":
        Scheduler(network(upper, 1), network(lower, 0)).run()
        return
    # A peer, where it is.
    from fedlab.core.network import DistNetwork as Theirs  # noqa: PLC0415
    from fedlab.core.server.hierarchical import Scheduler as FedLabs  # noqa: PLC0415

    logging.disable(logging.CRITICAL)  # it tells of each package
    FedLabs(
        Theirs(("127.0.0.1", upper), 2, 1, "lo"), Theirs(("127.0.0.1", lower), 2, 0, "lo")
    ).run()


def top(port: int, line: Connection) -> None:
    with network(port, 0) as net:
        net.recv(1)
        line.send("ready")
        while True:
            what, count, elements = line.recv()
            began = time.perf_counter()
            if what == "stream":
                for _ in range(count):
                    net.recv(1)
                line.send((time.perf_counter() - began) / count)
            elif what == "there and back":
                back = put_ids([0], torch.rand(elements))
                for _ in range(count):
                    net.recv(1)
                    net.send(back, CODE, 1)
            else:
                net.send(put_ids([0], torch.rand(1)), MessageCode.Exit, 1)
                net.recv(1)
                return


def client(port: int, line: Connection) -> None:
    contents = {size: torch.rand(size) for size in (SMALL, LARGE)}
    with network(port, 1) as net:
        tell_clients(net, 1)
        while True:
            what, count, elements = line.recv()
            if what == "stream":
                for _ in range(count):
                    net.send(contents[elements], CODE)
            elif what == "there and back":
                times = []
                for _ in range(count):
                    began = time.perf_counter()
                    net.send(contents[elements], CODE)
                    net.recv(0)
                    times.append(time.perf_counter() - began)
                line.send(statistics.median(times))
            else:
                net.recv(0)
                net.send(None, MessageCode.Exit)
                return


class Way:
    """The processes of one way, and what they measure."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        below = port if name == "direct" else port + 1
        self.top, their_top = multiprocessing.Pipe()
        self.client, their_client = multiprocessing.Pipe()
        calls: list[tuple[Any, ...]] = [(top, port, their_top), (client, below, their_client)]
        if name != "direct":
            calls.insert(1, (middle, name, port, below))
        self.processes = [multiprocessing.Process(target=call, args=a) for call, *a in calls]
        for process in self.processes:
            process.start()
        self._heard(self.top, "joining")

    def measure(self, what: str, count: int, elements: int) -> float:
        for line in (self.top, self.client):
            line.send((what, count, elements))
        found: float = self._heard(self.top if what == "stream" else self.client, what)
        return found

    def _heard(self, line: Connection, what: str) -> Any:
        ready = wait([line, *(process.sentinel for process in self.processes)], PATIENCE)
        if line not in ready:
            why = "a process has ended" if ready else f"not done in {PATIENCE} s"
            raise RuntimeError(f"{self.name}, {what}: {why}")
        return line.recv()

    def end(self) -> float:
        """How long it takes from Exit to the end of all processes."""
        began = time.perf_counter()
        for line in (self.top, self.client):
            line.send(("exit", 0, 0))
        for process in self.processes:
            process.join()
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=23456)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    given = parser.parse_args()
    multiprocessing.set_start_method("fork")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    ways = {name: Way(name, given.port + 2 * number) for number, name in enumerate(given.ways)}
    cases = {
        # FedLab's queue holds all of them, in a host's /dev/shm of 512 MB.
        "100 MB, throughput": ("stream", 2, LARGE),
        "1 KB, throughput": ("stream", 1000, SMALL),
        "1 KB, there and back": ("there and back", 300, SMALL),
    }
    times: dict[str, dict[str, list[float]]] = {}
    for case, what in cases.items():
        times[case] = {name: [] for name in ways}
        for number in range(given.rounds + 1):
            for name, way in ways.items():
                took = way.measure(*what)
                if number:  # the first warms up
                    times[case][name].append(took)
    times["end"] = {name: [way.end()] for name, way in ways.items()}
    print(MARK + json.dumps({"times": times, "torch": torch.__version__}), flush=True)


def kill_all() -> None:
    """A middle server's sides are its children, and end with it."""
    for process in multiprocessing.active_children():
        process.kill()


if __name__ == "__main__":
    try:
        main()
    finally:  # after an error they would wait for each other
        kill_all()
