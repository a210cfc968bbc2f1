"""Signs of life: whether a process that this one has started still does anything at all."""

from __future__ import annotations

import os
from contextlib import suppress
from multiprocessing.connection import Pipe

EVERY = 1.0
"""Seconds after which a process says that it is there, and the other one looks whether it has."""


class Sign:
    """One process says that it is there, and never waits; the one that has started it looks."""

    def __init__(self) -> None:
        self._hears, self._says = Pipe(duplex=False)
        for end in (self._hears, self._says):
            os.set_blocking(end.fileno(), False)
        self._missed: int | None = None  # None until the first: a start may take long

    def say(self) -> None:
        # When it is full, nobody has looked for hours; there is enough in it.
        with suppress(OSError):
            os.write(self._says.fileno(), b"!")

    def missed(self) -> int:
        """How many looks, this one included, have found nothing since the last sign.

        Looks are counted instead of seconds: while who looks stands still as
        well, as when a terminal or a freezer stops all of them, none is missed.
        """
        try:
            said = os.read(self._hears.fileno(), 1 << 16)
        except OSError:
            said = b""
        if said:
            self._missed = 0
        elif self._missed is not None:
            self._missed += 1
        return self._missed or 0
