"""What the processes of test_hier_ends.py do, where something ends early; as in hier_cases.py."""

from __future__ import annotations

import math
import multiprocessing
import threading
from typing import Any

import torch
from comm_ranks import Here, failure
from hier_cases import (
    CODES,
    MIDDLE,
    TOP,
    ask_to_exit,
    client,
    network,
    news,
    scheduler,
    serve,
)

from fedtest.comm import MessageCode
from fedtest.comm.hierarchical import (
    ClientConnector,
    Scheduler,
    ServerConnector,
    hear_clients,
    send_to,
    tell_clients,
)
from fedtest.comm.hierarchical import lower as lower_side
from fedtest.comm.hierarchical import upper as upper_side


def life(here: Here, lower: int, options: dict[str, Any]) -> Any:
    """Rounds until somebody is told to die; each says what it saw of that.

    Two clients, of 2 and 3 ids.
    """
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            coordinator = hear_clients(net)
            here.say("set up")
            found = failure(lambda: here.say(news(net)))
            if found["kind"] is None:
                if set(here.wait()) < set(coordinator.ids()):
                    send_to(net, coordinator.ids(), torch.ones(2), CODES[1], 1)
                    assert net.recv(1)[1] is CODES[1]
                ask_to_exit(net)
            return found
    if here.rank == MIDDLE:
        return failure(scheduler(here, lower, 2, **options).run)
    with client(here, lower, 2) as net:
        return failure(lambda: here.say(serve(net, here.rank)))


def silent_client(here: Here, lower: int) -> Any:
    """A client takes Exit and does not answer; another closes without an answer."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            net.send(None, MessageCode.Exit, 1)
            return news(net)
    if here.rank == MIDDLE:
        return failure(scheduler(here, lower, 2, exit_timeout=1.0).run)
    with client(here, lower, 2) as net:
        tell_clients(net, 1)
        assert net.recv(0)[1] is MessageCode.Exit
        if here.rank == 2:
            failure(lambda: net.recv(0))
    return None


def late_client(here: Here, lower: int) -> Any:
    """A client answers to Exit when the test says so; the top waits for the middle server."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            ask_to_exit(net)
            here.say("answered")
            return None
    if here.rank == MIDDLE:
        return scheduler(here, lower, 2).run()
    with client(here, lower, 2) as net:
        tell_clients(net, 1)
        assert net.recv(0)[1] is MessageCode.Exit
        if here.rank == 2:
            here.say("asked")
            here.wait()
        net.send(None, MessageCode.Exit)
    return None


def no_top(here: Here, lower: int) -> Any:
    """Clients and their middle server, but nobody above."""
    if here.rank == TOP:
        return None
    if here.rank == MIDDLE:
        multiprocessing.set_start_method("fork", force=True)
        above = network(here.port, 2, 1, timeout=3.0)
        return failure(Scheduler(above, network(lower, 2, 0)).run)
    with client(here, lower, 1) as net:
        return serve(net)


def wrong_id(here: Here, lower: int) -> Any:
    """The top asks for a client that there is not."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            send_to(net, [7], torch.ones(1), CODES[0], 1)
            return news(net)
    if here.rank == MIDDLE:
        return failure(scheduler(here, lower, 1).run)
    with client(here, lower, 1) as net:
        return serve(net)


def stopped(here: Here, lower: int) -> Any:
    """Exit from above when the test says so, and what comes back; clients wait for it."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            here.say("set up")
            here.wait()
            net.send(None, MessageCode.Exit, 1)
            return news(net)
    if here.rank == MIDDLE:
        options = {"exit_timeout": 0.5, "silence_timeout": math.inf}
        return failure(scheduler(here, lower, 2, **options).run)
    with client(here, lower, 2) as net:
        tell_clients(net, 1)
        return failure(lambda: net.recv(0))


class Stuck(ClientConnector):
    """What a thread of the network's has brought is never done with; that goes up before."""

    def on_receive(self, sender: int, message_code: MessageCode, payload: Any) -> None:
        for_ever = threading.current_thread() is not threading.main_thread()
        self.pass_on(sender, message_code, [torch.tensor([int(for_ever)])])
        if for_ever:
            threading.Event().wait()


def stuck(here: Here, lower: int) -> Any:
    """A client sends until that is stuck, another closes at Exit."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            while not net.recv(1)[2][0]:
                send_to(net, [0], None, CODES[0], 1)
            net.send(None, MessageCode.Exit, 1)
            return news(net)
    if here.rank == MIDDLE:
        return failure(scheduler(here, lower, 2, exit_timeout=0.5, client_connector=Stuck).run)
    with client(here, lower, 2) as net:
        tell_clients(net, 1)
        if here.rank == 2:
            net.send(torch.ones(1), CODES[0])
        while net.recv(0)[1] is not MessageCode.Exit:
            net.send(torch.ones(1), CODES[0])
        return None if here.rank == 3 else failure(lambda: net.recv(0))


class Busy(ClientConnector):
    """What comes from above needs longer to go down than the upper side waits in silence."""

    def deal_queue(self) -> None:
        for _, code, payload in self.messages():
            threading.Event().wait(self.exit_timeout + 3)
            self.forward(code, payload)


def busy(here: Here, lower: int) -> Any:
    """Exit comes right after a message that takes long; the middle server's waits are shortened."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            send_to(net, [0], torch.ones(1), CODES[0], 1)
            net.send(None, MessageCode.Exit, 1)
            return [news(net) for _ in range(2)]
    if here.rank == MIDDLE:
        lower_side.LEAVING = upper_side.LEAVING = 0.5
        return failure(scheduler(here, lower, 1, exit_timeout=5.0, client_connector=Busy).run)
    with client(here, lower, 1) as net:
        return serve(net)


class Patient(ClientConnector):
    """What a client says is held for longer than a side may give no sign of life."""

    def on_receive(self, sender: int, message_code: MessageCode, payload: Any) -> None:
        threading.Event().wait(QUIET + 2)
        super().on_receive(sender, message_code, payload)


QUIET = 3.0


def patient(here: Here, lower: int) -> Any:
    """A strategy takes long in both directions, before Exit; a link that is slow as well."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            send_to(net, [0], torch.ones(1), CODES[0], 1)
            got = news(net)
            ask_to_exit(net)
            return got
    if here.rank == MIDDLE:
        options = {"silence_timeout": QUIET, "client_connector": Patient}
        return failure(scheduler(here, lower, 1, **options).run)
    with client(here, lower, 1) as net:
        return serve(net)


class Direct(ServerConnector):
    """Reads the queue itself, and sends up whatever is in it, up to what is last."""

    def deal_queue(self) -> None:
        while True:
            sender, code, payload = self.mq_read.get()
            if code is MessageCode.Exit:
                return
            self.forward(sender, code, payload)


def direct(here: Here, lower: int) -> Any:
    """As `busy`, above a side that is not spared what a queue of its own has between messages."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            send_to(net, [0], torch.ones(1), CODES[0], 1)
            net.send(None, MessageCode.Exit, 1)
            found = [news(net)[1]]
            while found[-1] != "Exit":
                found.append(news(net)[1])
            return found
    if here.rank == MIDDLE:
        lower_side.LEAVING = upper_side.LEAVING = 0.5
        options = {"client_connector": Busy, "server_connector": Direct, "exit_timeout": 5.0}
        return failure(scheduler(here, lower, 1, **options).run)
    with client(here, lower, 1) as net:
        return serve(net)


def starts(here: Here, lower: int) -> None:
    """A process starts a Scheduler; nobody else is there."""
    middle = scheduler(here, lower, 1)
    middle.start()
    here.say(middle.pid)
    here.wait()


def around(here: Here, lower: int) -> Any:
    """The top, and the only client, of a middle server that is a program of its own."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            ask_to_exit(net)
            return None
    with network(lower, 2, 1) as net:
        return serve(net)
