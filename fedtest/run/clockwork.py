"""Those who act while processes run, by what happens and by the time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedtest.engine.base import ProcessKey
    from fedtest.run.events import Item

NEVER = math.inf


class Follower:
    """Does nothing at each occasion; all calls come from the one thread that owns the evidence.

    Times are seconds since the run began.
    """

    def taken(self, item: Item) -> None:
        """An item was taken from the inbox, and what it tells is in the evidence."""

    def wake(self, now: float) -> float:
        """Do what is due; the next moment at which to be woken, or NEVER.

        It is called after each item, too, so it must be quick when nothing is due.
        """
        del now
        return NEVER

    def returns(self, key: ProcessKey) -> bool:
        """Whether this one will start the process again, which has ended."""
        del key
        return False

    @property
    def gives_up(self) -> bool:
        """Whether the run need not go on."""
        return False

    def wind_up(self) -> None:
        """Processes need not go on: begin to undo what was done, and begin nothing new."""

    @property
    def away(self) -> frozenset[str]:
        """Hosts that cannot be looked into at the moment. May be asked from any thread."""
        return frozenset()

    @property
    def busy(self) -> bool:
        """Whether something is under way that `taken` will be told of."""
        return False

    def close(self) -> None:
        """Nothing is under way when this returns."""
