"""Faults that cannot be had, on real hosts: the run is invalid and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fault_hosts import hosts

from fedtest.errors import ExitCode

if TYPE_CHECKING:
    from conftest import CommandLine

SHORT = """processes:
  short: {hosts: [b], run: "true"}
  work: {hosts: [a, b], run: sleep 300}
checks: [exit: {process: short}]
faults:
"""


def scenario(fault: str) -> str:
    return hosts("10.66.11.0/24") + SHORT + f"  - {{{fault}, id: x}}\n"


NATURAL = [
    ("kill: {process: short}, when: {process: short, state: exited}",
     "not running at that moment: short on b"),
    ("pause: {process: short}, when: {process: short, state: exited}",
     "not running at that moment: short on b"),
    ("restart: {process: short}, when: {process: short, state: exited}",
     "not running at that moment: short on b"),
    ("fill: {host: b, path: /nowhere}, at: 0s", "can't cd to /nowhere"),
    # What cannot be written for another reason is no full disk.
    ("fill: {host: b, path: /proc}, at: 0s", "host b: /proc cannot be filled: "),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "said"), NATURAL, ids=[item[0] for item in NATURAL])
def test_what_cannot_be_had_is_told(fedtest: CommandLine, fault: str, said: str) -> None:
    done = fedtest("run", fedtest.scenario("refused", scenario(fault)))
    assert done.code == ExitCode.INVALID, done.out + done.err
    (problem,) = done.result["problems"]
    assert problem["message"].startswith("fault x: was not applied: ")
    assert said in problem["message"]


@pytest.mark.docker  # Without it, it would be the machine's own disk that is tried.
def test_a_file_system_that_is_not_small_is_not_filled(fedtest: CommandLine) -> None:
    fault = "fill: {host: b, path: /tmp}, at: 0s"
    done = fedtest("run", fedtest.scenario("refused", scenario(fault)))
    assert done.code == ExitCode.INVALID, done.out + done.err
    (problem,) = done.result["problems"]
    assert "/tmp has room for more than 1073741824 bytes" in problem["message"]


PAUSED = (
    hosts("10.66.9.0/24")
    + """
processes: {hold: {hosts: [a, b], run: sleep 900}}
faults:
  - {pause: {host: b}, id: still, at: 0s}
  - {FAULT, when: still.applied, id: x}
checks: [exit: {process: hold}]
"""
)


@pytest.mark.parametrize(
    "fault",
    [
        "fill: {host: b, path: /dev/shm}",
        "resolve: {names: {a: missing}}",
        "pause: {process: hold, host: b}",
    ],
)
def test_what_lies_within_a_paused_host_cannot_be_had_and_is_told(
    fedtest: CommandLine, fault: str
) -> None:
    done = fedtest("run", fedtest.scenario("paused", PAUSED.replace("FAULT", fault)))
    assert done.code == ExitCode.INVALID, done.out + done.err
    (problem,) = done.result["problems"]
    said = "fault x: was not applied: nothing can be done within a paused host: b"
    assert problem["message"] == said


def test_a_fault_whose_moment_never_comes_makes_the_run_invalid(fedtest: CommandLine) -> None:
    fault = "cut: {network: data}, when: {process: short, log: never said}"
    text = scenario(fault).replace("sleep 300", "sleep 1")
    done = fedtest("run", fedtest.scenario("never", text))
    assert done.code == ExitCode.INVALID, done.out + done.err
    (problem,) = done.result["problems"]
    assert problem["message"] == (
        "fault x: was never applied: it did not happen that short prints 'never said'"
    )
