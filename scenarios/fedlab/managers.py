"""FedLab's own server, clients or middle server: `managers.py server|client|middle ...`.

Its synchronous server manager sends 0.25 to all clients for some rounds; its
passive client manager answers with what it was sent plus the id of each client.
What came is reported.
"""

# ruff: noqa: INP001 - a script
from __future__ import annotations

import argparse
import sys

import torch

try:
    from fedlab.core.client.manager import PassiveClientManager
    from fedlab.core.client.trainer import SERIAL_TRAINER
    from fedlab.core.network import DistNetwork
    from fedlab.core.server.hierarchical import Scheduler
    from fedlab.core.server.manager import SynchronousServerManager
except ImportError as error:
    sys.exit(f"FedLab is not installed here ({error}): pip install fedlab")

from fedtest import values

ROUNDS = 3


class Handler:
    """What a server manager asks of its handler."""

    def __init__(self) -> None:
        self.num_clients = 0
        self.got: list[float] = []

    @property
    def if_stop(self) -> bool:
        return len(self.got) >= ROUNDS * self.num_clients

    @property
    def downlink_package(self) -> list[torch.Tensor]:
        return [torch.full((2, 3), 0.25)]

    def sample_clients(self) -> list[int]:
        return list(range(self.num_clients))

    def load(self, payload: list[torch.Tensor]) -> bool:
        """Whether the round is over."""
        self.got.append(float(payload[0].view(-1)[0]))
        return len(self.got) % self.num_clients == 0


class Trainer:
    """What a client manager asks of its trainer."""

    type = SERIAL_TRAINER

    def __init__(self, clients: int) -> None:
        self.num_clients = clients
        self.got: list[float] = []
        self.ids: list[int] = []
        self.uplink_package: list[list[torch.Tensor]] = []

    def local_process(self, payload: list[torch.Tensor], id_list: list[int]) -> None:
        self.got.append(float(payload[0].view(-1)[0]))
        self.ids = id_list
        self.uplink_package = [[payload[0] + each] for each in id_list]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("role", choices=("server", "client", "middle"))
    for prefix in ("", "upper-"):
        parser.add_argument(f"--{prefix}host")
        parser.add_argument(f"--{prefix}port", type=int)
        parser.add_argument(f"--{prefix}size", type=int)
        parser.add_argument(f"--{prefix}rank", type=int)
        parser.add_argument(f"--{prefix}ethernet")
    parser.add_argument("--clients", type=int, default=2, help="that a client stands for")
    given = parser.parse_args()
    # FedLab is there, so nobody will wait for this one in vain.
    values.report("role", given.role)
    network = DistNetwork((given.host, given.port), given.size, given.rank, given.ethernet)
    if given.role == "server":
        handler = Handler()
        SynchronousServerManager(network, handler).run()
        values.report("clients", handler.num_clients)
        values.report("got", " ".join(map(str, sorted(handler.got))))
    elif given.role == "client":
        trainer = Trainer(given.clients)
        PassiveClientManager(network, trainer).run()
        values.report("ids", " ".join(map(str, trainer.ids)))
        values.report("rounds", len(trainer.got))
        values.report("got", " ".join(map(str, trainer.got)))
    else:
        upper = (given.upper_host, given.upper_port)
        Scheduler(
            DistNetwork(upper, given.upper_size, given.upper_rank, given.upper_ethernet), network
        ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
