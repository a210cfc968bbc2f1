"""What becomes of processes that faults end: the driver of faults alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from drive import OTHER_B, WORK_B, Drive
from fedtest.engine.base import ProcessKey

if TYPE_CHECKING:
    from collections.abc import Callable


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
