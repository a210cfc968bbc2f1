"""What the processes of test_hier*.py do, each a function of Here: a case.

Process 0 is the top, 1 a middle server, those that follow its clients, unless
a case says otherwise. `lower` is the port of the group below.
"""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import torch
from comm_cases import SHAPES, contents, digest, sample
from comm_ranks import DEADLINE, Here, failure

from fedtest import comm
from fedtest.comm import DistNetwork, MessageCode
from fedtest.comm.hierarchical import (
    ClientConnector,
    Scheduler,
    ServerConnector,
    hear_clients,
    origin,
    send_to,
    take_ids,
    tell_clients,
)

TOP, MIDDLE = 0, 1
CODES = [code for code in MessageCode if code not in {MessageCode.Exit, MessageCode.SetUp}]


def network(port: int, size: int, rank: int, **options: Any) -> DistNetwork:
    options.setdefault("timeout", 120.0)  # a spawned process imports torch
    return DistNetwork(("127.0.0.1", port), size, rank, "lo", **options)


def scheduler(here: Here, lower: int, clients: int, **options: Any) -> Scheduler:
    # The processes of these tests come from a fork server, and their children would, too.
    multiprocessing.set_start_method("fork", force=True)
    return Scheduler(network(here.port, 2, 1), network(lower, clients + 1, 0), **options)


def client(here: Here, lower: int, clients: int, **options: Any) -> DistNetwork:
    return network(lower, clients + 1, here.rank - MIDDLE, **options)


def ask_to_exit(net: DistNetwork, ids: range | list[int] = range(0)) -> None:
    """Exit to the middle server, and its answer."""
    if ids:
        send_to(net, ids, None, MessageCode.Exit, 1)
    else:
        net.send(None, MessageCode.Exit, 1)
    sender, code, payload = net.recv()
    assert (sender, code, payload) == (1, MessageCode.Exit, None)


def serve(net: DistNetwork, stands_for: int = 1) -> list[tuple[str, list[int], str | None]]:
    """A client that sends back what it is sent; returns what that was."""
    tell_clients(net, stands_for)
    seen = []
    while True:
        _, code, payload = net.recv(0)
        ids, rest = take_ids(payload) if payload else ([], None)
        seen.append((code.name, ids, digest(rest)))
        if code is MessageCode.Exit:
            net.send(None, MessageCode.Exit)
            return seen
        net.send(rest, code)


def kinds() -> list[list[torch.Tensor]]:
    """A payload of each dtype with every shape, and large ones."""
    found = [[sample(s, dtype, n) for s in SHAPES] for n, dtype in enumerate(comm.DTYPES)]
    found.append([torch.rand(700_000), torch.rand(3, 5)])
    found.append([torch.rand(1 << 20).half()])
    return found


def down(here: Here, lower: int, mode: str, stands_for: list[int]) -> Any:
    """Every dtype to some ids of each rank, one of them 2,049 on its own rank, and back."""
    clients = len(stands_for)
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            coordinator = hear_clients(net)
            ids = [0, 1, 2 + 2049, 2 + 2999]
            back = []
            for number, payload in enumerate(kinds()):
                send_to(net, ids, payload, CODES[number % len(CODES)], 1)
                for _ in range(2):
                    sender, code, got = net.recv()
                    back.append((sender, code.name, digest(got)))
            ask_to_exit(net, coordinator.ids())
            return coordinator.total, back
    if here.rank == MIDDLE:
        return scheduler(here, lower, clients, mode=mode).run()
    with client(here, lower, clients) as net:
        return serve(net, stands_for[net.rank - 1])


def up(here: Here, lower: int, origins: bool) -> Any:
    """Clients send everything that can be sent; the top looks at it."""
    sent = contents()
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            coordinator = hear_clients(net)
            seen = []
            for _ in range(2 * len(sent)):
                sender, code, payload = net.recv()
                ids, payload = origin(coordinator, sender, payload)
                seen.append((list(ids), code.name, digest(payload)))
            ask_to_exit(net)
            return seen
    if here.rank == MIDDLE:
        return scheduler(here, lower, 2, origins=origins).run()
    with client(here, lower, 2) as net:
        tell_clients(net, here.rank)
        for number, content in enumerate(sent):
            net.send(content, CODES[number % len(CODES)])
        assert net.recv(0)[1:] == (MessageCode.Exit, None)
        net.send(None, MessageCode.Exit)
        return [digest([c] if isinstance(c, torch.Tensor) else c) for c in sent]


def nothing_left(before: set[Path]) -> None:
    """Wait until there is nothing in /dev/shm that was not there: other tests use it, too."""
    deadline = time.monotonic() + DEADLINE
    while not set(Path("/dev/shm").iterdir()) <= before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def often(here: Here, lower: int, times: int, method: str = "fork") -> Any:
    """The whole life of a middle server, so often; the processes but its own stay the same."""
    middles = []
    for number in range(times):
        if here.rank != TOP:
            here.wait()
        if here.rank == TOP:
            with network(here.port, 2, 0) as net:
                hear_clients(net)
                send_to(net, [0], torch.tensor([number]), MessageCode.ParameterUpdate, 1)
                assert net.recv()[2][0].item() == number
                ask_to_exit(net, [0])
        elif here.rank == MIDDLE:
            middle = scheduler(here, lower, 1)
            multiprocessing.set_start_method(method, force=True)
            middle.start()
            middle.join(DEADLINE)
            middles.append(middle.exitcode)
        else:
            listening(lower)
            with client(here, lower, 1) as net:
                serve(net)
        here.say("ended")
        if here.rank == TOP:
            here.wait()
    return middles


def meets_again(here: Here) -> None:
    """Rank 0 sees rank 1 leave, and opens the same port once more; nobody collects garbage."""
    gc.disable()
    for _ in range(2):
        if here.rank == 1:
            listening(here.port)
            with network(here.port, 2, 1):
                pass
        else:
            with network(here.port, 2, 0) as net:
                assert failure(lambda net=net: net.recv(1))["kind"] == "PeerLost"


def listening(port: int) -> None:
    """Wait until somebody listens there: torch waits half a second if nobody does yet."""
    end = f":{port:04X}"
    deadline = time.monotonic() + DEADLINE
    while True:
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state = line.split()[:4]
                if state == "0A" and local.endswith(end):
                    return
        assert time.monotonic() < deadline
        time.sleep(0.002)


def hands_over(here: Here) -> Any:
    """Packages of 4 bytes and of 4 MB from rank 1; rank 0 has them taken as they come."""
    sizes = [1, 1, 1, 1_000_000, 1, 1_000_000, 1]
    if here.rank == 1:
        with network(here.port, 2, 1) as net:
            for number, size in enumerate(sizes):
                net.send(torch.full((size,), number, dtype=torch.int32), CODES[0])
            net.send(None, MessageCode.Exit)
            return net.send_volume_intotal
    seen: list[int] = []
    threads = set()

    def take(sender: int, code: MessageCode, content: Any) -> bool:
        threads.add(threading.current_thread().name)
        assert sender == 1
        seen.extend([] if content is None else [int(content[0][-1])])
        return code is MessageCode.Exit

    with network(here.port, 2, 0) as net:
        first = net.recv(1)[2]
        seen.append(int(first[0]))
        while not net.hand_over(take):
            seen.append(int(net.recv(1)[2][0]))
        _, code, _ = net.recv(1, count=False)
        return seen, code.name, threads, net.recv_volume_intotal


class Averaging(ClientConnector):
    """The clients' updates go up as one, their mean."""

    def on_receive(self, sender: int, message_code: MessageCode, payload: Any) -> None:
        updates = self.__dict__.setdefault("updates", {})
        updates[sender] = payload
        if updates.keys() >= set(self.ranks):
            mean = [torch.stack(each).mean(0) for each in zip(*updates.values(), strict=True)]
            updates.clear()
            super().on_receive(0, message_code, mean)


class Doubling(ServerConnector):
    """What goes up is doubled on its way, by another strategy for the queue."""

    def deal_queue(self) -> None:
        for sender, code, payload in self.messages():
            self.forward(sender, code, [2 * each for each in payload])


def averages(here: Here, lower: int) -> Any:
    """Three clients' updates arrive as one, doubled."""
    elements = 500_000
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            found = []
            for number in range(3):
                send_to(net, range(3), torch.full((elements,), number), CODES[0], 1)
                sender, code, payload = net.recv()
                assert (sender, code, len(payload)) == (1, CODES[0], 1)
                found.append(payload[0].unique().tolist())
            ask_to_exit(net)
            return found, net.recv_volume_intotal
    if here.rank == MIDDLE:
        return scheduler(
            here, lower, 3, client_connector=Averaging, server_connector=Doubling
        ).run()
    with client(here, lower, 3) as net:
        tell_clients(net, 1)
        while True:
            _, code, payload = net.recv(0)
            if code is MessageCode.Exit:
                net.send(None, MessageCode.Exit)
                return None
            net.send(payload[1].float() + net.rank, code)


class Twice(ClientConnector):
    """Each message goes down twice; whether it has stayed as it was goes up."""

    def deal_queue(self) -> None:
        for _, code, payload in self.messages():
            before = [each.clone() for each in payload]
            for _ in range(2):
                self.forward(code, payload)
            same = all(map(torch.equal, before, payload))
            self.pass_on(0, CODES[2], [torch.tensor([int(same)])])

    def shutdown(self) -> None:
        assert self._last[2][0].tolist() == [0, 1, 2]  # so Exit came, and was not written to
        super().shutdown()


def twice(here: Here, lower: int, elements: int) -> Any:
    """A strategy of its own sends the same to ids of two ranks twice, then Exit with a payload."""
    payload = torch.arange(elements).float()
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            ids = hear_clients(net).ids()
            send_to(net, ids, payload, CODES[0], 1)
            got = [net.recv(1)[1:] for _ in range(5)]
            send_to(net, ids, payload, MessageCode.Exit, 1)
            assert net.recv(1)[1] is MessageCode.Exit
            return [bool(content[0]) for code, content in got if code is CODES[2]]
    if here.rank == MIDDLE:
        return scheduler(here, lower, 2, client_connector=Twice).run()
    with client(here, lower, 2) as net:
        return serve(net, here.rank - 1), digest([payload])


def slow(here: Here, lower: int, messages: int, elements: int) -> Any:
    """The top takes nothing for a while, though a client has much to send."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            here.wait()
            got = [int(net.recv(1)[2][0][0]) for _ in range(messages)]
            ask_to_exit(net)
            return got
    if here.rank == MIDDLE:
        return scheduler(here, lower, 1).run()
    with client(here, lower, 1) as net:
        tell_clients(net, 1)
        for number in range(messages):
            net.send(torch.full((elements,), number, dtype=torch.float32), CODES[0])
            here.say(number)
        net.recv(0)
        net.send(None, MessageCode.Exit)
        return None


def queues_of_torch(here: Here, lower: int) -> Any:
    """The two connectors as a program of its own would start them, without a Scheduler."""
    if here.rank == MIDDLE:
        multiprocessing.set_start_method("fork", force=True)
        one, other = torch.multiprocessing.Queue(8), torch.multiprocessing.Queue(8)
        sides = [
            ServerConnector(network(here.port, 2, 1), one, other),
            ClientConnector(network(lower, 2, 0), other, one),
        ]
        for side in sides:
            side.start()
        for side in sides:
            side.join(DEADLINE)
        return [side.exitcode for side in sides]
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            send_to(net, [0], [torch.rand(500_000), torch.rand(3)], CODES[0], 1)
            got = [each.shape for each in net.recv(1)[2]]
            ask_to_exit(net)
            return got
    with client(here, lower, 1) as net:
        serve(net)
        return None


def levels(here: Here, ports: list[int], mode: str, origins: bool, dying: bool = False) -> Any:
    """Top, a middle server, two middle servers under it, each with a client: 0 1 2 3 4 5.

    Process 4 stands for two clients, 5 for one, and may be killed.
    """
    high, left, right = ports
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            coordinator = hear_clients(net)
            found = []
            if dying:
                here.say("set up")
                found.append(news(net))
            for each in range(coordinator.total - dying):
                send_to(net, [each], torch.tensor([each], dtype=torch.float16), CODES[1], 1)
                sender, code, payload = net.recv(1)
                ids, payload = origin(coordinator, sender, payload)
                found.append((list(ids), code.name, payload[0].tolist(), str(payload[0].dtype)))
            ask_to_exit(net)
            return found
    if here.rank == MIDDLE:
        multiprocessing.set_start_method("fork", force=True)
        above, below = network(here.port, 2, 1), network(high, 3, 0)
        return Scheduler(above, below, mode=mode, origins=origins).run()
    if here.rank in (2, 3):
        multiprocessing.set_start_method("fork", force=True)
        above = network(high, 3, here.rank - 1)
        below = network(left if here.rank == 2 else right, 2, 0)
        first = 2 if mode == "GLOBAL" and here.rank == 3 else 0
        return Scheduler(above, below, mode=mode, first_id=first, origins=origins).run()
    stands_for = 2 if here.rank == 4 else 1
    with network(left if here.rank == 4 else right, 2, 1) as net:
        return [ids for _, ids, _ in serve(net, stands_for)]


def news(net: DistNetwork) -> Any:
    sender, code, payload = net.recv(1)
    return sender, code.name, None if payload is None else payload[0].tolist()
