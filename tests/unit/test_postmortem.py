"""What a run leaves of processes that hang, and that it does not depend on being able to."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import pytest
from runs import Lab, scenario

from fedtest.engine.fake import FakeEngine
from fedtest.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedtest.engine.base import RunTag
    from fedtest.engine.examine import Examination, Examined

PROGRAM = """
import socket
def receive_for_ever(end):
    end.recv(1)
one, two = socket.socketpair()
print("waiting", flush=True)
receive_for_ever(two)
"""
HANGS = scenario(
    f"{sys.executable} -c {shlex.quote(PROGRAM)}", hosts="a, b", extra=", deadline: 1500ms"
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_the_stacks_of_what_hangs_are_saved_and_told_of(lab: Lab) -> None:
    run = lab.run(HANGS)
    assert run.result.verdict == "failed"
    for host in "ab":
        stacks = run.text(f"hosts/{host}.stacks.txt")
        assert "receive_for_ever" in stacks
        assert "/bin/sh" not in stacks or "state S" in stacks
    problem = run.result.problems[0]
    assert "What it was doing is in hosts/a.stacks.txt" in problem.remedy
    assert problem.details == ("waiting",)


def test_so_are_sockets_and_the_ends_of_logs(lab: Lab) -> None:
    run = lab.run(HANGS)
    assert {"hosts/a.overdue.json", "hosts/b.overdue.json", "tails.txt"} <= run.names
    assert "==> work on a, still running <==\nwaiting\n" in run.text("tails.txt")


def test_a_run_that_ends_in_time_has_nothing_of_it(lab: Lab) -> None:
    run = lab.run(scenario("true"))
    assert not {name for name in run.names if "stacks" in name or "overdue" in name}


class Blind(FakeEngine):
    """Cannot look at what hangs."""

    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        if hosts:
            raise EngineError("no helper today")
        return {}


def test_that_it_cannot_be_had_changes_nothing_else(lab: Lab) -> None:
    run = lab.run(scenario("sleep 60", extra=", deadline: 300ms"), Blind())
    assert run.result.verdict == "failed"
    (problem,) = run.result.problems
    assert "still running after its deadline" in problem.message
    assert "Not saved: what processes were doing: no helper today" in problem.remedy
