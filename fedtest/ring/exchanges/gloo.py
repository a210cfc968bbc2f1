"""What Gloo itself does: `all_reduce`, the reference that the others are compared with.

It is a ring too (reduce-scatter, then all-gather, in segments), written in C++.
Each part of the values is added up once, at one rank, and spread from there; so
all ranks have the same bits.
"""

from __future__ import annotations

from typing import Any

from torch import distributed as dist

from fedtest.ring.exchanges.base import Exchange
from fedtest.ring.watch import NOBODY

Tensor = Any


class Gloo(Exchange):
    """`dist.all_reduce` over the group, with its time-out."""

    def total(self, flat: Tensor, phase: str) -> None:
        if self.size == 1:
            return
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.SUM
        options.timeout = self.group.patience
        try:
            # Said twice: an old torch does not look at the operation's own time-out.
            self.group.group.allreduce([flat], options).wait(self.group.patience)
        except RuntimeError as error:
            raise self.group.error(NOBODY, "all_reduce", f"{phase}, all-reduce", error) from error
