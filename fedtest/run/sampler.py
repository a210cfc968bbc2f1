"""Looks at hosts again and again while their processes run.

What a check wants to know of a moment in the middle (which sockets a process
had) is gone at its end. Looks are close together until connections have been
seen in every host, whenever that is, then further apart.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fedtest.errors import FedtestError
from fedtest.run.events import Looked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fedtest.engine.base import Engine, RunTag
    from fedtest.engine.snapshot import Snapshot
    from fedtest.run.checks.needs import Looks
    from fedtest.run.events import Inbox

_SHORTEST, _LONGEST, _FACTOR = 0.2, 2.0, 1.5
_CLOSELY = 1.0
"""The longest pause when a check waits for something."""
_DEADLINE = 30.0


class Sampler:
    """A thread that puts `Looked` items into the inbox until it is stopped.

    `away`: hosts that cannot be looked into at the moment.
    """

    def __init__(
        self,
        engine: Engine,
        run: RunTag,
        looks: Looks,
        inbox: Inbox,
        away: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._engine = engine
        self._run = run
        self._looks = looks
        self._inbox = inbox
        self._away = away
        self._stop = threading.Event()
        self._defect: Exception | None = None
        self._thread = threading.Thread(target=self._look, name="sampler", daemon=True)
        self._wanted = bool(looks.hosts or looks.beside)
        if self._wanted:
            self._thread.start()

    def stop(self) -> None:
        """No look is under way when this returns. The inbox must take items or be closed."""
        self._stop.set()
        if self._wanted:
            self._thread.join(_DEADLINE)

    def raise_defect(self) -> None:
        """What looking raised, other than the engine's own errors."""
        if self._defect is not None:
            raise self._defect

    def _look(self) -> None:
        pause = 0.0
        longest = _CLOSELY if self._looks.closely else _LONGEST
        connected: set[str] = set()
        while not self._stop.wait(pause):
            relaxed = connected.issuperset(self._looks.hosts)
            pause = min(max(pause, _SHORTEST) * _FACTOR, longest) if relaxed else _SHORTEST
            try:
                away = self._away()
                hosts = [name for name in self._looks.hosts if name not in away]
                beside = {
                    name: item for name, item in self._looks.beside.items() if name not in away
                }
                found = self._engine.observe(self._run, hosts, _DEADLINE) if hosts else {}
                examined = self._engine.examine(self._run, beside, _DEADLINE) if beside else {}
            except (FedtestError, ValueError):
                continue  # A host may be on its way down; checks say if nothing was seen.
            except Exception as error:  # noqa: BLE001 - the runner's thread is told
                self._defect = error
                return
            connected |= {host for host, one in found.items() if _has_connection(one)}
            self._inbox.put(Looked(dict(found), dict(examined)))


def _has_connection(found: Snapshot) -> bool:
    return any(
        item.session is not None and item.state == "established" and not item.local.is_loopback
        for item in found.sockets
    )
