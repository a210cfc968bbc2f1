"""A user's own torch script needs to know nothing of how the node image's torch was built."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import CommandLine

pytestmark = pytest.mark.docker

SCRIPT = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
ones = torch.ones(3)
dist.all_reduce(ones)
print('fedtest-value {"name": "sum", "value": %d}' % ones.sum().item())
dist.destroy_process_group()
"""

SCENARIO = """
fedtest: 1
name: plain
networks: {lan: {}}
hosts:
  a: {nics: {lan: eth0}}
  b: {nics: {lan: enps1}}
groups:
  pair: {members: [a, b], network: lan}
processes:
  p:
    hosts: pair
    run: [python, -c, SCRIPT]
    env:
      MASTER_ADDR: "${{ pair.master }}"
      MASTER_PORT: "${{ pair.port }}"
      RANK: "${{ pair.rank }}"
      WORLD_SIZE: "${{ pair.size }}"
      GLOO_SOCKET_IFNAME: "${{ nics.lan.name }}"
    deadline: 120s
checks:
  - exit: {process: p, code: 0}
  - value: {process: p, name: sum, each: "== 6"}
"""


def test_a_plain_script_initialises_a_process_group(fedtest: CommandLine) -> None:
    file = fedtest.scenario("plain", SCENARIO.replace("SCRIPT", json.dumps(SCRIPT)))
    done = fedtest("run", file)
    assert done.code == 0, done.out + done.err
