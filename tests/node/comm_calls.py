"""What the ranks of test_comm_calls.py do: calls that wait, and when they may be made."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import torch
from comm_ranks import Here, failure
from torch import distributed as dist

from fedtest.comm import DistNetwork, MessageCode, Package, PackageProcessor, rendezvous


def by_keywords(here: Here) -> Any:
    """As FedLab's documentation has it: all by name, and the processor over the network."""
    network = DistNetwork(
        address=("127.0.0.1", here.port), world_size=here.size, rank=here.rank, ethernet="lo"
    )
    network.init_network_connection()
    found = []
    if here.rank:
        package = Package(message_code=MessageCode.SetUp, content=torch.ones(2))
        package.append_tensor(torch.tensor(3))
        package.append_tensor_list([torch.zeros(0), torch.full((1, 2), 4.0)])
        for _ in range(2):
            PackageProcessor.send_package(package=package, dst=0)
        network.send(content=torch.ones(1), message_code=MessageCode.Exit, dst=0)
    else:
        found += [PackageProcessor.recv_package(src=1), PackageProcessor.recv_package(src=None)]
        found.append(network.recv(src=1))
    network.close_network_connection()
    return [(rank, code.name, [t.tolist() for t in content]) for rank, code, content in found]


def fills(here: Here, taken: bool) -> Any:
    """Rank 0 sends until there is no room, then closes; rank 1 receives only then, or never."""
    network = here.network()
    network.init_network_connection()
    if here.rank:
        count = here.wait() if taken else 0
        numbers = [network.recv(0)[2][0].item() for _ in range(count)]
        after = failure(lambda: network.recv(0)) if taken else here.wait()
        network.close_network_connection()
        return numbers, after
    late: dict[str, Any] = {"kind": None}
    sent = -1
    while late["kind"] is None:
        sent += 1
        late = failure(lambda n=sent: network.send(torch.tensor([n]), dst=1, timeout=0.5))
    here.say(sent)
    closing = failure(lambda: network.close_network_connection(None if taken else 0.5))
    return late, closing, failure(lambda: network.send(dst=1))["kind"]


def broadcast_late(here: Here) -> Any:
    """Rank 2 sends only after rank 0 has given up waiting for both others."""
    with here.network() as network:
        if here.rank == 1:
            network.send(torch.full((1 << 19,), 10.0))
            network.send(torch.tensor([11.0]))
            return None
        if here.rank == 2:
            here.wait()
            network.send(torch.tensor([20.0]))
            return None
        late = {"peer": 1}
        while late["peer"] == 1:  # What rank 1 sent is not there yet.
            late = failure(lambda: network.broadcast_recv(timeout=2.0))
        counted = network.recv_volume_intotal
        here.say("told")
        ranks, _, contents = network.broadcast_recv()
        found = [content[0][-1].item() for content in contents]
        return late, counted, ranks, found, network.recv(1)[2][0].item()


def broadcast_holds(here: Here) -> Any:
    """Another receive from rank 1 while a broadcast has its package and waits for rank 2."""
    with here.network() as network:
        if here.rank:
            here.wait()
            network.send(torch.full((1 << 19,), float(here.rank)))
            here.say("taken")
            return None
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(network.broadcast_recv()))
        thread.start()
        here.wait()  # until rank 1's package, which is large, has been taken
        kind = failure(lambda: network.recv(1, timeout=0.01))["kind"]
        here.say("tried")
        thread.join()
        ranks, _, contents = found[0]
        return kind, ranks, [content[0][0].item() for content in contents]


def closed_while_receiving(here: Here) -> Any:
    network = here.network()
    network.init_network_connection()
    if here.rank:
        here.wait()
        network.close_network_connection()
        return None
    found: list[dict[str, Any]] = []

    def receive() -> None:
        while not found or found[-1]["kind"] == "ArgumentError":  # The other one was first.
            found.append(failure(network.recv))

    thread = threading.Thread(target=receive)
    thread.start()
    kind = "TransferTimeout"
    while kind == "TransferTimeout":  # until the thread is there
        kind = failure(lambda: network.recv(1, timeout=0.01))["kind"]
    network.close_network_connection()
    thread.join()
    return kind, found[-1]


def forked(here: Here) -> Any:
    """A fork of rank 0 calls what it must not; rank 0 goes on."""
    with here.network() as network:
        if here.rank:
            return [network.recv(0)[2][0].item() for _ in range(2)]
        network.send(torch.ones(1), dst=1)
        reads, writes = os.pipe()
        pid = os.fork()
        if not pid:
            signal.alarm(60)
            try:
                calls = (
                    lambda: network.send(torch.zeros(1), dst=1),
                    lambda: network.recv(1),
                    network.broadcast_recv,
                    lambda: PackageProcessor.recv_package(src=1),
                    lambda: network.hand_over(bool),
                    network.init_network_connection,
                    network.close_network_connection,
                )
                os.write(writes, " ".join(str(failure(call)["kind"]) for call in calls).encode())
            finally:
                os._exit(0)
        os.close(writes)
        with os.fdopen(reads, encoding="ascii") as file:
            kinds = file.read().split()
        os.waitpid(pid, 0)
        network.send(torch.full((1,), 2.0), dst=1)
        return kinds


def beside_torch(here: Here, ours: int) -> Any:
    """Rank `ours` has this library; the other joins and sends as FedLab does, with torch alone."""
    other = 1 - ours
    if here.rank == ours:
        network = here.network()
        network.init_network_connection()
        network.send([torch.ones(2), torch.ones(1)], MessageCode.SetUp, dst=other)
        _, code, content = network.recv(other)
        here.wait()  # until the other one has sent a header alone
        late = failure(lambda: network.recv(timeout=1.0))
        here.say("told")
        here.wait()  # until the other one is killed
        lost = failure(lambda: network.recv(other))
        network.close_network_connection()
        return code.name, [t.tolist() for t in content], late, lost, sorted(network.ours)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{here.port}", rank=other, world_size=2
    )
    header, slices = (torch.zeros(size, dtype=torch.int32) for size in (5, 6))
    content = torch.zeros(3)
    for part in (header, slices, content):
        dist.recv(part, src=ours)
    here.say([part.tolist() for part in (header, slices, content)])
    dist.send(torch.tensor([other, ours, 4, 2, 3], dtype=torch.int32), dst=ours)
    dist.send(torch.tensor([2, 2, 1, 2], dtype=torch.int32), dst=ours)
    dist.send(torch.tensor([5, 6]), dst=ours)
    dist.send(torch.tensor([other, ours, 3, 2, 3], dtype=torch.int32), dst=ours)
    here.say("sent")
    here.wait()
    return None


def joins_within(here: Here) -> Any:
    """Rank 1 alone: the call's own time-out counts."""
    if here.rank == 0:
        return None
    return failure(lambda: here.network(timeout=120.0).init_network_connection(timeout=1.0))


def processor(here: Here) -> Any:
    """PackageProcessor over a group that torch made."""
    dist.init_process_group(
        "gloo",
        store=dist.TCPStore(
            "127.0.0.1", here.port, here.size, here.rank == 0, **rendezvous.WITHOUT_LIBUV
        ),
        rank=here.rank,
        world_size=here.size,
    )
    if here.rank:
        package = Package(MessageCode.SetUp, [torch.arange(6).view(2, 3), torch.tensor(1)])
        PackageProcessor.send_package(package, dst=0)
        assert Package.parse_header(package.header)[:2] == (here.rank, 0)
        PackageProcessor.send_package(Package(), dst=0)
        raw = torch.zeros(1)
        dist.recv(raw, src=0)
        return raw.item()
    found = []
    for _ in range(2 * (here.size - 1)):
        sender, code, content = PackageProcessor.recv_package()
        found.append((sender, code.name, content and [t.tolist() for t in content]))
    # Nothing of ours waits for what others send by other means.
    for rank in range(1, here.size):
        dist.send(torch.tensor([float(rank)]), dst=rank)
    return sorted(found, key=str)


def processor_of_groups(here: Here) -> Any:
    """PackageProcessor over one group after the other; the threads that it has with the last."""
    store = dist.TCPStore(
        "127.0.0.1", here.port, here.size, here.rank == 0, **rendezvous.WITHOUT_LIBUV
    )
    for number in range(3):
        dist.init_process_group(
            "gloo",
            store=dist.PrefixStore(str(number), store),
            rank=here.rank,
            world_size=here.size,
        )
        if here.rank == 0:
            assert PackageProcessor.recv_package(src=1)[2][0].item() == number
            PackageProcessor.send_package(Package(0, torch.tensor(number)), dst=1)
        else:
            PackageProcessor.send_package(Package(0, torch.tensor(number)), dst=0)
            assert PackageProcessor.recv_package(src=0)[2][0].item() == number
        names = [each.name for each in threading.enumerate() if "fedtest" in each.name]
        dist.destroy_process_group()
    here.say(sorted(names))
    here.wait()  # the store is rank 0's
