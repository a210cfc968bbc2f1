"""Looks at those who still run when another has failed: they may have part in it, or hang on it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fedtest.run import postmortem
from fedtest.run.checks.exit import expected
from fedtest.run.clockwork import Follower
from fedtest.run.events import Exited

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedtest.engine.base import Engine, ProcessKey, RunTag
    from fedtest.run.artifacts import RunDirectory
    from fedtest.run.events import Item
    from fedtest.run.evidence import Evidence
    from fedtest.scenario.model import Scenario

_DEADLINE = 30.0
_STACKS = "hosts/{host}.failed.stacks.txt"


class Witness(Follower):
    """Once per run, in a thread of its own, so that processes can talk on meanwhile."""

    def __init__(
        self,
        scenario: Scenario,
        engine: Engine,
        run: RunTag,
        evidence: Evidence,
        directory: RunDirectory,
        *,
        away: Callable[[], frozenset[str]],
        returns: Callable[[ProcessKey], bool],
    ) -> None:
        self._scenario = scenario
        self._engine = engine
        self._run = run
        self._evidence = evidence
        self._directory = directory
        self._away = away
        self._returns = returns
        self._thread: threading.Thread | None = None
        self._found = postmortem.Autopsy()
        self._defect: Exception | None = None

    def taken(self, item: Item) -> None:
        """Whether it was a process that ended as nobody expects."""
        if isinstance(item, Exited):
            state = self._evidence.processes[item.key]
            if self._returns(item.key):
                return  # A fault has ended it, and starts it again.
            if not expected(self._scenario, item.key.process, item.key.host, state):
                self.look(f" when {item.key} had ended with {item.status}")

    def look(self, when: str) -> None:
        """Begin to look at every host on which something runs, if that has not been done."""
        away = self._away()  # One that stands still would keep all of them from being seen.
        running = [
            key.host
            for key, state in self._evidence.processes.items()
            if state.running and key.host not in away
        ]
        if self._thread is None and running:
            hosts = list(dict.fromkeys(running))
            self._thread = threading.Thread(
                target=self._look, args=(hosts, when), name="witness", daemon=True
            )
            self._thread.start()

    def finish(self) -> postmortem.Autopsy:
        """What was saved, when that is done; nothing is under way then."""
        if self._thread is not None:
            self._thread.join(2 * _DEADLINE + 1)
        return self._found

    def raise_defect(self) -> None:
        """What looking raised, other than the engine's own errors."""
        if self._defect is not None:
            raise self._defect

    def _look(self, hosts: list[str], when: str) -> None:
        try:
            self._found = postmortem.look(
                self._engine,
                self._run,
                hosts,
                self._directory,
                "failed",
                stacks=_STACKS,
                when=when,
                deadline=_DEADLINE,
            )
        except Exception as error:  # noqa: BLE001 - the runner's thread is told
            self._defect = error
