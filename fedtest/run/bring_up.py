"""From a scenario to hosts that are as it asks: made, named, given, settled, conditioned.

Every step is read back or measured before the next; what is not as asked for
makes the run invalid before any process starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.errors import SubnetTaken
from fedtest.plan import make_plan
from fedtest.plan_text import plan_to_dict
from fedtest.run import provisions
from fedtest.run.conditions import Conditions
from fedtest.run.evidence import Evidence
from fedtest.run.readback import compare
from fedtest.run.settle import Settings
from fedtest.subnets import choose

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from ipaddress import IPv4Network

    from fedtest.engine.base import Engine, Prepared, RunTag
    from fedtest.engine.snapshot import Snapshot
    from fedtest.links.mechanism import Mechanism
    from fedtest.plan import Plan
    from fedtest.run.artifacts import RunDirectory
    from fedtest.run.events import EventLog
    from fedtest.run.observer import Observer
    from fedtest.run.secrets import Secrets
    from fedtest.scenario.model import Scenario

REALISE_DEADLINE = 300.0
OBSERVE_DEADLINE = 60.0
DESTROY_DEADLINE = 120.0
_SUBNET_TRIES = 64


class BringUp:
    """The hosts of one run. `stage` is what the run's stages are told by."""

    def __init__(  # noqa: PLR0917 - it is made in one place
        self,
        scenario: Scenario,
        engine: Engine,
        run: RunTag,
        directory: RunDirectory,
        events: EventLog,
        observer: Observer,
        secrets: Secrets,
        stage: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._scenario = scenario
        self._engine = engine
        self._run = run
        self._directory = directory
        self._events = events
        self._observer = observer
        self._secrets = secrets
        self._stage = stage
        self.settings = Settings(engine, run, directory, events, observer)
        self.links: Mechanism | None = None

    def hosts(self, prepared: Prepared, netem: bool | None) -> Evidence:
        """The hosts, ready for processes. NotAsPlanned, InvalidError, EngineError."""
        with self._stage("hosts"):
            plan, before = self._realise(prepared)
            evidence = Evidence(plan, before=dict(before))
            compare(plan, before, settled=not plan.settled)
            self.verify(plan, before)
        # What measuring sends is before the processes' own bytes: each is looked at anew.
        if plan.settled:
            with self._stage("settings"):
                self.settings.settle(plan)
                self._look(evidence)
                compare(plan, evidence.before)
        if plan.conditioned:
            with self._stage("links"):
                conditions = Conditions(
                    self._engine, self._run, self._directory, self._events, self._observer
                )
                self.links = conditions.make(plan, netem)
                self._look(evidence)
        return evidence

    def verify(self, plan: Plan, found: Mapping[str, Snapshot]) -> None:
        """What hosts were given is really there. NotAsPlanned."""
        revealed = self._secrets.revealed(plan)
        provisions.verify(self._engine, self._run, revealed, found, OBSERVE_DEADLINE)

    def _look(self, evidence: Evidence) -> None:
        names = [host.name for host in evidence.plan.hosts]
        evidence.before = dict(self._engine.observe(self._run, names, OBSERVE_DEADLINE))
        self._keep(evidence.before)

    def _realise(self, prepared: Prepared) -> tuple[Plan, Mapping[str, Snapshot]]:
        """Somebody may hold a subnet that we chose: then choose again."""
        taken: list[IPv4Network] = []
        while True:
            plan = make_plan(self._scenario, choose(self._scenario, self._run.id, taken))
            self._directory.json("plan.json", plan_to_dict(plan))
            self._observer.planned(plan)
            progress = self._observer.stage_progress
            try:
                found = self._engine.realise(plan, self._run, prepared, progress, REALISE_DEADLINE)
            except SubnetTaken as error:
                ours = [network.subnet for network in plan.networks if not network.fixed]
                hit = any(subnet.overlaps(error.subnet) for subnet in ours)
                if not hit or len(taken) >= _SUBNET_TRIES:
                    raise
                taken.append(error.subnet)
                self._events.add("subnet taken", subnet=error.subnet)
                self._engine.destroy(self._run.id, DESTROY_DEADLINE)
                continue
            self._keep(found)
            return plan, found

    def _keep(self, snapshots: Mapping[str, Snapshot]) -> None:
        for host, found in snapshots.items():
            self._directory.snapshot("before", host, found)
