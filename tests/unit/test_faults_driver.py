"""When faults come and go: the driver alone, with hands that do nothing and a clock of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from drive import WORK_B, Drive
from fedtest.engine.base import ProcessKey
from fedtest.errors import NotAsPlanned
from fedtest.run.clockwork import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable


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


def test_measuring_is_part_of_its_time_and_it_is_healed_at_once_when_that_took_longer(
    drive: Callable[..., Drive],
) -> None:
    run = drive(f"{CUT}, at: 5s, for: 1s, id: x")
    run.at(5)
    run.now = 5.7
    run.done(at=5.1)
    assert run.at(5.7) == []
    assert run.next == pytest.approx(6.1)
    again = drive(f"{CUT}, at: 5s, for: 1s, id: x")
    again.at(5)
    again.now = 7
    again.done(at=5.1)
    assert again.at(7) == ["heal x"]


INSIDE = [
    "pause: {process: work, host: b}",
    "resolve: {names: {a: missing}}",
    "fill: {host: b, path: /tmp}",
]


@pytest.mark.parametrize("fault", INSIDE)
def test_what_lies_within_a_paused_host_waits_until_it_goes_on(
    drive: Callable[..., Drive], fault: str
) -> None:
    run = drive(f"{fault}, at: 1s, for: 2s, id: x", "pause: {host: b}, at: 2s, for: 2s, id: p")
    run.at(1)
    run.done()
    run.at(2)
    assert run.at(3) == []  # It is being paused.
    run.done()
    assert run.at(4) == []
    assert run.next == 5
    assert run.at(5) == ["heal p"]
    assert run.next < 5  # At once, after it.
    assert run.at(5) == ["heal x"]
    run.done()
    run.done()
    run.driver.judge()
    assert run.driver.problems == []


def test_that_of_another_host_does_not(drive: Callable[..., Drive]) -> None:
    run = drive(f"{INSIDE[2]}, at: 1s, for: 2s, id: x", "pause: {host: a}, at: 2s, id: p")
    run.at(1)
    run.done()
    run.at(2)
    run.done()
    assert run.at(3) == ["heal x"]


@pytest.mark.parametrize("applied", [True, False])
def test_when_all_ends_paused_hosts_go_on_first(drive: Callable[..., Drive], applied: bool) -> None:
    run = drive(f"{INSIDE[2]}, at: 1s, id: x", "pause: {host: b}, at: 2s, id: p")
    run.at(1)
    run.done()
    run.at(2)
    if applied:
        run.done()
    run.driver.wind_up()
    if not applied:
        assert run.ordered() == ["apply p"]
        run.done()
    assert run.ordered() == ["heal p", "heal x"]


def test_when_a_pause_failed_what_lies_within_is_healed_all_the_same(
    drive: Callable[..., Drive],
) -> None:
    run = drive(f"{INSIDE[2]}, at: 1s, id: x", "pause: {host: b}, at: 2s, id: p")
    run.at(1)
    run.done()
    run.at(2)
    run.driver.wind_up()
    run.done(error=NotAsPlanned("it moves"))
    assert run.ordered() == ["heal x"]


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
    assert run.ordered() == ["apply beginning", "heal there"]
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
