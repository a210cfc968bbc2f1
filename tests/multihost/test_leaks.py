"""Nothing of a run is left, whatever way and whenever it ends."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time

import pytest
from conftest import CommandLine, left_behind

SCENARIO = """
fedtest: 1
name: killed
networks: {mgmt: {}, data: {}}
data: {mnist: /data}
hosts:
  a: {nics: {mgmt: mgmt0, data: eth0}}
  b: {nics: {mgmt: mgmt0, data: enps1}}
  c: {nics: {mgmt: mgmt0, data: ib0}}
processes:
  p: {hosts: [a, b, c], run: sleep 1, deadline: 60s}
checks:
  - exit: {process: p, code: 0}
"""

# Each stage of a run, at its begin and a little into it: 20 moments. A stage is
# known by the line that the run prints when it begins; the first two moments
# are before there is any.
STAGES = ["", "engine", "images and data", "hosts", "processes", "checks", "clean-up"]
OFFSETS = [0.0, 0.15, 0.6]
MOMENTS = [(stage, offset) for stage in STAGES for offset in OFFSETS][:20]
SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM]
ENDS = [(*moment, SIGNALS[i % 4]) for i, moment in enumerate(MOMENTS)]


def once_a_stage(end: tuple[str, float, signal.Signals]) -> bool:
    return end[1] == OFFSETS[1]


@pytest.mark.parametrize(
    ("stage", "offset", "number"),
    [
        # On Docker, where each takes three times as long, once in each stage.
        pytest.param(*end, marks=() if once_a_stage(end) else pytest.mark.netns)
        for end in ENDS
    ],
)
def test_a_run_that_is_killed_leaves_nothing(
    fedtest: CommandLine, stage: str, offset: float, number: signal.Signals
) -> None:
    process = fedtest.start("run", fedtest.scenario("killed", SCENARIO))
    assert process.stdout is not None
    if stage:
        # Every stage is reached, or there is no such moment and the test fails.
        assert any(line.startswith(f"{stage} ...") for line in process.stdout)
    time.sleep(offset)  # The moment is what is tested.
    process.send_signal(number)
    done = fedtest.end(process, timeout=120)
    if number == signal.SIGKILL:
        cleaned = fedtest("clean")
        assert cleaned.code == 0, cleaned.err
    else:
        # Before Python has our handlers it dies of the signal, or of what it was just importing
        # for itself; after the end it has passed.
        words = ("Fatal Python error: init_", "Could not import runpy module")
        unborn = any(word in done.err for word in words)
        assert unborn or done.code in {130, -number, 0}, done.out + done.err
    for run_id in fedtest.run_ids():
        assert left_behind(run_id) == []


@pytest.mark.docker  # Without it the clean-up is over before a second signal can come.
def test_the_second_ctrl_c_leaves_at_once_and_clean_finds_the_rest(fedtest: CommandLine) -> None:
    process = fedtest.start(
        "run", fedtest.scenario("killed", SCENARIO.replace("sleep 1", "sleep 9"))
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("processes ..."):
            break
    process.send_signal(signal.SIGINT)
    for line in process.stdout:
        if line.startswith("clean-up ..."):
            break
    while process.poll() is None:
        process.send_signal(signal.SIGINT)  # What comes soon after the first does not count.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    done = fedtest.end(process, timeout=60)
    assert done.code == 130
    assert "leaving now" in done.err
    assert fedtest("clean").code == 0
    (run_id,) = fedtest.run_ids()
    assert left_behind(run_id) == []


def test_the_next_run_removes_what_a_dead_one_left(fedtest: CommandLine) -> None:
    process = fedtest.start("run", fedtest.scenario("killed", SCENARIO))
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("processes ..."):
            break
    process.kill()
    fedtest.end(process)
    (run_id,) = fedtest.run_ids()
    again = fedtest("run", "killed.yaml")
    assert again.code == 0, again.out + again.err
    assert left_behind(run_id) == []


def test_a_run_on_the_other_engine_removes_it_too(fedtest: CommandLine) -> None:
    process = fedtest.start("run", fedtest.scenario("killed", SCENARIO))
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("processes ..."):
            break
    process.kill()
    fedtest.end(process)
    (run_id,) = fedtest.run_ids()
    assert left_behind(run_id) != []
    fedtest.engine = {"docker": "netns", "netns": "docker"}[fedtest.engine]
    again = fedtest("run", "killed.yaml")
    assert again.code == 0, again.out + again.err
    assert left_behind(run_id) == []
