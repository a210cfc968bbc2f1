"""One host of a tree of servers: `python -m fedtest.comm.hierarchical.trial top|middle|client`.

In each round the top sends parameters to all ids, of another dtype each time;
of each id an update is due that depends on it, which the top compares bit for
bit. With `--until-gone N` rounds go on until so many ids are gone, and
`--rounds` more. Results are reported as values for a testbed's checks.
"""

# ruff: noqa: T201 - what it prints is its purpose
from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import torch

from fedtest import values
from fedtest.comm import CommError, ConnectorLost, DistNetwork, MessageCode, PeerLost
from fedtest.comm.hierarchical import (
    Coordinator,
    Scheduler,
    hear_clients,
    origin,
    send_to,
    take_ids,
    tell_clients,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

DTYPES = (torch.float32, torch.float16, torch.int64)
UPDATE = MessageCode.ParameterUpdate


def parameters(number: int, elements: int) -> list[torch.Tensor]:
    """What the top sends in a round: one tensor of `elements`, and one of three dimensions."""
    dtype = DTYPES[number % len(DTYPES)]
    long = (torch.arange(elements) % 251).to(dtype) / (4 if dtype.is_floating_point else 1)
    return [long.to(dtype), torch.arange(24).to(dtype).view(2, 3, 4) - 12]


def update(sent: Sequence[torch.Tensor], told: int) -> list[torch.Tensor]:
    """What client `told` makes of it."""
    return [*(tensor + told for tensor in sent), torch.tensor([told]).to(sent[0].dtype)]


def same(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.dtype is b.dtype and a.shape == b.shape and torch.equal(a, b)
        for a, b in zip(one, other, strict=True)
    )


class Top:
    """The server that all others are below."""

    def __init__(self, network: DistNetwork, given: argparse.Namespace) -> None:
        self.network = network
        self.given = given
        self.coordinator: Coordinator = hear_clients(network, given.mode)
        self.there = set(self.coordinator.ids())
        self.updates = self.wrong = 0
        self.lost: list[int] = []  # ranks

    def run(self) -> int:
        values.report("clients", self.coordinator.total)
        number = rest = 0
        while rest < self.given.rounds:
            self.round(number)
            number += 1
            if self.coordinator.total - len(self.there) >= self.given.until_gone:
                rest += 1
        for rank in self.ranks():
            send_to(self.network, self.mine(rank), None, MessageCode.Exit, rank)
        for rank in self.ranks():
            while self.network.recv(rank)[1] is not MessageCode.Exit:
                self.wrong += 1
        gone = sorted(set(self.coordinator.ids()) - self.there)
        values.report("updates", self.updates)
        values.report("wrong", self.wrong)
        values.report("gone", " ".join(map(str, gone)))
        return 1 if self.wrong else 0

    def ranks(self) -> list[int]:
        return [rank for rank in self.coordinator.map if rank not in self.lost]

    def mine(self, rank: int) -> list[int]:
        """The ids of `rank` that are there, as it knows them."""
        ids = [each for each in self.coordinator.ids(rank) if each in self.there]
        return [self.told(each, rank) for each in ids]

    def told(self, each: int, rank: int) -> int:
        begin = 0 if self.given.mode == "GLOBAL" else self.coordinator.ids(rank).start
        return each - begin

    def round(self, number: int) -> None:
        """Parameters to all who are there, an update from each."""
        if number < 3:
            values.report("round", number + 1)
        sent = parameters(number, self.given.elements)
        for rank in self.ranks():
            if self.mine(rank):
                try:
                    send_to(self.network, self.mine(rank), sent, UPDATE, rank)
                except PeerLost as error:
                    self.rank_lost(error)
        due = set(self.there)
        while due & self.there:
            try:
                sender, code, content = self.network.recv()
            except PeerLost as error:
                self.rank_lost(error)
                continue
            if code is MessageCode.Exit:
                told, _ = take_ids(content)
                self.there -= {self.coordinator.id_of(sender, each) for each in told}
                print(f"rank {sender}: ids {told} are gone", flush=True)
                continue
            ids, got = origin(self.coordinator, sender, content)
            self.updates += 1
            expected = [each for each in ids if each in due]
            if not expected or not self.fits(sent, ids, expected[0], got or []):
                self.wrong += 1
                print(f"round {number}: from {list(ids)} came what was not due", flush=True)
            due -= set(expected[:1] if not self.given.average else ids)

    def fits(
        self, sent: Sequence[torch.Tensor], ids: range, first: int, got: list[torch.Tensor]
    ) -> bool:
        """Whether it is the update of the first id of these that has not come yet."""
        if not self.given.average:
            return same(got, update(sent, self.told_below(first, ids)))
        rank = next(
            rank for rank in self.coordinator.map if ids.start in self.coordinator.ids(rank)
        )
        each = [update(sent, self.told(one, rank)) for one in ids]
        return same(
            got,
            [
                torch.stack(parts).double().mean(0).to(sent[0].dtype)
                for parts in zip(*each, strict=True)
            ],
        )

    def told_below(self, each: int, ids: range) -> int:
        """What the client itself knows `each` as; `ids` are those of its rank."""
        return each if self.given.mode == "GLOBAL" else each - ids.start

    def rank_lost(self, error: PeerLost) -> None:
        if error.peer not in self.lost:
            self.lost.append(error.peer)
            self.there -= set(self.coordinator.ids(error.peer))
            values.report("lost", error.peer)
            print(error, flush=True)


def top(given: argparse.Namespace) -> int:
    with network(given) as net:
        values.report("interface", net.interface)
        return Top(net, given).run()


def middle(given: argparse.Namespace) -> int:
    Scheduler(
        network(given, "upper_"),
        network(given),
        mode=given.mode,
        first_id=given.first_id,
        origins=not given.plain,
    ).run()
    values.report("ended", "in order")
    return 0


def client(given: argparse.Namespace) -> int:
    """Sends an update for each of its ids that it is told."""
    with network(given) as net:
        values.report("interface", net.interface)
        tell_clients(net, given.stands_for)
        received = 0
        while True:
            _, code, content = net.recv(0)
            if code is MessageCode.Exit:
                net.send(None, MessageCode.Exit)
                break
            ids, sent = take_ids(content)
            received += 1
            for told in ids:
                net.send(update(sent, told), UPDATE)
            if received == 1:
                values.report("first_ids", " ".join(map(str, ids)))
        values.report("received", received)
        values.report("ended", "in order")
    return 0


def network(given: argparse.Namespace, prefix: str = "") -> DistNetwork:
    host, port, size, rank, ethernet = (
        getattr(given, f"{prefix}{name}") for name in ("host", "port", "size", "rank", "ethernet")
    )
    return DistNetwork((host, port), size, rank, ethernet, timeout=given.timeout)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fedtest.comm.hierarchical.trial",
        description="One host of a tree of servers.",
    )
    roles = {"top": top, "middle": middle, "client": client}
    parser.add_argument("role", choices=roles)
    for prefix in ("", "upper-"):
        needed = not prefix
        parser.add_argument(f"--{prefix}host", required=needed)
        parser.add_argument(f"--{prefix}port", type=int, required=needed)
        parser.add_argument(f"--{prefix}size", type=int, required=needed)
        parser.add_argument(f"--{prefix}rank", type=int, required=needed)
        parser.add_argument(f"--{prefix}ethernet")
    parser.add_argument("--mode", default="GLOBAL", choices=("LOCAL", "GLOBAL"))
    parser.add_argument("--first-id", type=int, default=0)
    parser.add_argument("--average", action="store_true", help="the middle averages")
    parser.add_argument("--plain", action="store_true", help="nothing in front of what goes up")
    parser.add_argument("--stands-for", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--until-gone", type=int, default=0)
    parser.add_argument("--elements", type=int, default=500_000)
    parser.add_argument("--timeout", type=float, default=120.0)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        return roles[given.role](given)
    except (CommError, ConnectorLost) as error:
        values.report("error", type(error).__name__)
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
