"""Trainers of which one is cut off, or stands still: every other one names it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import CommandLine

RING = """
fedtest: 1
name: ring-noticed
networks: {data: {}}
hosts:
  server1: {nics: {data: eth0}}
  server2: {nics: {data: enps1}}
  server3: {nics: {data: ens3f0}}
  server4: {nics: {data: ib0}}
data: {mnist: /data}
groups: {ring: {members: [server1, server2, server3, server4], network: data, port: 23456}}
processes:
  trainer:
    hosts: ring
    run: >-
      python -m fedtest.ring
      --init-method tcp://${{ ring.master }}:${{ ring.port }}
      --rank ${{ ring.rank }} --world-size ${{ ring.size }}
      --gloo_socket_ifname ${{ nics.data.name }} --checkpoint-dir /tmp/kept
      --exchange EXCHANGE --timeout 10 --epoch 5
    deadline: 2m
faults:
  - FAULT
    when: {process: trainer, host: server1, log: "step=20 "}
    id: fault
checks:
  - exit: {process: trainer, host: server1, code: 6}
  - exit: {process: trainer, host: server2, code: 6}
  - exit: {process: trainer, host: server4, code: 6}
  - value: {process: trainer, host: server1, name: error, each: "== RankSilent"}
  - value: {process: trainer, host: server1, name: error_rank, each: "== 2"}
  - value: {process: trainer, host: server2, name: error_rank, each: "== 2"}
  - value: {process: trainer, host: server4, name: error_rank, each: "== 2"}
  - files: {host: server4, path: /tmp/kept/training_state.pth, min: 400kB}
"""

CUT_OFF = "partition: {network: data, sides: [[server3], [server1, server2, server4]]}"
PAUSED = "pause: {process: trainer, host: server3}\n    for: 20s"


@pytest.mark.netns  # The trainer is the same on every engine; without Docker it takes less time.
@pytest.mark.parametrize(
    ("exchange", "fault", "exits"),
    [
        # The one that is cut off ends, too; one that stands still hears of it when it goes on.
        ("two-ring", CUT_OFF, "within: 25s"),
        ("chunked --overlap", PAUSED, "within: 60s"),
    ],
)
def test_a_trainer_that_cannot_be_reached_is_named_by_all_others(
    fedtest: CommandLine, exchange: str, fault: str, exits: str
) -> None:
    if fedtest.engine == "netns" and find_spec("torchvision") is None:
        pytest.skip("this environment has not the extra `node`")
    text = RING.replace("EXCHANGE", exchange).replace("FAULT", fault)
    text += "  - exit: {process: trainer, host: server3, code: 6}\n"
    text += f"  - time: {{from: fault.applied, to: {{process: trainer, state: exited}}, {exits}}}\n"
    done = fedtest("run", fedtest.scenario("ring-noticed", text))
    assert done.code == 0, done.out + done.err
