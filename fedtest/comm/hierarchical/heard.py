"""What a connector reads from the other side, and when it has heard of it last."""

from __future__ import annotations

import math
import time
from typing import Any

from fedtest.comm.codes import MessageCode

ALIVE = (None, MessageCode.SetUp, None)
"""Says that a side is there, though what it does takes long; no message for anybody else."""


class Heard:
    """The queue from the other side as whoever reads it sees it: without ALIVE."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.at = math.inf
        """When something has come last; inf while that is dealt with."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next message. Raises queue.Empty, and what the queue raises besides."""
        began = time.monotonic()
        self.at = min(self.at, began)
        left = timeout
        while True:
            message = self.queue.get(block, left)
            if not _is_alive(message):
                self.at = math.inf
                return message
            self.at = time.monotonic()
            if timeout is not None:
                left = max(0.0, began + timeout - self.at)

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the queue can do."""
        if name == "queue":  # in a copy that is being made, it is not there yet
            raise AttributeError(name)
        return getattr(self.queue, name)


def _is_alive(message: Any) -> bool:
    return (
        type(message) is tuple
        and len(message) == 3
        and message[0] is None
        and message[1] is MessageCode.SetUp
        and message[2] is None
    )
