"""A middle server that averages: one update goes up for all that its clients send in a round.

    python middle.py --upper HOST:PORT --upper-ethernet wan0 \
        --lower HOST:PORT --lower-ethernet lan0 --clients 2

It is rank 1 of the two above, and rank 0 of its clients.
"""

from __future__ import annotations

import argparse
import sys

import torch

from fedtest.comm import CommError, DistNetwork, MessageCode
from fedtest.comm.hierarchical import ClientConnector, Scheduler


class Averaging(ClientConnector):
    """Keeps the updates of its clients until there is one of each, and passes on their mean."""

    def setup(self) -> None:
        super().setup()
        self.updates: list[list[torch.Tensor]] = []

    def on_receive(self, sender: int, message_code: MessageCode, payload: list[torch.Tensor]):
        self.updates.append(payload)
        if len(self.updates) == self.coordinator.total:
            mean = [average(each) for each in zip(*self.updates, strict=True)]
            self.updates.clear()
            super().on_receive(0, message_code, mean)  # 0: from all of them


def average(tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.stack(tensors).double().mean(0).to(tensors[0].dtype)


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(description="A middle server that averages.")
    for side in ("upper", "lower"):
        parser.add_argument(f"--{side}", type=address, required=True, metavar="HOST:PORT")
        parser.add_argument(f"--{side}-ethernet")
    parser.add_argument("--clients", type=int, required=True, help="how many ranks are below")
    given = parser.parse_args()
    try:
        Scheduler(
            DistNetwork(given.upper, 2, 1, given.upper_ethernet),
            DistNetwork(given.lower, given.clients + 1, 0, given.lower_ethernet),
            mode="GLOBAL",
            origins=True,
            client_connector=Averaging,
        ).run()
    except CommError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
