"""Conditions that hold for every packet: for what is forwarded, and while others are changed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from fedtest import values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from conftest import CommandLine

# The same rules and the same helper on every engine; without Docker it takes less time.
pytestmark = pytest.mark.netns

FORWARDED = """
fedtest: 1
name: forwarded
networks:
  lan: {}
  wan: {}
hosts:
  alpha: {nics: {lan: eth0}, gateway: router}
  router: {nics: {lan: eth0, wan: {name: eth1, link: {delay: 150ms}}}, forward: true}
  x: {nics: {wan: eth0}}
  y: {nics: {wan: eth0}}
  z: {nics: {wan: eth0}, gateway: router}
processes:
  far: {hosts: [alpha], run: "python -m fedtest.probe.echo -c 5 z", deadline: 60s}
  near: {hosts: [x], run: "python -m fedtest.probe.echo -c 5 z", deadline: 60s}
checks:
  - exit: {process: far}
  - exit: {process: near}
"""


def logs_of(fedtest: CommandLine, name: str, text: str, processes: Iterable[str]) -> dict[str, str]:
    """What processes wrote in a run that passed."""
    done = fedtest("run", fedtest.scenario(name, text))
    assert done.code == 0, done.out + done.err
    logs = fedtest.runs / "latest" / "logs"
    return {each: (logs / f"{each}.log").read_text(encoding="utf-8") for each in processes}


def test_what_a_host_forwards_has_the_conditions_of_its_interface(fedtest: CommandLine) -> None:
    logs = logs_of(fedtest, "forwarded", FORWARDED, ("alpha.far", "x.near"))
    least = {}
    for name, text in logs.items():
        found = re.search(r"= ([0-9.]+)/", text)
        assert found, text
        least[name] = float(found[1])
    assert 150 <= least["alpha.far"] < 200
    assert least["x.near"] < 50


RECEIVE = """
import socket, struct, sys, time
from json import dumps
delays = []
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
    end.bind((sys.argv[1], 6000))
    print("listening", flush=True)
    while (sent := struct.unpack("d", end.recv(100))[0]):
        delays.append(time.monotonic() - sent)
for name, value in ("packets", len(delays)), ("least", min(delays)):
    print("fedtest-value", dumps({"name": name, "value": value}))
"""
SEND = """
import socket, struct, sys, time
until, packets = time.monotonic() + 7, 0
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
    while (now := time.monotonic()) < until:
        end.sendto(struct.pack("d", now), (sys.argv[1], 6000))
        packets += 1
        time.sleep(0.005)
    end.sendto(struct.pack("d", 0), (sys.argv[1], 6000))
print("fedtest-value", '{"name": "packets", "value": %d}' % packets)
"""
ADDRESS = "${{ hosts.beta.nics.lan.ip }}"
CHANGED = f"""
fedtest: 1
name: changed
networks:
  lan: {{link: {{delay: 100ms}}}}
  wan: {{}}
hosts:
  alpha: {{nics: {{lan: eth0, wan: eth1}}}}
  beta: {{nics: {{lan: eth0, wan: eth1}}}}
processes:
  receive: {{hosts: [beta], run: {json.dumps(["python3", "-c", RECEIVE, ADDRESS])}, deadline: 60s}}
  send:
    hosts: [alpha]
    after: {{process: receive, log: listening}}
    run: {json.dumps(["python3", "-c", SEND, ADDRESS])}
    deadline: 60s
faults:
  - link: {{network: wan, change: {{loss: 10%, rate: 10mbit}}}}
    when: {{process: receive, host: beta, log: listening}}
    at: 1s
    for: 1s
    id: lossy
checks:
  - exit: {{process: receive}}
"""


def test_a_change_of_one_network_lets_no_packet_of_another_through(fedtest: CommandLine) -> None:
    logs = logs_of(fedtest, "changed", CHANGED, ("alpha.send", "beta.receive"))
    said = {}
    for name, text in logs.items():
        told = filter(None, map(values.parse, text.splitlines()))
        said[name] = {key: float(value or 0) for key, value in told}
    assert said["beta.receive"]["packets"] == said["alpha.send"]["packets"] > 500
    assert said["beta.receive"]["least"] >= 0.1
