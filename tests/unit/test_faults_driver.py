"""When faults come and go: the driver alone, with hands that do nothing and a clock of the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from fedtest.engine.base import ProcessKey, RunTag
from fedtest.engine.fake import FakeEngine
from fedtest.engine.owner import Owner
from fedtest.errors import NotAsPlanned
from fedtest.run.checks.needs import declare
from fedtest.run.clockwork import NEVER
from fedtest.run.events import EventLog
from fedtest.run.evidence import Evidence, ProcessState
from fedtest.run.faults.driver import FaultDriver
from fedtest.run.faults.step import Done, Step
from fedtest.run.logs import ProcessLog
from fedtest.run.result import Verdict
from fedtest.scenario.load import loads
from pretend_links import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[..., Drive]]:
    made: list[Drive] = []

    def drive(*faults: str, begin: float = 0.0) -> Drive:
        made.append(Drive(tmp_path, *faults, begin=begin))
        return made[-1]

    yield drive
    for item in made:
        item.close()


CUT = "cut: {network: data}"


def test_at_a_time_and_for_a_time_from_when_it_was_applied(drive: Callable[..., Drive]) -> None:
    run = drive(f"{CUT}, at: 5s, for: 2s, id: x")
    assert run.next == 5
    assert run.at(4.9) == []
    assert run.at(5) == ["apply x"]
    assert run.next == NEVER
    assert run.driver.busy
    run.done(at=6.5)
    assert run.at(7) == []
    assert run.next == 8.5
    assert run.at(8.5) == ["heal x"]
    run.done(at=8.7)
    assert run.state("x") == ([5], [6.5], [8.7])
    run.driver.judge()
    assert run.driver.problems == []
    assert run.told == ["fault x applied: seen", "fault x healed: seen"]


def test_the_times_of_those_without_a_moment_count_from_the_processes_start(
    drive: Callable[..., Drive],
) -> None:
    run = drive(f"{CUT}, at: 5s", begin=100)
    assert run.next == 105


def test_when_a_line_comes_and_some_time_after_it(drive: Callable[..., Drive]) -> None:
    run = drive(f"{CUT}, when: {{process: work, host: a, log: 'step=5 '}}, at: 3s, for: 1s, id: x")
    assert run.next == NEVER
    run.evidence.processes[ProcessKey("a", "work")].line("stdout", "step=50 ", 6.0)
    assert run.at(7) == []
    run.evidence.processes[ProcessKey("a", "work")].line("stdout", "step=5 ", 7.0)
    assert run.at(8) == []
    assert run.next == 10
    assert run.at(10) == ["apply x"]


def test_of_several_hosts_the_first_counts(drive: Callable[..., Drive]) -> None:
    run = drive(f"{CUT}, when: {{process: work, state: exited}}, id: x")
    run.now = 3
    run.ends(WORK_B)
    assert run.at(4) == ["apply x"]
    assert run.state("x")[0] == [3]


def test_when_another_fault_is_healed_and_until_a_third_is_applied(
    drive: Callable[..., Drive],
) -> None:
    run = drive(
        f"{CUT}, at: 1s, for: 1s, id: x",
        f"{CUT}, when: x.healed, until: z.applied, id: y",
        f"{CUT}, at: 9s, id: z",
    )
    assert run.at(1) == ["apply x"]
    run.done()
    assert run.at(2) == ["heal x"]
    run.done()
    assert run.at(2) == ["apply y"]
    run.done()
    assert run.at(8) == []
    assert run.at(9) == ["apply z"]
    run.done()
    assert run.at(9) == ["heal y"]


def test_until_something_that_was_before_it_does_not_count(drive: Callable[..., Drive]) -> None:
    run = drive(f"{CUT}, at: 5s, until: {{host: a, log: go}}, id: x")
    log = run.evidence.processes[ProcessKey("a", "work")]
    log.line("stdout", "go", 1.0)
    assert run.at(5) == ["apply x"]
    run.done()
    assert run.at(6) == []
    log.line("stdout", "go", 6.5)
    assert run.at(7) == ["heal x"]


def test_when_a_host_has_sent_so_many_bytes(drive: Callable[..., Drive]) -> None:
    run = drive(f"{CUT}, when: {{host: a, network: data, bytes: 1MB}}, id: x")
    for count, ordered in ((999_999, []), (1_000_000, ["apply x"])):
        run.engine.defects.traffic = {("a", "eth0"): count}
        run.evidence.after.update(run.engine.observe(run.run, ["a"], 1))
        assert run.at(3) == ordered


def test_a_repeated_fault_comes_every_so_often_or_as_soon_as_it_is_healed(
    drive: Callable[..., Drive],
) -> None:
    run = drive(f"{CUT}, at: 1s, for: 2s, repeat: {{times: 3, every: 5s}}, id: x")
    assert run.at(1) == ["apply x"]
    run.done()
    assert run.at(3) == ["heal x"]
    run.done()
    assert run.at(5.9) == []
    assert run.at(6) == ["apply x"]
    run.done()
    assert run.at(8) == ["heal x"]
    run.done(at=20)  # It took long.
    assert run.at(20) == ["apply x"]
    run.done()
    assert run.at(22) == ["heal x"]
    run.done()
    assert run.at(99) == []
    assert run.next == NEVER
    assert run.state("x")[1] == [1, 6, 20]


def test_a_kill_is_over_at_once_and_can_come_again(drive: Callable[..., Drive]) -> None:
    run = drive("kill: {process: work, signal: USR1}, at: 1s, repeat: {times: 2, every: 1s}, id: x")
    assert run.at(1) == ["apply x"]
    assert set(run.hands.steps[0].pids) == {ProcessKey("a", "work"), WORK_B}
    run.done()
    assert not run.driver.busy
    assert run.at(2) == ["apply x"]
    run.done()
    run.driver.judge()
    assert run.driver.problems == []
    assert run.state("x")[2] == []


def test_a_process_that_has_ended_is_handed_on_as_not_running(drive: Callable[..., Drive]) -> None:
    run = drive("kill: {process: work}, at: 1s, id: x")
    run.ends(WORK_B)
    run.at(1)
    assert run.hands.steps[0].pids == {ProcessKey("a", "work"): 100, WORK_B: None}


def test_a_restarted_process_starts_when_its_end_was_seen(drive: Callable[..., Drive]) -> None:
    run = drive("restart: {process: work, host: b}, at: 1s, id: x")
    run.at(1)
    assert run.driver.returns(WORK_B)
    run.done()
    assert run.at(1.5) == []
    assert run.started == []
    run.ends(WORK_B)
    run.at(2)
    assert run.started == [WORK_B]
    assert not run.driver.returns(WORK_B)
    assert run.state("x") == ([1], [1], [2])


def test_a_host_that_was_off_brings_all_its_processes_back(drive: Callable[..., Drive]) -> None:
    run = drive("stop: {host: b}, at: 1s, for: 3s, id: x")
    run.at(1)
    run.ends(WORK_B)
    run.ends(OTHER_B)
    assert run.driver.returns(WORK_B)
    run.done()
    run.at(2)
    assert run.started == []
    assert run.at(4) == ["heal x"]
    run.done()
    run.at(5)
    assert run.started == [OTHER_B, WORK_B]
    run.driver.judge()
    assert run.driver.problems == []


@pytest.mark.parametrize(
    "fault",
    [
        "stop: {host: b, start: false}, at: 1s, for: 3s, id: x",
        "stop: {host: b}, at: 1s, id: x",
        "restart: {host: b, start: false}, at: 1s, id: x",
    ],
)
def test_processes_stay_ended_if_that_is_asked_for_or_the_host_stays_off(
    drive: Callable[..., Drive], fault: str
) -> None:
    run = drive(fault)
    run.at(1)
    assert not run.driver.returns(WORK_B)
    run.ends(WORK_B)
    run.done()
    run.at(4)
    if run.hands.steps:
        run.done()
    run.at(5)
    assert run.started == []


def test_one_that_had_ended_before_is_not_brought_back(drive: Callable[..., Drive]) -> None:
    run = drive("stop: {host: b}, at: 1s, for: 1s, id: x")
    run.ends(OTHER_B)
    run.at(1)
    run.ends(WORK_B)
    run.done()
    run.at(2)
    run.done()
    run.at(3)
    assert run.started == [WORK_B]


@pytest.mark.parametrize(("action", "said"), [("apply", "applied"), ("heal", "healed")])
def test_a_step_that_failed_ends_the_run_as_invalid(
    drive: Callable[..., Drive], action: str, said: str
) -> None:
    run = drive(f"{CUT}, at: 1s, for: 1s, id: x", f"{CUT}, at: 50s, id: y")
    run.at(1)
    if action == "heal":
        run.done()
        run.at(2)
    assert not run.driver.gives_up
    run.done(error=NotAsPlanned("it rains", remedy="wait"))
    assert run.driver.gives_up
    # What did not come because of it is not held against the others.
    assert run.problem() == f"fault x: was not {said}: it rains"
    assert run.driver.problems[0].remedy == "wait"


def test_when_all_ends_what_is_there_is_healed_and_nothing_comes_any_more(
    drive: Callable[..., Drive],
) -> None:
    run = drive(
        f"{CUT}, at: 1s, id: there",
        f"{CUT}, at: 3s, id: coming",
        f"{CUT}, at: 2s, for: 90s, id: beginning",
    )
    run.at(1)
    run.done()
    assert run.at(2) == ["apply beginning"]
    run.driver.wind_up()
    assert [f"{step.action} {step.fault.id}" for step in run.hands.steps] == [
        "apply beginning", "heal there"
    ]  # fmt: skip
    assert run.driver.busy
    run.done()  # What was being applied is healed at once.
    assert run.hands.steps[-1].action == "heal"
    run.done()
    run.done()
    assert not run.driver.busy
    assert run.at(99) == []
    assert run.problem() == "fault coming: was never applied: everything had ended before its time"


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("{process: work, host: a, log: ready}", "work on a prints 'ready'"),
        ("{host: b, log: ready}", "any process on b prints 'ready'"),
        ("{process: other, state: succeeded}", "other ends with 0"),
        ("{process: work, value: loss, is: '< 1'}", "work reports loss < 1"),
        ("{host: a, network: data, bytes: 1kB}", "a sends 1000 bytes on data"),
        ("{host: a, network: data, bytes: 1kB, direction: rx}", "a receives 1000 bytes on data"),
    ],
)
def test_a_moment_that_never_came_is_told(
    drive: Callable[..., Drive], when: str, words: str
) -> None:
    run = drive(f"{CUT}, when: {when}, id: x")
    run.at(99)
    run.driver.wind_up()
    assert run.problem() == f"fault x: was never applied: it did not happen that {words}"


def test_one_that_came_less_often_than_asked_for_is_told(drive: Callable[..., Drive]) -> None:
    run = drive(f"{CUT}, at: 1s, for: 1s, repeat: {{times: 3, every: 5s}}, id: x")
    run.at(1)
    run.done()
    run.at(2)
    run.done()
    run.driver.wind_up()
    assert run.problem().startswith("fault x: was applied 1 of 3 times: everything had ended")


def test_one_that_could_not_be_healed_in_time_is_told(drive: Callable[..., Drive]) -> None:
    run = drive(f"{CUT}, at: 1s, id: x")
    run.at(1)
    run.done()
    run.driver.wind_up()
    assert run.problem() == "fault x: was not healed in time"


def test_a_defect_of_the_hands_is_no_fault_of_the_scenario(drive: Callable[..., Drive]) -> None:
    run = drive(f"{CUT}, at: 1s")
    run.hands.defect = ZeroDivisionError("ours")
    with pytest.raises(ZeroDivisionError):
        run.driver.judge()
