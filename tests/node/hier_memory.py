"""Where contents are on their way through a middle server; as in hier_cases.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from hier_cases import CODES, MIDDLE, TOP, ask_to_exit, client, network, scheduler, serve

from fedtest.comm.hierarchical import ClientConnector, ServerConnector, hear_clients, send_to

if TYPE_CHECKING:
    from comm_ranks import Here

    from fedtest.comm import MessageCode


def lies_shared(tensor: torch.Tensor) -> torch.Tensor:
    """1 if it is in the memory that the two sides share, else 0."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        begin, end = (int(each, 16) for each in line.split()[0].split("-"))
        if begin <= tensor.data_ptr() < end:
            return torch.tensor(float("memfd:fedtest.comm" in line))
    raise AssertionError("it is nowhere")


class Above(ServerConnector):
    """What goes up is where the contents were that it took, from the network and from the queue."""

    def on_receive(self, sender: int, message_code: MessageCode, payload: Any) -> None:
        self.__dict__.setdefault("came", []).extend(map(lies_shared, (payload or [])[1:]))
        super().on_receive(sender, message_code, payload)

    def forward(self, sender: int | None, message_code: MessageCode, payload: Any) -> None:
        content, *below = payload
        here = [*self.__dict__["came"], lies_shared(content)]
        super().forward(sender, message_code, [*here, *below])


class Below(ClientConnector):
    """The same of the other side."""

    def on_receive(self, sender: int, message_code: MessageCode, payload: Any) -> None:
        here = [*self.__dict__["came"], lies_shared(payload[0])]
        super().on_receive(sender, message_code, [*payload, *here])

    def forward(self, message_code: MessageCode, payload: Any, *, owned: bool = False) -> None:
        self.__dict__.setdefault("came", []).extend(map(lies_shared, payload[1:]))
        super().forward(message_code, payload, owned=owned)


def shares(here: Here, lower: int, elements: int) -> Any:
    """Whether contents are in shared memory, all the way through a middle server."""
    if here.rank == TOP:
        with network(here.port, 2, 0) as net:
            hear_clients(net)
            send_to(net, [0], torch.ones(elements), CODES[0], 1)
            found = torch.stack(net.recv(1)[2] or []).tolist()
            ask_to_exit(net)
            return found
    if here.rank == MIDDLE:
        return scheduler(here, lower, 1, server_connector=Above, client_connector=Below).run()
    with client(here, lower, 1) as net:
        return serve(net)
