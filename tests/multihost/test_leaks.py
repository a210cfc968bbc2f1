"""Nothing of a run is left, whatever way and whenever it ends."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from conftest import CommandLine, left_behind

if TYPE_CHECKING:
    from fedtest.engine.docker.client import DockerClient

SCENARIO = """
fedtest: 1
name: killed
networks: {mgmt: {}, data: {}}
hosts:
  a: {nics: {mgmt: mgmt0, data: eth0}}
  b: {nics: {mgmt: mgmt0, data: enps1}}
  c: {nics: {mgmt: mgmt0, data: ib0}}
processes:
  p: {hosts: [a, b, c], run: sleep 1, deadline: 60s}
checks:
  - exit: {process: p, code: 0}
"""

# A run of this scenario takes three to five seconds. The moments are spread over
# all of it: start-up, images, networks, hosts, processes, checks, clean-up.
MOMENTS = [0.3 + 0.2 * number for number in range(20)]
SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM]


@pytest.mark.parametrize(
    ("moment", "number"), [(at, SIGNALS[i % 4]) for i, at in enumerate(MOMENTS)]
)
def test_a_run_that_is_killed_leaves_nothing(
    fedtest: CommandLine, client: DockerClient, moment: float, number: signal.Signals
) -> None:
    process = fedtest.start("run", fedtest.scenario("killed", SCENARIO))
    time.sleep(moment)  # The moment is what is tested.
    process.send_signal(number)
    done = fedtest.end(process, timeout=120)
    if number == signal.SIGKILL:
        cleaned = fedtest("clean")
        assert cleaned.code == 0, cleaned.err
    else:
        # Before Python has our handlers it dies of the signal; after the end it has passed.
        assert done.code in {130, -number, 0}, done.out + done.err
    for run_id in fedtest.run_ids():
        assert left_behind(client, run_id) == []


def test_the_second_ctrl_c_leaves_at_once_and_clean_finds_the_rest(
    fedtest: CommandLine, client: DockerClient
) -> None:
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
    process.send_signal(signal.SIGINT)
    done = fedtest.end(process, timeout=60)
    assert done.code == 130
    assert "leaving now" in done.err
    assert fedtest("clean").code == 0
    (run_id,) = fedtest.run_ids()
    assert left_behind(client, run_id) == []


def test_the_next_run_removes_what_a_dead_one_left(
    fedtest: CommandLine, client: DockerClient
) -> None:
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
    assert left_behind(client, run_id) == []
