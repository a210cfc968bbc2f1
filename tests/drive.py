"""A driver of faults alone, with hands that do nothing and a clock of the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedtest.engine.base import ProcessKey, RunTag
from fedtest.engine.fake import FakeEngine
from fedtest.engine.owner import Owner
from fedtest.run.checks.needs import declare
from fedtest.run.events import EventLog
from fedtest.run.evidence import Evidence, ProcessState
from fedtest.run.faults.driver import FaultDriver
from fedtest.run.faults.step import Done, Step
from fedtest.run.logs import ProcessLog
from fedtest.run.result import Verdict
from fedtest.scenario.load import loads
from pretend_links import plan_of

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
fedtest: 1
name: driven
networks: {mgmt: {}, data: {}}
hosts:
  a: {nics: {mgmt: mgmt0, data: eth0}}
  b: {nics: {mgmt: mgmt0, data: ib0}}
processes: {work: {hosts: [a, b], run: "true"}, other: {hosts: [b], run: "true"}}
checks: [exit: {process: work}]
faults: [FAULTS]
"""
WORK_B, OTHER_B = ProcessKey("b", "work"), ProcessKey("b", "other")


@dataclass
class Idle:
    """Takes steps, and leaves it to the test when they are done."""

    steps: list[Step] = field(default_factory=list)
    away: frozenset[str] = frozenset()
    defect: Exception | None = None

    def take(self, step: Step) -> None:
        self.steps.append(step)

    def close(self) -> None:
        pass

    def raise_defect(self) -> None:
        if self.defect is not None:
            raise self.defect


class Drive:
    """A driver at the test's command. `at(5)` lets the time come to 5 seconds."""

    def __init__(self, path: Path, *faults: str, begin: float = 0.0) -> None:
        text = SCENARIO.replace("FAULTS", ", ".join(f"{{{fault}}}" for fault in faults))
        plan = plan_of(text)
        engine, run = FakeEngine(), RunTag("r", "s", Owner.me())
        prepared = engine.prepare(plan, run, lambda _: None)
        before = engine.realise(plan, run, prepared, lambda _: None, 1)
        self.engine, self.run = engine, run
        self.now = 0.0
        self.evidence = Evidence(plan, before=dict(before))
        self.started: list[ProcessKey] = []
        self.told: list[str] = []
        for at, process in enumerate(plan.processes):
            key = ProcessKey(process.host, process.name)
            self.evidence.processes[key] = ProcessState(
                process, ProcessLog(path / str(at)), pid=100 + at, started=0.0
            )
        declare(loads(text).scenario, self.evidence)
        self.hands = Idle()
        self.events = EventLog(path / "events.jsonl")
        self.driver = FaultDriver(
            self.evidence,
            self.hands,  # type: ignore[arg-type] # it does what is needed of hands
            self.events,
            self._start_again,
            self.told.append,
            lambda: self.now,
        )
        self.at(begin)

    def close(self) -> None:
        self.events.close()
        for state in self.evidence.processes.values():
            state.log.close()

    def _start_again(self, key: ProcessKey) -> None:
        self.started.append(key)
        self.evidence.processes[key].begin(200, self.now)

    def at(self, now: float) -> list[str]:
        """What is ordered when it is `now`."""
        known, self.now = len(self.hands.steps), now
        self.next = self.driver.wake(now)
        return [f"{step.action} {step.fault.id}" for step in self.hands.steps[known:]]

    def ordered(self) -> list[str]:
        """What is under way."""
        return [f"{step.action} {step.fault.id}" for step in self.hands.steps]

    def done(self, at: float | None = None, **more: Any) -> None:
        """The first step under way is done."""
        step = self.hands.steps.pop(0)
        self.driver.taken(Done(step, self.now if at is None else at, "seen", **more))

    def ends(self, key: ProcessKey) -> None:
        state = self.evidence.processes[key]
        state.ended, state.status = self.now, 137

    def state(self, fault: str) -> tuple[list[float], list[float], list[float]]:
        state = self.evidence.faults[fault]
        return state.asked, state.applied, state.healed

    def problem(self) -> str:
        """What the one problem of the run is."""
        self.driver.judge()
        (found,) = self.driver.problems
        assert found.verdict is Verdict.INVALID
        return found.message
