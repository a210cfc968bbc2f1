"""Ways to combine what all ranks hold; each a file with its idea and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.ring.exchanges.chunked import Chunked
from fedtest.ring.exchanges.gloo import Gloo
from fedtest.ring.exchanges.two_ring import TwoRing

if TYPE_CHECKING:
    from fedtest.ring.exchanges.base import Exchange
    from fedtest.ring.group import Group


def make(name: str, group: Group) -> Exchange:
    """The exchange of this name: one of options.EXCHANGES."""
    kinds: dict[str, type[Exchange]] = {"two-ring": TwoRing, "chunked": Chunked, "gloo": Gloo}
    return kinds[name](group)


__all__ = ["Chunked", "Gloo", "TwoRing", "make"]
