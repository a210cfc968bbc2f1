"""Do ranks share a machine that has fewer processors than that?"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fedtest.ring.exchanges.two_ring import TwoRing

if TYPE_CHECKING:
    from fedtest.ring.group import Group

# Of the kernel that runs now: containers and namespaces of one machine have it in common.
BOOT = Path("/proc/sys/kernel/random/boot_id")


def crowded(group: Group, phase: str) -> bool:
    """On some machine, the same on all ranks. All call it alike. Raises PeerError."""
    table = torch.zeros(group.size, 2, dtype=torch.int64)
    table[group.rank] = torch.tensor([_machine(group.rank), os.cpu_count() or 1])
    TwoRing(group).total(table.view(-1), phase)
    said = [(int(machine), int(processors)) for machine, processors in table]
    ranks = Counter(machine for machine, _ in said)
    return any(ranks[machine] > processors for machine, processors in said)


def _machine(rank: int) -> int:
    try:
        name = BOOT.read_bytes()
    except OSError:  # by itself, as far as one can tell
        name = str(rank).encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:7], "big")
