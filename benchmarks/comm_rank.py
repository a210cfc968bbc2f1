"""One of two ranks that benchmarks/comm.py starts, on hosts with FedLab; prints its numbers."""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed as dist

from fedtest.comm import DistNetwork, MessageCode, outgoing, wire
from fedtest.comm.endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "comm-benchmark "  # what the line with the numbers begins with
THREE = ("fedtest", "bare", "fedlab")  # what most cases are among
TOTAL = 25_000_000  # elements of float32: 100 MB
SLOW_ROUNDS = 1  # of FedLab with lists of tensors: each takes it seconds


def sizes(count: int, total: int) -> list[int]:
    """`count` sizes that add up to `total`, uneven as a network's layers are."""
    weights = [1 + (number * 7919) % 97 for number in range(count)]
    found = [total * weight // sum(weights) for weight in weights]
    found[-1] += total - sum(found)
    return found


class Fedtest:
    """Ours, over the default group."""

    def __init__(self, host: str, port: int, rank: int) -> None:
        self.network = DistNetwork((host, port), 2, rank, timeout=300)
        self.network.init_network_connection()
        self.other = 1 - rank

    def send(self, tensors: Any) -> None:
        self.network.send(tensors, MessageCode.ParameterUpdate, dst=self.other)

    def recv(self, _: Any) -> Any:
        return self.network.recv(src=self.other)[2]


class Unbeating:
    """Ours without a heartbeat, over another group."""

    def __init__(self, rank: int, group: Any) -> None:
        self.other = 1 - rank
        self.endpoint = Endpoint(
            group, limit=wire.MAX_PACKAGE_BYTES, ahead=True, short=[self.other]
        )

    def send(self, tensors: Any) -> None:
        memory, limit = self.endpoint.memory, self.endpoint.limit
        ready = outgoing.prepare(tensors, 2, strict=False, limit=limit, memory=memory)
        self.endpoint.send(ready, [self.other], 300, [])

    def recv(self, _: Any) -> Any:
        return self.endpoint.receive(self.other, 300).content


class FedLab:
    """Theirs, with its own header, slices and content, over a second group."""

    def __init__(self, rank: int, group: Any) -> None:
        from fedlab.core.communicator import processor  # noqa: PLC0415 - a peer, where it is

        class On:
            """torch.distributed, on the second group."""

            @staticmethod
            def send(tensor: torch.Tensor, dst: int) -> None:
                dist.send(tensor, dst, group=group)

            @staticmethod
            def recv(tensor: torch.Tensor, src: int | None = None) -> int:
                return dist.recv(tensor, src, group=group)

        processor.dist = On
        self.package, self.processor = processor.Package, processor.PackageProcessor
        self.other = 1 - rank

    def send(self, tensors: Any) -> None:
        self.processor.send_package(self.package(2, tensors), dst=self.other)

    def recv(self, _: Any) -> Any:
        return self.processor.recv_package(src=self.other)[2]


class Bare:
    """The limit: the same bytes in as many messages."""

    def __init__(self, rank: int, group: Any) -> None:
        self.group = group
        self.other = 1 - rank
        self.ready: tuple[Any, list[torch.Tensor]] = (self, [])  # of one content

    def parts(self, tensors: Any) -> list[torch.Tensor]:
        """The messages, made beforehand: what making them costs is not bare."""
        if self.ready[0] is not tensors:
            listed = [tensors] if isinstance(tensors, torch.Tensor) else tensors or []
            slices = [n for t in listed for n in wire.slices_of(t.shape, t.numel())]
            messages = [torch.zeros(5, dtype=torch.int32)]
            if listed:
                messages += [wire.int32(slices), torch.cat([t.view(-1) for t in listed])]
            self.ready = tensors, messages
        return self.ready[1]

    def send(self, tensors: Any) -> None:
        for part in self.parts(tensors):
            dist.send(part, self.other, group=self.group)

    def recv(self, tensors: Any) -> Any:
        got = [self.memory(part) for part in self.parts(tensors)]
        for part in got:
            dist.recv(part, self.other, group=self.group)
        return got

    def memory(self, part: torch.Tensor) -> torch.Tensor:
        """Where a message like `part` is received."""
        return torch.empty(part.shape, dtype=part.dtype)


class BareKept(Bare):
    """The same into memory that has been used before: no page of it is new. No package can be."""

    def __init__(self, rank: int, group: Any) -> None:
        super().__init__(rank, group)
        self.kept: dict[int, torch.Tensor] = {}

    def memory(self, part: torch.Tensor) -> torch.Tensor:
        size = part.numel()
        if size not in self.kept:
            self.kept[size] = torch.zeros(size, dtype=part.dtype)
        return self.kept[size]


def peak() -> int:
    """The largest resident memory since the last call, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--elements", type=int, default=TOTAL)
    given = parser.parse_args()
    measure(given.host, given.port, given.rank, given.rounds, given.elements)


def measure(host: str, port: int, rank: int, rounds: int, total: int) -> None:
    """All cases, and a line with the numbers."""
    logging.disable(logging.CRITICAL)  # FedLab tells of each package
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    ours = Fedtest(host, port, rank)
    group, beat, other = (dist.new_group([0, 1]) for _ in range(3))
    unbeating = Unbeating(rank, other)
    peers = {
        "fedtest": ours,
        "bare": Bare(rank, group),
        "fedlab": FedLab(rank, group),
        "no heartbeat": unbeating,
        "bare, memory kept": BareKept(rank, group),
    }
    times: dict[str, dict[str, list[float]]] = {}
    memory: dict[str, dict[str, float]] = {}

    def timed(call: Callable[[], Any], repeat: int) -> float:
        dist.barrier(group=beat)
        began = time.perf_counter()
        for _ in range(repeat):
            call()
        dist.barrier(group=beat)
        return (time.perf_counter() - began) / repeat

    def one_way(peer: Any, content: Any) -> Callable[[], Any]:
        return (lambda: peer.send(content)) if rank == 0 else (lambda: peer.recv(content))

    def there_and_back(peer: Any) -> Callable[[], Any]:
        def call() -> None:
            (peer.send, peer.recv)[rank](None)
            (peer.recv, peer.send)[rank](None)

        return call

    def case(
        name: str, content: Any, repeat: int, among: tuple[str, ...] = THREE, times_as_many: int = 1
    ) -> None:
        print(f"{name} ...", flush=True)
        found = times.setdefault(name, {peer: [] for peer in among})
        for round_number in range(rounds * times_as_many + 1):
            for peer in found:
                if peer == "fedlab" and isinstance(content, list) and round_number > SLOW_ROUNDS:
                    continue
                if content is None:
                    call = there_and_back(peers[peer])
                else:
                    call = one_way(peers[peer], content)
                for bare in (peers["bare"], peers["bare, memory kept"]):
                    bare.parts(content)
                before = resident()
                peak()
                seconds = timed(call, repeat)
                if round_number:  # the first warms up
                    found[peer].append(seconds)
                if repeat == 1:
                    used = (peak() - before) / (4 * total)
                    by = memory.setdefault(name, {})
                    by[peer] = max(used, by.get(peer, 0.0))

    case("100 MB, 1 tensor", torch.rand(total), 1, (*THREE, "bare, memory kept"))
    case("100 MB, many rounds", torch.rand(total), 1, ("fedtest", "no heartbeat"), 8)
    for count in (62, 161):
        case(f"100 MB, {count} tensors", [torch.rand(size) for size in sizes(count, total)], 1)
    # FedLab copies everything at each append: 10,000 times 50 MB on average.
    many = [torch.rand(total // 10_000) for _ in range(10_000)]
    case("100 MB, 10,000 tensors", many, 1, ("fedtest", "bare"))
    case("1 KB message", torch.rand(256), 1000)
    case("empty, there and back", None, 500)
    unbeating.endpoint.close(60)
    ours.network.close_network_connection()
    numbers = {"times": times, "memory": memory, "torch": torch.__version__}
    print(MARK + json.dumps(numbers), flush=True)


if __name__ == "__main__":
    main()
