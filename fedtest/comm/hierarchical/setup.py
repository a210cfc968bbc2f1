"""SetUp: each rank tells its server how many clients it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fedtest.comm.codes import MessageCode
from fedtest.comm.errors import ProtocolError
from fedtest.comm.hierarchical.coordinator import Coordinator
from fedtest.comm.hierarchical.ids import decode, take_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedtest.comm.network import DistNetwork


def tell_clients(network: DistNetwork, clients: int, *, tagged: bool = False) -> None:
    """Tell the server, rank 0, how many clients this rank stands for.

    `tagged` announces that all that is sent later begins with the ids that it is from.
    """
    content = [torch.tensor([clients], dtype=torch.int32)]
    if tagged:
        content.append(torch.tensor([1], dtype=torch.int32))
    network.send(content, MessageCode.SetUp, dst=0)


def hear_clients(network: DistNetwork, mode: str = "LOCAL", *, first: int = 0) -> Coordinator:
    """What all ranks tell rank 0. Raises ProtocolError, PeerError."""
    found: dict[int, int] = {}
    tagged = []
    for rank in range(1, network.world_size):
        _, code, content = network.recv(rank)
        if code is not MessageCode.SetUp or not content or content[0].numel() != 1:
            raise ProtocolError(
                f"rank {rank} has sent {code.name} before it told how many clients it stands for"
            )
        found[rank] = decode(content[0].view(1))[0]
        if len(content) > 1:
            tagged.append(rank)
    return Coordinator(found, mode, first=first, tagged=tagged)


def origin(
    coordinator: Coordinator, sender: int, content: Sequence[torch.Tensor] | None
) -> tuple[range, list[torch.Tensor] | None]:
    """The ids of the clients that a message from rank `sender` is from, and its own content.

    All the clients of that rank, unless it is tagged and says which. Raises IdError.
    """
    if sender not in coordinator.tagged:
        return coordinator.ids(sender), None if content is None else list(content)
    (told, number), rest = _range(content)
    begin = coordinator.id_of(sender, told) if number else coordinator.ids(sender).start
    return range(begin, begin + number), rest or None


def _range(content: Sequence[torch.Tensor] | None) -> tuple[list[int], list[torch.Tensor]]:
    ids, rest = take_ids(content)
    if len(ids) != 2:
        raise ProtocolError(f"a message that is to begin with two numbers begins with {len(ids)}")
    return ids, rest
