"""Trainers of which one is cut off, or stands still: every other one names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from node_python import missing

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

FIREWALL = """
fedtest: 1
name: ring-behind-firewall
networks: {data: {}}
hosts:
  server1: {nics: {data: eth0}, firewall: {accept: [23456], otherwise: drop}}
  server2: {nics: {data: enps1}}
data: {mnist: /data}
groups: {ring: {members: [server1, server2], network: data, port: 23456}}
processes:
  trainer:
    hosts: ring
    run: >-
      python -m fedtest.ring
      --init-method tcp://${{ ring.master }}:${{ ring.port }}
      --rank ${{ ring.rank }} --world-size ${{ ring.size }}
      --gloo_socket_ifname ${{ nics.data.name }} --checkpoint-dir /tmp/kept --join-timeout 15
    deadline: 2m
  elsewhere:
    hosts: [server2]
    run: >-
      python -m fedtest.ring
      --init-method tcp://${{ ring.master }}:23457 --rank 1 --world-size 2
      --gloo_socket_ifname ${{ nics.data.name }} --checkpoint-dir /tmp/kept --join-timeout 5
    deadline: 2m
checks:
  - exit: {process: trainer, code: 5}
  - value: {process: trainer, name: error, each: "== RendezvousTimeout"}
  - log: {process: trainer, match: "Gloo takes any of [0-9]+ to [0-9]+; let them through"}
  - exit: {process: elsewhere, code: 5}
  - log: {process: elsewhere, match: ":23457 does not answer at all: that is what a firewall"}
"""

CUT_OFF = "partition: {network: data, sides: [[server3], [server1, server2, server4]]}"
PAUSED = "pause: {process: trainer, host: server3}\n    for: 20s"


# The trainer is the same on every engine; without Docker it takes less time.
pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(bool(missing("torchvision")), reason=missing("torchvision")),
]


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
    text = RING.replace("EXCHANGE", exchange).replace("FAULT", fault)
    text += "  - exit: {process: trainer, host: server3, code: 6}\n"
    text += f"  - time: {{from: fault.applied, to: {{process: trainer, state: exited}}, {exits}}}\n"
    done = fedtest("run", fedtest.scenario("ring-noticed", text))
    assert done.code == 0, done.out + done.err


def test_ranks_that_a_firewall_keeps_apart_are_told_what_that_looks_like(
    fedtest: CommandLine,
) -> None:
    """All meet at the one port that is open; another is closed to somebody else."""
    done = fedtest("run", fedtest.scenario("ring-behind-firewall", FIREWALL))
    assert done.code == 0, done.out + done.err
