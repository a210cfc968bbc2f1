"""Are there more ranks than processors for them?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from fedtest.ring.exchanges.two_ring import TwoRing

if TYPE_CHECKING:
    from fedtest.ring.group import Group


def oversubscribed(group: Group, phase: str) -> bool:
    """Whether all ranks meet over loopback, on one machine, and each lacks a processor.

    The same on all ranks, who call it alike. A limit of processor time is not looked at.
    Raises PeerError.
    """
    own = [int(group.loopback), len(os.sched_getaffinity(0))]
    said = torch.tensor(own, dtype=torch.int64)
    TwoRing(group).total(said, f"{phase}, counting processors")
    on_loopback, processors = said.tolist()
    # Each has told the same number, unless ranks are bound to processors of their own.
    return bool(on_loopback == group.size and group.size**2 > processors)
