"""Which interface a network takes: two processes of one host take two, and one finds its own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import CommandLine

PROCESS = """
  {name}:
    hosts: {name}
    run: >-
      python -m fedtest.comm.trial delivery {ethernet}
      --host ${{{{ {name}.master }}}} --port ${{{{ {name}.port }}}}
      --rank ${{{{ {name}.rank }}}} --world-size ${{{{ {name}.size }}}}
    deadline: 150s
"""

CHECKS = """
  - exit: {{process: {name}, code: 0}}
  - value: {{process: {name}, name: same, each: == 1}}
  - value: {{process: {name}, host: a, name: interface, each: == {on_a}}}
  - value: {{process: {name}, host: b, name: interface, each: == {on_b}}}
"""

# Each pair sends 22 MB each way.
BYTES = """
  - bytes: {group: on-y, network: y, direction: tx, min: 20MB, max: 40MB}
  - bytes: {group: on-x, network: x, direction: tx, min: 40MB}
"""

SCENARIO = """
fedtest: 1
name: comm-interfaces
deadline: 6m
networks: {x: {}, y: {}}
resolve: x
hosts:
  a: {nics: {x: eth0, y: ib0}}
  b: {nics: {x: enps1, y: enps2}}
groups:
  on-x: {members: [a, b], network: x, port: 23456}
  on-y: {members: [a, b], network: y, port: 23457}
  by-itself: {members: [a, b], network: x, port: 23458}
processes:"""


def scenario() -> str:
    """Two groups at once on two networks, and one that is not told; names resolve on the first."""
    groups = {
        "on-x": ("x", "--ethernet ${{ nics.x.name }}"),
        "on-y": ("y", "--ethernet ${{ nics.y.name }}"),
        "by-itself": ("x", ""),
    }
    names = {"x": ("eth0", "enps1"), "y": ("ib0", "enps2")}
    text = SCENARIO
    for name, (_, ethernet) in groups.items():
        text += PROCESS.format(name=name, ethernet=ethernet).rstrip()
    text += "\nchecks:"
    for name, (network, _) in groups.items():
        on_a, on_b = names[network]
        text += CHECKS.format(name=name, on_a=on_a, on_b=on_b).rstrip()
    return text + BYTES


@pytest.mark.alone
def test_two_processes_of_a_host_use_two_interfaces_and_one_finds_its_own(
    fedtest: CommandLine,
) -> None:
    if fedtest.engine == "netns" and find_spec("torch") is None:
        pytest.skip("this environment has not the extra `node`")
    done = fedtest("run", fedtest.scenario("comm-interfaces", scenario()))
    assert done.code == 0, done.out + done.err
