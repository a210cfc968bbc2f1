"""Whatever a process does, its run ends as it should, with its verdict, and leaves nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from conftest import CommandLine, Outcome, left_behind

from fedtest.engine.netns import limits

HEAD, TAIL = 16 << 20, 4 << 20

SCENARIO = """
fedtest: 1
name: worst
networks: {{data: {{}}}}
hosts:
  a: {{nics: {{data: eth0}}}}
  b: {{nics: {{data: eth0}}}}
processes:
  worst: {{hosts: [a], run: {run}, deadline: {deadline}}}
  other: {{hosts: [b], run: python -m fedtest.probe.echo -c 2 -W 20 a, deadline: 120s}}
checks:
  - exit: {{process: worst, code: 0}}
  - exit: {{process: other, code: 0}}
"""

# The command line, which tells at its end how much memory it had at most.
RUNNER = """
import re, sys
from fedtest.cli import main
code = main(sys.argv[1:])
with open("/proc/self/status") as status:
    print("VmHWM", re.search(r"VmHWM:\\s*([0-9]+) kB", status.read())[1], file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def _bounded(fedtest: CommandLine) -> None:
    """Or it would be the machine that has no room for more processes."""
    if fedtest.engine == "netns" and (why := limits.cannot(limits.CONTROLLERS)):
        pytest.skip(f"without control groups nothing bounds the processes of a host: {why}")


def scenario(fedtest: CommandLine, run: str, deadline: str) -> str:
    return fedtest.scenario("worst", SCENARIO.format(run=run, deadline=deadline))


ENDED = [{"worst": status, "other": 0} for status in (143, 137)]
"""It was asked to end, and did; or was made to, where it had no processor's time for that."""


def politely(script: str) -> str:
    """The script for a scenario, at a low priority: others are tested beside it."""
    return f"'exec nice -n 10 sh -c \"{script}\"'"


def log_of(fedtest: CommandLine, result: dict[str, Any], name: str) -> bytes:
    (path,) = [item["log"] for item in result["processes"] if item["process"] == name]
    return (fedtest.runs / "latest" / path).read_bytes()


def statuses(result: dict[str, Any]) -> dict[str, int | None]:
    return {item["process"]: item["status"] for item in result["processes"]}


@pytest.mark.parametrize(
    ("run", "size"),
    [
        ("head -c 1000000000 /dev/zero", 1_000_000_000),
        ("tr '\\0' '\\377' < /dev/zero | head -c 1000000000", 1_000_000_000),
        ("'yes 0123456789012345678901234567890123456789 | head -c 205000000'", 205_000_000),
    ],
    ids=["1 GB of NUL", "1 GB that is no text", "5 million lines"],
)
@pytest.mark.measures
def test_a_process_that_prints_without_end_in_sight(
    fedtest: CommandLine, run: str, size: int
) -> None:
    file = scenario(fedtest, run, "240s")
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, "run", "--engine", fedtest.engine, file],
        cwd=fedtest.directory,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert len(done.stdout) < 3_000_000, "what is shown of a log is bounded, too"
    # 20 MiB are kept of a log; the runner itself has 60.
    assert int(done.stderr.rpartition("VmHWM")[2]) < 150_000
    result = Outcome(done.returncode, done.stdout, done.stderr, fedtest.runs).result
    log = log_of(fedtest, result, "worst")
    cut = size - HEAD - TAIL
    assert b"\n[fedtest: %d bytes cut here]\n" % cut in log
    assert len(log) < HEAD + TAIL + 100
    (told,) = [item for item in result["processes"] if item["process"] == "worst"]
    assert told["log_bytes_cut"] == cut
    assert left_behind(result["id"]) == []


def test_one_that_ignores_to_be_asked_to_end_is_ended(fedtest: CommandLine) -> None:
    stubborn = "\"trap '' TERM INT HUP; echo here; while :; do sleep 1; done\""
    done = fedtest("run", scenario(fedtest, stubborn, "3s"))
    assert done.code == 1, done.out + done.err
    assert "worst on a: still running after its deadline of 3 s" in done.out
    result = done.result
    assert result["verdict"] == "failed"
    assert statuses(result) == {"worst": 137, "other": 0}
    assert left_behind(result["id"]) == []


@pytest.mark.usefixtures("_bounded")
def test_one_that_forks_to_the_limit_and_stays_is_ended(fedtest: CommandLine) -> None:
    forks = politely("(while :; do sleep 1000 & done); exec tail -f /dev/null")
    done = fedtest("run", scenario(fedtest, forks, "30s"))
    assert done.code == 1, done.out + done.err
    assert "worst on a: still running after its deadline of 30 s" in done.out
    result = done.result
    assert re.search(rb"[Cc]annot fork", log_of(fedtest, result, "worst"))
    assert statuses(result) in ENDED
    assert [item["passed"] for item in result["checks"]] == [False, True]
    assert left_behind(result["id"]) == []


@pytest.mark.usefixtures("_bounded")
def test_one_that_ends_at_the_limit_has_its_own_status(fedtest: CommandLine) -> None:
    """Its children still have its output open, and every process of the host."""
    done = fedtest("run", scenario(fedtest, politely("while :; do sleep 1000 & done"), "60s"))
    assert done.code == 1, done.out + done.err
    result = done.result
    assert statuses(result) == {"worst": 2, "other": 0}
    assert left_behind(result["id"]) == []


@pytest.mark.usefixtures("_bounded")
@pytest.mark.measures
def test_a_fork_bomb_hurts_nobody_else(fedtest: CommandLine) -> None:
    bomb = politely("f() { f | f & }; f; exec tail -f /dev/null")
    done = fedtest("run", scenario(fedtest, bomb, "4s"))
    assert done.code == 1, done.out + done.err
    result = done.result
    assert statuses(result) in ENDED
    assert left_behind(result["id"]) == []
