"""Faults that meet on one host: each is there, and over, whatever the others do to the host."""

# ruff: noqa: E501 - a line of a scenario is one thing

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fault_hosts import HOLD, hosts, until_healed

from fedtest.errors import ExitCode

if TYPE_CHECKING:
    from conftest import CommandLine

SEND = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
    for _ in range(100):
        end.sendto(bytes(1000), (sys.argv[1], 6001))
print("sent", flush=True)
time.sleep(900)
"""

MEETING = (
    hosts("10.66.8.0/24")
    + "processes:\n"
    + HOLD
    + "  send:\n    hosts: [b, c]\n    service: true\n    run: "
    + json.dumps(["python3", "-uc", SEND, "${{ hosts.a.nics.data.ip }}"])
    + """
faults:
  - {interface: {host: b, network: data, name: eth9}, id: name, when: {process: send, host: b, log: sent}, until: again.healed}
  - {restart: {host: b}, id: again, when: name.applied}
  - {fill: {host: c, path: /dev/shm}, id: full, when: name.healed, until: host.applied}
  - {pause: {process: send, host: c}, id: process, when: full.applied, until: host.applied}
  - {resolve: {names: {b: missing}}, id: names, when: process.applied, until: host.applied}
  - {pause: {host: c}, id: host, when: names.applied, for: 3s}
"""
    + until_healed("names")
    + """
checks:
  - exit: {process: hold, signal: KILL}
  - log: {process: send, host: b, match: sent, count: 2}
  - bytes: {host: b, network: data, direction: tx, min: 200kB, max: 300kB}
"""
)


def test_a_host_may_restart_while_its_interface_is_renamed_and_stand_still_while_others_are_due(
    fedtest: CommandLine,
) -> None:
    done = fedtest("run", fedtest.scenario("meeting", MEETING))
    assert done.code == ExitCode.PASSED, done.out + done.err
    healed = {fault["id"]: fault["healed"] for fault in done.result["faults"]}
    for name in ("full", "process", "names"):
        # They are due sooner, and wait for the host to go on.
        assert healed[name] >= healed["host"]


TAKEN = (
    hosts("10.66.10.0/24")
    + "processes:\n"
    + HOLD
    + """
faults:
  - {interface: {host: c, network: data, ip: 10.66.10.2}, id: moved, at: 0s, for: 1s}
"""
    + until_healed("moved", "0s")
    + """
checks:
  - exit: {process: hold, signal: KILL}
"""
)


def test_an_address_that_a_host_gets_later_is_nobody_elses(fedtest: CommandLine) -> None:
    done = fedtest("run", fedtest.scenario("taken", TAKEN))
    assert done.code == ExitCode.PASSED, done.out + done.err
    plan = json.loads((fedtest.runs / "latest" / "plan.json").read_text(encoding="utf-8"))
    assert "10.66.10.2/24" not in json.dumps(plan["hosts"])


ROOM = """
import os, time
os.mkdir("/dev/shm/below")
before = None
while True:
    # Nothing is written: that would take room from the fault, and give it back.
    found = "room" if os.statvfs("/dev/shm").f_bavail else "full"
    if found != before:
        print(found, flush=True)
    before = found
    time.sleep(0.01)
"""

TWO_FILL = (
    hosts("10.66.12.0/24")
    + "processes:\n"
    + HOLD
    + "  look:\n    hosts: [c]\n    service: true\n    run: "
    + json.dumps(["python3", "-uc", ROOM])
    + """
faults:
  - {fill: {host: c, path: /dev/shm}, id: above, when: {process: look, host: c, log: room}, until: below.applied}
  - {fill: {host: c, path: /dev/shm/below}, id: below, when: above.applied, for: 4s}
"""
    + until_healed("below")
    + """
checks:
  - exit: {process: hold, signal: KILL}
  - log: {process: look, host: c, order: [room, full, room]}
  - log: {process: look, host: c, match: room, count: 2}
  - log: {process: look, host: c, absent: room, since: above.applied, within: 3s}
"""
)


def test_a_file_system_that_two_faults_fill_has_no_room_before_both_are_over(
    fedtest: CommandLine,
) -> None:
    done = fedtest("run", fedtest.scenario("two-fill", TWO_FILL))
    assert done.code == ExitCode.PASSED, done.out + done.err
    found = {fault["id"]: fault["found"] for fault in done.result["faults"]}
    assert found["above"][1] == "host c: another fault still fills /dev/shm"
    assert found["below"][1] == "host c: /dev/shm/below can be written to"
