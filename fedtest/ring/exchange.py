"""Averaging one flat buffer over all ranks by two rings of send and recv.

The first ring adds up: rank 0 sends its values to rank 1; each next rank adds
its own to what it receives and sends the result on; the last rank then holds
the sum of all and sends it to rank 0. The second ring spreads: the sum goes
from rank 0 onwards and stops at the last rank but one, for the last has it.
Then every rank divides by the world size. (Source: the algorithm of
ring-reduce, a published example of gradients averaged by torch.distributed.)

With N ranks and B bytes there are 2(N-1) transfers, one after the other, so
the time is at least 2(N-1) B / bandwidth. Every rank r sends to (r+1) mod N
and to nobody else: one buffer, and a second one unless it is N-2 or N-1.

The order of addition is fixed, ((g0 + g1) + g2) + ..., and done once: all
ranks end with the same bits, also where floating-point addition is inexact.
"""

from typing import Any, Protocol

import torch
from torch import distributed as dist

from fedtest.ring.errors import PeerError

Tensor = Any  # torch.Tensor; torch has no types where this is checked


class Exchange(Protocol):
    """A way to combine what all ranks hold. All ranks call it alike and get the same bits.

    `flat` is one-dimensional, contiguous, of the same dtype and length on every
    rank (zero is a length), and overwritten in place. `phase` says where in
    the job it is called. Raises PeerError; the group is of no use afterwards.
    """

    def total(self, flat: Tensor, phase: str) -> None:
        """Replace `flat` by its sum over all ranks."""

    def average(self, flat: Tensor, phase: str) -> None:
        """Replace `flat`, of a floating dtype, by its mean over all ranks."""


class TwoRing:
    """The two rings over the default process group. Keeps one buffer to receive into."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size
        self.next = (rank + 1) % world_size
        self.previous = (rank - 1) % world_size
        self._incoming: Tensor = torch.empty(0)

    def average(self, flat: Tensor, phase: str) -> None:
        self.total(flat, phase)
        flat.div_(self.world_size)

    def total(self, flat: Tensor, phase: str) -> None:
        last = self.world_size - 1
        if last == 0:
            return
        first, second = f"{phase}, first ring", f"{phase}, second ring"

        if self.rank > 0:
            incoming = self._like(flat)
            self._receive(incoming, first)
            torch.add(incoming, flat, out=flat)
        self._send(flat, first)

        if self.rank < last:
            # Rank 0 gets the sum from the last rank: the first ring's last transfer.
            self._receive(flat, second if self.rank else first)
        if self.rank < last - 1:
            self._send(flat, second)

    def _like(self, flat: Tensor) -> Tensor:
        kept = self._incoming
        if kept.shape != flat.shape or kept.dtype != flat.dtype:
            self._incoming = torch.empty_like(flat)
        return self._incoming

    def _send(self, flat: Tensor, phase: str) -> None:
        try:
            dist.send(flat, self.next)
        except RuntimeError as error:
            raise PeerError(phase, self.next, "sending to", error) from error

    def _receive(self, flat: Tensor, phase: str) -> None:
        try:
            dist.recv(flat, self.previous)
        except RuntimeError as error:
            raise PeerError(phase, self.previous, "receiving from", error) from error
