"""A network that is cut in the middle of a transfer: no FIN, no reset, only silence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from node_python import need

if TYPE_CHECKING:
    from conftest import CommandLine

SCRIPT = """
import sys
import torch
from fedtest import values
from fedtest.comm import DistNetwork, PeerError
place, rank, ethernet, heartbeat, timeout = sys.argv[1:]
host, port = place.split(":")
network = DistNetwork(
    (host, int(port)), 2, int(rank), ethernet, heartbeat=float(heartbeat), timeout=float(timeout)
)
network.init_network_connection()
content = torch.zeros(5_000_000)
try:
    for number in range(1_000_000):
        network.send(content) if rank == "1" else network.recv(1)
        if number == 20:
            print("under way", flush=True)
except PeerError as error:
    print(error, flush=True)
    values.report("error", type(error).__name__)
    values.report("peer", error.peer)
    values.report("lost", len(network.lost))
try:
    network.close_network_connection(timeout=1)
except PeerError as error:
    print("closing:", error, flush=True)
"""

SCENARIO = """
fedtest: 1
name: comm-cut
deadline: 5m
networks: {mgmt: {}, data: {}}
hosts:
  a: {nics: {mgmt: mgmt0, data: eth0}}
  b: {nics: {mgmt: mgmt0, data: enps1}}
groups:
  beating: {members: [a, b], network: data, port: 23456}
  silent: {members: [a, b], network: data, port: 23457}
processes:
  beating: {hosts: beating, run: BEATING, deadline: 100s}
  silent:
    {hosts: silent, run: SILENT, deadline: 100s, after: {process: beating, log: under way}}
faults:
  - cut: {network: data}
    id: cut
    when: {process: silent, host: a, log: under way}
    at: 500ms
checks:
  - log: {process: beating, match: under way}
  - exit: {process: beating, code: 0}
  - exit: {process: silent, code: 0}
  # With the heartbeat each names the other long before the time-out of 60 s.
  - value: {process: beating, name: error, each: == PeerLost}
  - value: {process: beating, host: a, name: peer, each: == 1}
  - value: {process: beating, host: b, name: peer, each: == 0}
  - value: {process: beating, name: lost, each: == 1}
  - log: {process: beating, host: a, match: "rank 1 is gone: its machine has not answered for 5 s"}
  - log: {process: beating, host: b, match: "rank 0 is gone: its machine has not answered for 5 s"}
  - time: {from: cut.applied, to: {process: beating, host: a, log: is gone}, within: 15s}
  - time: {from: cut.applied, to: {process: beating, host: b, log: is gone}, within: 15s}
  # Without it the time-out counts, of 12 s here.
  - value: {process: silent, name: error, each: == TransferTimeout}
  - value: {process: silent, name: lost, each: == 0}
"""


def command(group: str, heartbeat: int, timeout: int) -> str:
    place, rank = f"${{{{ {group}.master }}}}:${{{{ {group}.port }}}}", f"${{{{ {group}.rank }}}}"
    words = ["python", "-c", SCRIPT, place, rank, "${{ nics.data.name }}"]
    return json.dumps([*words, str(heartbeat), str(timeout)])


@pytest.mark.netns  # the library is the same on every engine
def test_a_rank_that_is_cut_off_is_named_in_seconds(fedtest: CommandLine) -> None:
    need(fedtest.engine, "torch")
    text = SCENARIO.replace("BEATING", command("beating", 5, 60))
    text = text.replace("SILENT", command("silent", 0, 12))
    done = fedtest("run", fedtest.scenario("comm-cut", text))
    assert done.code == 0, done.out + done.err
