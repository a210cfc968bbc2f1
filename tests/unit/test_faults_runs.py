"""Whole runs with faults, on the fake engine with real processes."""

# ruff: noqa: E501 - a line of a scenario is one thing

from __future__ import annotations

import os
import signal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from fedtest.engine.fake import Defects, FakeEngine
from fedtest.errors import EngineError, ExitCode
from fedtest.run import supervise
from fedtest.run.faults import machines
from fedtest.run.result import Verdict
from runs import HOSTS, Awaited, Lab, Recorder, Run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from fedtest.engine.base import Power, ProcessKey, RunTag

# It prints on, so that a test sees whether it stands still; a second life says so.
LOOP = "echo began; trap 'echo asked; exit 3' TERM; while :; do echo tick; sleep 0.02; done"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(supervise, "_GRACE", 1.0)
    monkeypatch.setattr(machines, "_WAIT", 5.0)
    return Lab(tmp_path)


def quoted(text: str) -> str:
    return text.replace("'", "''")


def faulted(*faults: str, checks: str, run: str = LOOP, more: str = "") -> str:
    listed = "".join(f"  - {{{fault}}}\n" for fault in faults)
    process = f"  work: {{hosts: [a], run: '{quoted(run)}'{more}}}\n"
    return f"{HOSTS}processes:\n{process}faults:\n{listed}checks: [{checks}]\n"


def kinds(run: Run) -> list[str]:
    return [event["kind"] for event in run.events() if "fault" in event["kind"]]


def result(run: Run, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = run.json("result.json")["faults"][number]
    return found


def log(run: Run) -> list[str]:
    return run.text("logs/a.work.log").splitlines()


class Healed(Recorder):
    """Makes a file when a fault has been healed; `loop` prints until then."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__()
        self.path = path
        self.loop = f"echo began; until [ -e {path} ]; do echo tick; sleep 0.02; done; exit 4"
        self._fault = fault

    def stage_progress(self, text: str) -> None:
        super().stage_progress(text)
        if text.startswith(f"fault {self._fault} healed"):
            self.path.touch()


KILL = "kill: {process: work}, when: {process: work, log: tick}, id: end"


def test_a_kill_is_an_event_a_result_and_a_moment_for_checks(lab: Lab) -> None:
    checks = (
        "{exit: {process: work, signal: KILL}}, {log: {process: work, match: began}},"
        " {time: {from: {process: work, log: tick}, to: end.applied, within: 20s}}"
    )
    run = lab.run(faulted(KILL, checks=checks))
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert kinds(run) == ["fault: apply", "fault applied"]
    fault = result(run)
    assert (fault["id"], fault["kind"], fault["found"]) == ("end", "kill", ["work on a gone"])
    assert fault["asked"][0] <= fault["applied"][0]
    assert fault["healed"] == []
    assert "fault end applied: work on a gone" in run.recorder.told
    assert run.result.processes[0].status == 137


def test_a_signal_may_be_any(lab: Lab) -> None:
    run = lab.run(
        faulted(
            KILL.replace("}, when", ", signal: TERM}, when"),
            checks="exit: {process: work, code: 3}",
        )
    )
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert result(run)["found"] == ["sent to work on a"]
    assert "asked" in log(run)


@pytest.mark.parametrize("whom", ["process: work", "host: a"])
def test_what_is_paused_stands_still_and_goes_on(lab: Lab, whom: str) -> None:
    states = []

    class Looks(Recorder):
        def stage_progress(self, text: str) -> None:
            super().stage_progress(text)
            if text.startswith("fault "):
                pid = next(iter(engine._processes.values())).pid
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123
                    states.append(file.read().rpartition(")")[2].split()[0])

    engine = FakeEngine()
    run = lab.run(
        faulted(
            f"pause: {{{whom}}}, when: {{process: work, log: tick}}, for: 200ms, id: p",
            "kill: {process: work}, when: p.healed",
            checks="exit: {process: work, signal: KILL}",
        ),
        engine,
        Looks(),
    )
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert states[0] in "TD"
    assert states[1] != "T"
    fault = result(run)
    # Both are rounded: their difference is not, to the last bit.
    assert round(fault["healed"][0] - fault["applied"][0], 3) >= 0.2


@pytest.mark.parametrize("whom", ["process: work", "host: a"])
def test_what_two_faults_pause_stands_still_until_both_are_over(
    lab: Lab, tmp_path: Path, whom: str
) -> None:
    """What ends the first would end the second, too, which then was never there as asked for."""
    over = Healed(tmp_path / "over", "long")
    run = lab.run(
        faulted(
            f"pause: {{{whom}}}, when: {{process: work, log: tick}}, until: long.applied, id: short",
            f"pause: {{{whom}}}, when: short.applied, for: 500ms, id: long",
            checks="exit: {process: work}",
            run=f"until [ -e {over.path} ]; do date +tick=%s%N; sleep 0.02; done; date +tick=%s%N",
        ),
        observer=over,
    )
    assert run.result.verdict is Verdict.PASSED, (run.messages, run.result.checks)
    assert result(run)["found"][-1].startswith("another fault still stops")
    # By its own clock it did nothing for as long as the longer one was there.
    ticks = [int(line.partition("=")[2]) / 1e9 for line in log(run)]
    still = max(later - sooner for sooner, later in pairwise(ticks))
    long = result(run, 1)
    assert still >= long["healed"][0] - long["applied"][0] - 0.002  # both are rounded


@pytest.mark.parametrize(
    "fault",
    [
        "kill: {process: work, signal: USR1}",
        "stop: {host: a}",
        "restart: {host: a}",
        "pause: {host: a}",
        "resolve: {host: a, names: {b: missing}}",
        "interface: {host: a, network: data, down: true}",
        "block: {host: a, ports: [80]}",
        "fill: {host: a, path: /dev/shm}",
        "link: {network: data, to: a, change: {delay: 5ms}}",
    ],
)
def test_nothing_can_be_done_to_a_host_that_is_off(lab: Lab, fault: str) -> None:
    """It is never said to have been read back there."""
    run = lab.run(
        faulted(
            "stop: {host: a}, when: {process: work, log: tick}, for: 1h, id: dark",
            f"{fault}, when: dark.applied, id: late",
            checks="exit: {process: work, signal: KILL}",
        )
    )
    assert run.result.verdict is Verdict.INVALID
    assert "fault late: was not applied: off at that moment: a" in run.messages


def test_what_is_in_a_paused_host_cannot_be_killed_there(lab: Lab) -> None:
    """A signal would wait there, and come when nobody expects it any more."""
    run = lab.run(
        faulted(
            "pause: {host: a}, when: {process: work, log: tick}, for: 1h, id: still",
            "kill: {process: work, signal: USR1}, when: still.applied, id: late",
            checks="exit: {process: work, code: 3}",
        )
    )
    assert run.messages == [
        "fault late: was not applied: nothing can be done within a paused host: a"
    ]


@pytest.mark.parametrize("whom", ["process: work", "host: a"])
def test_what_is_restarted_lives_twice_and_its_log_goes_on(
    lab: Lab, tmp_path: Path, whom: str
) -> None:
    over = Healed(tmp_path / "over", "r")
    run = lab.run(
        faulted(
            f"restart: {{{whom}}}, when: {{process: work, log: tick}}, id: r",
            checks="{exit: {process: work, code: 4}}, {log: {process: work, match: began, count: 2}}",
            run=over.loop,
        ),
        observer=over,
    )
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert len(run.events("started")) == 2
    assert log(run).count("began") == 2
    assert len(result(run)["healed"]) == 1
    assert result(run)["found"][-1] in {"started again", "on again"}


def test_a_host_that_was_off_comes_back_with_its_processes(lab: Lab, tmp_path: Path) -> None:
    over = Healed(tmp_path / "over", "off")
    run = lab.run(
        faulted(
            "stop: {host: a}, when: {process: work, log: tick}, for: 200ms, id: off",
            checks="{exit: {process: work, code: 4}}, {log: {process: work, match: began, count: 2}}",
            run=over.loop,
        ),
        observer=over,
    )
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert result(run)["found"] == ["off: a", "on again: a"]


def test_its_processes_may_stay_ended(lab: Lab) -> None:
    run = lab.run(
        faulted(
            "stop: {host: a, start: false}, when: {process: work, log: tick}, id: off",
            checks="{exit: {process: work, signal: KILL}}, {log: {process: work, match: began, count: 1}}",
        )
    )
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert len(result(run)["healed"]) == 1


@pytest.mark.parametrize("whom", ["process: work", "host: a"])
def test_a_deadline_that_passes_while_it_is_paused_ends_it_all_the_same(
    lab: Lab, whom: str
) -> None:
    run = lab.run(
        faulted(
            f"pause: {{{whom}}}, when: {{process: work, log: tick}}, id: p",
            checks="exit: {process: work}",
            more=", deadline: 2s",
        ),
        Awaited({"work": "tick"}),
    )
    assert run.result.verdict is Verdict.FAILED, run.messages
    assert run.messages == ["work on a: still running after its deadline of 2 s"]
    assert len(result(run)["healed"]) == 1
    assert run.result.processes[0].status == 3
    assert "asked" in log(run)


@pytest.mark.parametrize("whom", ["process: work", "host: a"])
def test_ctrl_c_while_it_is_paused_leaves_nothing(lab: Lab, whom: str) -> None:
    pids: list[int] = []

    class Impatient(Recorder):
        def stage_progress(self, text: str) -> None:
            super().stage_progress(text)
            if text.startswith("fault p applied"):
                pids.extend(process.pid for process in engine._processes.values())
                signal.raise_signal(signal.SIGINT)

    engine = FakeEngine()
    text = faulted(
        f"pause: {{{whom}}}, when: {{process: work, log: tick}}, id: p",
        checks="exit: {process: work}",
    )
    run = lab.run(text, engine, Impatient())
    assert run.result.exit_code is ExitCode.INTERRUPTED
    assert not engine.realised
    (pid,) = pids
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def invalid(run: Run) -> str:
    """Why a run is invalid, if there is one reason."""
    assert run.result.verdict is Verdict.INVALID
    assert run.result.exit_code is ExitCode.INVALID
    (message,) = run.messages
    return message


@pytest.mark.parametrize("kind", ["kill", "pause", "restart"])
def test_a_process_that_has_ended_cannot_be_had(lab: Lab, kind: str) -> None:
    text = faulted(
        f"{kind}: {{process: work}}, when: {{process: work, state: exited}}, id: x",
        checks="exit: {process: work}",
        run="true",
    ).replace("processes:\n", "processes:\n  long: {hosts: [b], run: sleep 600}\n")
    run = lab.run(text)
    assert invalid(run) == "fault x: was not applied: not running at that moment: work on a"
    assert kinds(run) == ["fault: apply", "fault failed"]
    long = next(item for item in run.result.processes if item.process == "long")
    assert long.status == 128 + signal.SIGTERM  # It was not waited for.


def test_a_process_that_does_not_stop_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(FakeEngine):
        def signal(
            self, run: RunTag, pids: Mapping[ProcessKey, int], number: int
        ) -> Collection[ProcessKey]:
            return () if number == signal.SIGSTOP else super().signal(run, pids, number)

    monkeypatch.setattr(machines, "_WAIT", 0.3)
    text = faulted("pause: {process: work}, at: 0s, id: x", checks="exit: {process: work, code: 3}")
    found = invalid(lab.run(text, Deaf()))
    assert found.startswith("fault x: was not applied: after 0.3 s it is not so that each stands")
    assert found.endswith("work on a")


def test_a_host_that_cannot_be_switched_ends_the_run_at_once(lab: Lab) -> None:
    class Stubborn(FakeEngine):
        def power(self, run: RunTag, hosts: Mapping[str, Power], deadline: float) -> None:
            raise EngineError("no switch")

    text = faulted("stop: {host: a}, at: 0s, id: x", checks="exit: {process: work, code: 3}")
    assert invalid(lab.run(text, Stubborn())) == "fault x: was not applied: no switch"


def test_a_fault_that_never_came_makes_the_run_invalid(lab: Lab) -> None:
    text = faulted(
        "stop: {host: b}, when: {process: work, log: never}, id: x",
        checks="exit: {process: work}",
        run="true",
    )
    found = invalid(lab.run(text))
    assert found == ("fault x: was never applied: it did not happen that work prints 'never'")


def test_a_network_that_tells_nothing_of_a_cut_makes_the_run_invalid(lab: Lab) -> None:
    """The fake engine's scripts print nothing: no rules are read back."""
    text = faulted("cut: {network: data}, at: 0s, id: x", checks="exit: {process: work, code: 3}")
    found = invalid(lab.run(text, FakeEngine(Defects())))
    assert "fault x: was not applied: host a: the rules of fedtest-faults should be" in found


def test_one_that_never_comes_back_is_overdue_like_any_other(lab: Lab) -> None:
    """Who waits for a process that is to start again does not wait for ever."""
    text = faulted(
        "stop: {host: a}, when: {process: work, log: tick}, for: 1h, id: off",
        checks="exit: {process: work, signal: KILL}",
    ).replace("deadline: 200s", "deadline: 2s")
    run = lab.run(text)
    assert run.result.verdict is Verdict.FAILED, run.messages
    assert run.messages == [
        "work on a: ended, and was not started again within the scenario's deadline of 2 s"
    ]
