"""What every exchange can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedtest.ring.group import Group

Tensor = Any  # torch.Tensor; torch has no types where this is checked


class Exchange(ABC):
    """A way to combine what all ranks hold. All ranks call it alike and get the same bits.

    `flat` is one-dimensional, contiguous, of the same dtype and length on every
    rank (zero is a length), and overwritten in place. `phase` says where in
    the job it is called. Raises PeerError; the group is of no use afterwards.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.rank = group.rank
        self.size = group.size
        self.next = (group.rank + 1) % group.size
        self.previous = (group.rank - 1) % group.size

    @abstractmethod
    def total(self, flat: Tensor, phase: str) -> None:
        """Replace `flat` by its sum over all ranks."""

    def average(self, flat: Tensor, phase: str) -> None:
        """Replace `flat`, of a floating dtype, by its mean over all ranks."""
        self.total(flat, phase)
        if self.size > 1:
            flat.div_(self.size)
