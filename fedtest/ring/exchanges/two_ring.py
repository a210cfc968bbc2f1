"""Two rings of send and recv, one after the other.

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

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from fedtest.ring.exchanges.base import Exchange

if TYPE_CHECKING:
    from fedtest.ring.group import Group

Tensor = Any


class TwoRing(Exchange):
    """Keeps one buffer to receive into, as long as the values."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._incoming: Tensor = torch.empty(0)

    def total(self, flat: Tensor, phase: str) -> None:
        last = self.size - 1
        if last == 0:
            return
        group, first, second = self.group, f"{phase}, first ring", f"{phase}, second ring"

        if self.rank > 0:
            incoming = self._like(flat)
            group.receive(incoming, self.previous, first)
            torch.add(incoming, flat, out=flat)
        group.send(flat, self.next, first)

        if self.rank < last:
            # Rank 0 gets the sum from the last rank: the first ring's last transfer.
            group.receive(flat, self.previous, second if self.rank else first)
        if self.rank < last - 1:
            group.send(flat, self.next, second)

    def _like(self, flat: Tensor) -> Tensor:
        kept = self._incoming
        if kept.shape != flat.shape or kept.dtype != flat.dtype:
            self._incoming = torch.empty_like(flat)
        return self._incoming
