"""A thread that applies and heals faults, one after the other, while the runner goes on reading.

What is to be healed comes before what is to be applied, so that nothing lasts
for longer than it must.
"""

from __future__ import annotations

import itertools
import queue
import threading
from typing import TYPE_CHECKING

from fedtest.errors import FedtestError
from fedtest.run.faults.step import Done

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.run.faults.actions import Actions
    from fedtest.run.faults.step import Step

_LAST_STEP = 180.0
"""Seconds to wait for a step under way when everything ends.

One is made of waits that each have a shorter end. One of very many of them
could still take longer: then hosts are removed under its hands, and it fails.
"""


class Hands:
    """Takes steps and tells what came of each by calling `tell`, from its thread."""

    def __init__(self, actions: Actions, tell: Callable[[Done], None]) -> None:
        self._actions = actions
        self._tell = tell
        self._steps: queue.PriorityQueue[tuple[int, int, Step | None]] = queue.PriorityQueue()
        self._count = itertools.count()
        self._closing = threading.Event()
        self._defect: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="faults", daemon=True)
        self._thread.start()

    @property
    def away(self) -> frozenset[str]:
        """Hosts that faults have switched off or halted."""
        return self._actions.away

    def take(self, step: Step) -> None:
        """Do it when those before it are done."""
        self._put(1 if step.action == "apply" else 0, step)

    def close(self) -> None:
        """Begin nothing more, and wait for the step under way."""
        self._closing.set()
        self._put(2, None)
        self._thread.join(_LAST_STEP)

    def raise_defect(self) -> None:
        """What a step raised, other than errors of ours."""
        if self._defect is not None:
            raise self._defect

    def _put(self, rank: int, step: Step | None) -> None:
        self._steps.put((rank, next(self._count), step))

    def _work(self) -> None:
        while (step := self._steps.get()[2]) is not None and not self._closing.is_set():
            act = self._actions.apply if step.action == "apply" else self._actions.heal
            try:
                done = act(step)
            except FedtestError as error:
                done = Done(step, 0.0, error=error)
            except Exception as error:  # noqa: BLE001 - the runner's thread is told
                self._defect = error
                done = Done(step, 0.0, error=FedtestError(f"{type(error).__name__}: {error}"))
            self._tell(done)
