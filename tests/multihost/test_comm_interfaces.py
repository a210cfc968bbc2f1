"""Which interface a network takes: one of two, the first of several, or its own finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from node_python import need

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

# Each pair sends 22 MB each way; that with both interfaces over the first of them.
BYTES = """
  - bytes: {group: on-y, network: y, direction: tx, min: 20MB, max: 40MB}
  - bytes: {group: on-x, network: x, direction: tx, min: 60MB}
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
  on-both: {members: [a, b], network: x, port: 23459}
processes:"""


def scenario() -> str:
    """Groups at once on two networks, on both, and not told; names resolve on the first."""
    groups = {
        "on-x": ("x", "--ethernet ${{ nics.x.name }}"),
        "on-y": ("y", "--ethernet ${{ nics.y.name }}"),
        "by-itself": ("x", ""),
        "on-both": ("x", "--ethernet ${{ nics.x.name }},${{ nics.y.name }}"),
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


@pytest.mark.netns  # the library is the same on every engine
@pytest.mark.measures
def test_processes_of_a_host_use_two_interfaces_or_several_or_find_their_own(
    fedtest: CommandLine,
) -> None:
    need(fedtest.engine, "torch")
    done = fedtest("run", fedtest.scenario("comm-interfaces", scenario()))
    assert done.code == 0, done.out + done.err
