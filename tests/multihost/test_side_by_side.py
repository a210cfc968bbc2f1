"""Runs side by side do not disturb each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import CommandLine

SCENARIO = """
fedtest: 1
name: neighbour
networks:
  data: {SUBNET}
hosts:
  a: {nics: {data: eth0}}
  b: {nics: {data: enps1}}
processes:
  p: {hosts: [a, b], run: ping -c 2 -i 0.2 -W 5 b, deadline: 60s}
checks:
  - exit: {process: p, code: 0}
"""


@pytest.mark.parametrize("subnet", ["", "subnet: 192.168.211.0/24"], ids=["own", "same fixed one"])
def test_runs_side_by_side_all_pass(fedtest: CommandLine, subnet: str) -> None:
    file = fedtest.scenario("neighbour", SCENARIO.replace("SUBNET", subnet))
    processes = [fedtest.start("run", file) for _ in range(4)]
    outcomes = [fedtest.end(process) for process in processes]
    assert [done.code for done in outcomes] == [0] * 4, [done.out for done in outcomes]
