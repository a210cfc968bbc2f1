"""A host that does not stand still, or does not go on, although its keeper told the kernel so."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from conftest import left_behind, run_with
from fault_hosts import hosts

from fedtest.engine.choose import open_engine
from fedtest.engine.netns import limits
from fedtest.engine.netns.launch import KEEPER
from fedtest.engine.netns.state import RunPlace
from fedtest.run.result import Result, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedtest.engine.base import Power, RunTag

pytestmark = [
    pytest.mark.netns,
    pytest.mark.needs("cgroups"),
]

PROCESSES = """processes: {work: {hosts: [a, b, c], run: sleep 300}}
faults:
  - {pause: {host: b}, id: x, when: {process: work, state: started}, for: 100ms}
  - {kill: {process: work}, when: x.healed}
"""

# In the keeper's mount namespace alone, nothing that is written there comes to the kernel.
DEAFEN = """
import os, sys
from fedtest.engine.netns.elsewhere import NEW_MOUNTS, NEW_PIDS, Elsewhere, join, namespaces
machine = namespaces()
pids, mounts = (os.open(f"/proc/{sys.argv[1]}/ns/{kind}", os.O_RDONLY) for kind in ("pid", "mnt"))
join(pids, NEW_PIDS)  # Of our children: its /proc knows no others.
child = os.fork()
if child == 0:
    join(mounts, NEW_MOUNTS)
    Elsewhere(machine).bind("/dev/null", sys.argv[2], recursive=False)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def deafen(run: RunTag, host: str) -> None:
    """The kernel hears no more of whether the host is to stand still, and the keeper no answer."""
    version = limits.version()
    group = f"fedtest-{run.id}/{host}"
    file = f"{group}/cgroup.events" if version == 2 else f"freezer/{group}/freezer.state"
    keeper = (RunPlace(run.id).path / KEEPER).read_text(encoding="ascii").split()[0]
    words = [sys.executable, "-c", DEAFEN, keeper, f"{limits.ROOT}/{file}"]
    subprocess.run(words, timeout=60, check=True)


def run(runs: Path, deaf_to: Power | None) -> Result:
    """With a kernel that does not hear of host b that it is to be so."""
    engine = open_engine("netns")
    original = engine.power

    def power(tag: RunTag, wanted: Mapping[str, Power], *rest: Any) -> None:
        if wanted == {"b": deaf_to}:
            deafen(tag, "b")
        original(tag, wanted, *rest)

    engine.power = power  # type: ignore[method-assign, assignment]
    text = hosts("10.66.14.0/24") + PROCESSES
    result = run_with(engine, text, runs)
    assert left_behind(result.id) == []
    return result


def test_a_host_that_stands_still_and_goes_on_is_fine(tmp_path: Path) -> None:
    result = run(tmp_path, None)
    assert result.verdict is not Verdict.INVALID, result.problems


@pytest.mark.parametrize(
    ("deaf_to", "said"),
    [
        ("paused", "fault x: was not applied: switching hosts: host b: its processes are not "),
        ("on", "fault x: was not healed: switching hosts: host b: its processes are not "),
    ],
)
def test_a_host_that_the_kernel_does_not_switch_makes_the_run_invalid(
    tmp_path: Path, deaf_to: Power, said: str
) -> None:
    result = run(tmp_path, deaf_to)
    assert result.verdict is Verdict.INVALID
    assert result.problems[0].message.startswith(said), result.problems
