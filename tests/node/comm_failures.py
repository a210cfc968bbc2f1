"""What the ranks of test_comm_failures.py do: peers that die, and ranks that cannot join."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import torch
from comm_ranks import Here, failure
from torch import distributed as dist

from fedtest import comm
from fedtest.comm import interfaces, outbox, wire
from fedtest.comm.outbox import TAG

LARGE = 100_000_000  # elements of float32: more than can be taken before a test reacts


def killed_while_idle(here: Here, heartbeat: float) -> Any:
    """Rank 1 is killed; 0 waits for it, 2 for anybody, and these two go on together."""
    network = here.network(heartbeat=heartbeat)
    network.init_network_connection()
    here.say("joined")
    if here.rank == 1:
        here.wait()
        return None
    if here.rank == 0:
        found = failure(lambda: network.recv(1))
        sent = failure(lambda: network.send(torch.zeros(1 << 20), dst=1))
        here.wait()
        network.send(torch.ones(1), dst=2)
    else:
        if heartbeat:
            found = sent = failure(network.recv)
        else:  # only who waits for rank 1 is told
            sent = None
            found = failure(lambda: network.recv(1))
            late = failure(lambda: network.recv(timeout=0.5))
            assert late["kind"] == "TransferTimeout"
            assert late["text"].endswith("for the header; nothing more comes from rank 1")
        here.say("told")
        assert network.recv()[0] == 0
    lost = sorted(network.lost)
    if here.rank == 2 and not heartbeat:
        late = failure(network.recv)
        assert late["kind"] == "PeerLost"
        assert late["text"].endswith("; no other rank is left")
    began = time.monotonic()
    network.close_network_connection()
    return found, sent, lost, time.monotonic() - began


def killed_in_a_transfer(here: Here, sender: int) -> Any:
    """Rank 1 is stopped and killed in the middle of a large package; 0 is its other end."""
    network = here.network()
    network.init_network_connection()
    content = torch.zeros(LARGE) if sender == here.rank else None
    here.say("joined")
    here.wait()
    if here.rank == 1:
        here.say("begins")
        network.send(content) if sender == 1 else network.recv(0)
        return None
    transfer = network.recv if sender == 1 else lambda: network.send(content, dst=1)
    here.say(failure(transfer))
    began = time.monotonic()
    network.close_network_connection()
    return time.monotonic() - began


def written(pid: int) -> int:
    """Bytes that a process has written, to sockets as well."""
    fields = Path(f"/proc/{pid}/io").read_text(encoding="ascii").split()
    return int(fields[fields.index("wchar:") + 1])


def paused(here: Here) -> Any:
    """A stopped process is not taken for a dead one, however long."""
    with here.network(heartbeat=1.0) as network:
        here.say("joined")
        if here.rank == 1:
            network.send(torch.ones(2))
            return None
        early = failure(lambda: network.recv(1, timeout=4.0))
        here.say(early["kind"])
        return network.recv(1)[2][0].tolist(), sorted(network.lost)


def closes_early(here: Here) -> Any:
    """Rank 1 closes in order; nobody who waits for others is disturbed."""
    network = here.network()
    network.init_network_connection()
    if here.rank == 1:
        network.send(torch.ones(1))
        network.close_network_connection()
        here.say("closed")
        return None
    if here.rank == 2:
        here.wait()
        network.send(torch.ones(2))
        network.close_network_connection()
        return None
    senders = [network.recv()[0], network.recv()[0]]
    found = failure(lambda: network.recv(1)), failure(network.recv)
    network.close_network_connection()
    return senders, found


def ends_without_close(here: Here) -> Any:
    """What was sent arrives though the process ends at once."""
    network = here.network()
    network.init_network_connection()
    if here.rank == 1:
        for number in range(50):
            network.send(torch.full((1000,), number))
        return None
    found = [int(network.recv()[2][0][0]) for _ in range(50)]
    network.close_network_connection()
    return found


def threads_after(here: Here, how: str) -> Any:
    """The threads that a close of rank 0 leaves, where they wake slowly as on a busy machine."""
    network = here.network()
    network.init_network_connection()
    here.say("joined")
    if here.rank == 1:
        if how != "nothing taken":
            network.recv()
            network.close_network_connection()
        here.say("closed")
        here.wait()
        return None
    at_once = outbox._await

    def slowly(some: list[Any]) -> None:
        try:
            at_once(some)
        finally:
            time.sleep(0.3)

    outbox._await = slowly
    large = torch.zeros(1 << 24)
    if how == "nothing taken":
        assert failure(lambda: network.send(large, dst=1, timeout=0.2))["kind"]
    else:
        network.send(large[:1000], dst=1)
    if how == "the other one first":
        here.wait()
    closing = failure(lambda: network.close_network_connection(0.5))
    return [each.name for each in threading.enumerate() if "fedtest" in each.name], closing


def raw(here: Here, messages: list[tuple[list[int], str]]) -> Any:
    """Rank 1 sends by hand what may be no package; 0 says what it makes of it."""
    network = here.network(max_package_bytes=1 << 16)
    network.init_network_connection()
    if here.rank == 1:
        group = dist.group.WORLD
        tensors = [torch.tensor(m, dtype=getattr(torch, dtype)) for m, dtype in messages]
        works = [group.send([tensor], 0, TAG) for tensor in tensors]  # kept, or they are not sent
        here.wait()  # until 0 has seen what it wants: sends may never be taken
        del works
        os.kill(os.getpid(), signal.SIGKILL)
    before = address_space("VmSize")
    found = failure(lambda: network.recv(1, timeout=3.0))
    again = failure(lambda: network.recv(1, timeout=1.0))
    here.say((found, again, address_space("VmPeak") - before))
    network.close_network_connection()
    return None


def address_space(kind: str) -> int:
    """kB that are allocated, whether they have been used or not: VmSize now, VmPeak the most."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{kind}:")[2].split()[0])


def joins(here: Here, options: dict[str, Any], only: list[int]) -> Any:
    """Ranks of `only` try to join; the others do nothing."""
    if here.rank not in only:
        return None
    network = here.network(**{"ethernet": None, **options})
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    logging.getLogger("fedtest.comm").addHandler(handler)
    found = failure(network.init_network_connection)
    network.close_network_connection()
    found["variable"] = os.environ.get(interfaces.VARIABLE)
    found["interface"] = network.interface
    found["warned"] = heard
    found["left"] = [t.name for t in threading.enumerate() if t.name.startswith("fedtest.comm")]
    return found


def joins_as(here: Here, ranks: list[int], sizes: list[int]) -> None:
    """The processes claim these ranks and world sizes, each when it is told to."""
    position = here.rank
    network = comm.DistNetwork(
        ("127.0.0.1", here.port), sizes[position], ranks[position], timeout=8.0
    )
    here.wait()
    here.say(failure(network.init_network_connection))
    here.wait()
    network.close_network_connection()


def joins_elsewhere(here: Here, host: str) -> Any:
    network = comm.DistNetwork((host, here.port), 2, 0, timeout=2.0)
    return failure(network.init_network_connection)


def port_is_taken(here: Here) -> Any:
    """Rank 0 finds somebody at its port; rank 1 meets a listener that is silent."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        network = comm.DistNetwork(("127.0.0.1", port), 2, here.rank, timeout=2.0)
        return failure(network.init_network_connection)


def header(length: int = 3, code: int = 0, dtype: int = 5, sender: int = 1) -> list[int]:
    numbers = [0] * wire.HEADER_SIZE
    numbers[wire.SENDER], numbers[wire.LENGTH] = sender, length
    numbers[wire.CODE], numbers[wire.DTYPE] = code, dtype
    return numbers
