"""What a run leaves of processes that hang, and that it does not depend on being able to."""

from __future__ import annotations

import json
import shlex
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.fake import FakeEngine
from fedtest.errors import EngineError
from fedtest.run.observer import Observer
from runs import HOSTS, Awaited, Lab, scenario, until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedtest.engine.base import RunTag
    from fedtest.engine.examine import Examination, Examined

PROGRAM = """
import socket
def receive_for_ever(end):
    print("waiting", flush=True)
    end.recv(1)
one, two = socket.socketpair()
receive_for_ever(two)
"""
HANGS = scenario(
    f"{sys.executable} -c {shlex.quote(PROGRAM)}", hosts="a, b", extra=", deadline: 100ms"
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_the_stacks_of_what_hangs_are_saved_and_told_of(lab: Lab) -> None:
    run = lab.run(HANGS, Awaited({"work": "waiting"}))
    assert run.result.verdict == "failed"
    for host in "ab":
        stacks = run.text(f"hosts/{host}.stacks.txt")
        assert "receive_for_ever" in stacks
        assert "/bin/sh" not in stacks or "state S" in stacks
    problem = run.result.problems[0]
    assert "What it was doing is in hosts/a.stacks.txt" in problem.remedy
    assert problem.details == ("waiting",)


def test_so_are_sockets_and_the_ends_of_logs(lab: Lab) -> None:
    run = lab.run(HANGS, Awaited({"work": "waiting"}))
    assert {"hosts/a.overdue.json", "hosts/b.overdue.json", "tails.txt"} <= run.names
    assert "==> work on a, still running <==\nwaiting\n" in run.text("tails.txt")


def test_when_one_fails_it_is_saved_what_the_others_do_at_that_moment(lab: Lab) -> None:
    """It hangs only until somebody has looked at it."""
    program = f"""
import pathlib, time
def receive_from_the_dead():
    print("waiting", flush=True)
    while not list(pathlib.Path({str(lab.runs)!r}).glob("2*/hosts/b.failed.txt")):
        time.sleep(0.01)
receive_from_the_dead()
"""
    run = lab.run(
        f"{HOSTS}processes:\n"
        f"  peer: {{hosts: [b], run: [{sys.executable}, -c, {json.dumps(program)}]}}\n"
        '  work: {hosts: [a], run: "echo no such device; exit 3", '
        "after: {process: peer, log: waiting}}\n"
    )
    assert run.result.verdict == "failed"
    assert {item.process: item.status for item in run.result.processes} == {"peer": 0, "work": 3}
    assert "receive_from_the_dead" in run.text("hosts/b.failed.stacks.txt")
    assert {"hosts/b.failed.json", "hosts/b.failed.txt", "tails.txt"} <= run.names
    assert "hosts/a.failed.txt" not in run.names
    when = "when work on a had ended with 3"
    assert [(item.what, item.files) for item in run.result.saved] == [
        (f"what processes were doing {when}", ("hosts/b.failed.stacks.txt",)),
        (f"interfaces and sockets {when}", ("hosts/b.failed.txt",)),
        ("the ends of all logs", ("tails.txt",)),
        ("interfaces and sockets at the end", ("hosts/a.after.txt", "hosts/b.after.txt")),
    ]
    assert all((run.path / name).is_file() for item in run.result.saved for name in item.files)


def test_meanwhile_processes_talk_on(lab: Lab) -> None:
    class Slow(FakeEngine):
        """Looking ends only when the peer has printed more than the inbox holds."""

        def examine(
            self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
        ) -> Mapping[str, Examined]:
            (log,) = lab.runs.glob("2*/logs/b.peer.log")
            end = time.monotonic() + deadline
            while log.stat().st_size < 4_000_000 and hosts:
                assert time.monotonic() < end
                threading.Event().wait(0.01)
            return super().examine(run, hosts, deadline)

    seen = f"ls {lab.runs}/2*/hosts/b.failed.txt"
    talks = f"head -c 5000000 /dev/zero; until {seen}; do sleep 0.02; done"
    run = lab.run(
        f'{HOSTS}processes:\n  peer: {{hosts: [b], run: "{talks}"}}\n'
        '  work: {hosts: [a], run: "exit 3"}\n',
        Slow(),
        Observer(),
    )
    assert "hosts/b.failed.stacks.txt" in run.names
    assert run.result.verdict == "failed"


@pytest.mark.parametrize(
    "check",
    [
        "exit: {process: work, code: 3}",
        'exit: {process: work, code: "!= 0"}',
        "exit: {process: work, host: b}",  # So nothing is asked of the one on a.
    ],
)
def test_an_end_that_is_expected_is_nothing_to_look_closer_at(lab: Lab, check: str) -> None:
    script = "[ $WHO = b ] && sleep 0.3 || exit 3"
    text = scenario(script, check, hosts="a, b", extra=', env: {WHO: "${{ host.name }}"}')
    assert not {name for name in lab.run(text).names if "failed" in name}


def test_a_run_that_fails_only_by_a_check_has_the_ends_of_its_logs(lab: Lab) -> None:
    run = lab.run(scenario("echo done", "log: {process: work, match: never}"))
    assert run.result.verdict == "failed"
    assert run.text("tails.txt") == "==> work on a, ended with 0 <==\ndone\n"
    assert [item.files for item in run.result.saved] == [
        ("tails.txt",),
        ("hosts/a.after.txt", "hosts/b.after.txt"),
    ]
    assert run.json("result.json")["saved"][0] == {
        "what": "the ends of all logs", "files": ["tails.txt"],
    }  # fmt: skip


def test_a_defect_in_looking_closer_is_told_as_one(lab: Lab) -> None:
    looked = lab.runs / "looked"

    class Broken(FakeEngine):
        def examine(
            self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
        ) -> Mapping[str, Examined]:
            if hosts:
                looked.touch()
                raise RuntimeError("a bug")
            return {}

    text = f'{HOSTS}processes:\n  peer: {{hosts: [b], run: "{until(looked)}"}}\n'
    run = lab.run(text + '  work: {hosts: [a], run: "exit 3"}\n', Broken())
    assert run.result.exit_code == 4
    assert "RuntimeError: a bug" in run.messages[0]


def test_a_run_that_ends_in_time_has_nothing_of_it(lab: Lab) -> None:
    run = lab.run(scenario("true"))
    assert not {name for name in run.names if "stacks" in name or "overdue" in name}
    assert "tails.txt" not in run.names
    assert run.result.saved == ()


class Blind(FakeEngine):
    """Cannot look at what hangs."""

    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        if hosts:
            raise EngineError("no helper today")
        return {}


def test_that_it_cannot_be_had_changes_nothing_else(lab: Lab) -> None:
    run = lab.run(scenario("sleep 600", extra=", deadline: 300ms"), Blind())
    assert run.result.verdict == "failed"
    (problem,) = run.result.problems
    assert "still running after its deadline" in problem.message
    assert "Not saved: what processes were doing: no helper today" in problem.remedy
