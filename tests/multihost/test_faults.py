"""Every kind of fault on real hosts: those within see that it is there, and that it is over."""

# ruff: noqa: E501 - a line of a scenario is one thing

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from conftest import CommandLine, left_behind
from fault_hosts import HOLD, hosts, until_healed, watch


def passed(fedtest: CommandLine, text: str) -> dict[str, dict[str, Any]]:
    """The faults of a run that passed, by id."""
    done = fedtest("run", fedtest.scenario("faults", text), timeout=900)
    assert done.code == 0, done.out + done.err
    return {fault["id"]: fault for fault in done.result["faults"]}


CUT_OFF = (
    hosts("10.66.1.0/24")
    + "processes:\n"
    + watch()
    + HOLD
    + """
faults:
  - {partition: {network: data, sides: [[a], [some]]}, id: both, at: 2s, for: 2500ms}
  - partition: {network: data, sides: [[a], [b, c]], way: forward}
    id: forward
    when: both.healed
    at: 1s
    for: 2500ms
  - {cut: {network: data}, id: cut, when: forward.healed, at: 1s, for: 2500ms}
  - {cut: {network: data, from: a, to: b}, id: directed, when: cut.healed, at: 1s, for: 2500ms}
"""
    + until_healed("directed")
    + """
checks:
  - exit: {process: hold, signal: KILL}
  - log: {process: watch, absent: "mgmt . silent"}
  - log: {process: watch, host: a, match: "data b silent", count: 2}
  - log: {process: watch, host: a, match: "data c silent", count: 2}
  - log: {process: watch, host: b, match: "data a silent", count: 4}
  - log: {process: watch, host: b, match: "data c silent", count: 1}
  - log: {process: watch, host: c, match: "data a silent", count: 3}
  - log: {process: watch, host: c, match: "data b silent", count: 1}
  - log: {process: watch, host: a, match: "data b heard", count: 3}
  - log: {process: watch, host: b, match: "data a heard", count: 5}
  - log: {process: watch, host: a, order: [data b heard, data b silent, data b heard]}
"""
)


@pytest.mark.measures
def test_partitions_and_cuts_are_on_one_network_and_on_the_ways_they_name(
    fedtest: CommandLine,
) -> None:
    found = passed(fedtest, CUT_OFF)
    assert found["both"]["found"] == [
        "nothing arrives on 4 of 4 ways", "what is sent arrives on 4 ways"
    ]  # fmt: skip
    assert found["forward"]["found"][0] == "nothing arrives on 2 of 2 ways"
    assert found["directed"]["found"][0] == "nothing arrives on 1 of 1 ways"


STATE = """
import os, socket, subprocess, sys, threading, time
last = {}
def say(what, value):
    if last.get(what) != value:
        last[what] = value
        print(what, value, flush=True)
def write():
    try:
        with open("/dev/shm/trial", "w") as file:
            file.write("x")
        os.unlink("/dev/shm/trial")  # Or its room would be there for the next.
        return "room"
    except OSError as error:
        return "full"
def lookup(name):
    try:
        return socket.gethostbyname(name)
    except OSError:
        return "unknown"
def connect(port):
    try:
        socket.create_connection((sys.argv[1], port), 0.5).close()
        return "open"
    except OSError as error:
        return type(error).__name__
def serve(port):
    listening = socket.create_server(("", port))
    while True:
        listening.accept()[0].close()
for port in (7000, 7001):
    threading.Thread(target=serve, args=(port,), daemon=True).start()
while True:
    told = subprocess.run(["ip", "-o", "-4", "address", "show", "up"], capture_output=True)
    words = [line.split() for line in told.stdout.decode().splitlines()]
    say("data", " ".join(f"{w[1]}={w[3]}" for w in words if w[3].startswith("10.66.2")) or "down")
    say("disk", write())
    say("b", lookup("b"))
    say("c", lookup("c"))
    for port in (7000, 7001):
        say(port, connect(port))
    time.sleep(0.1)
"""

HOST_STATE = (
    hosts("10.66.2.0/24")
    + "processes:\n"
    + HOLD
    + "  state:\n    hosts: [a, b, c]\n    service: true\n    run: "
    + json.dumps(["python3", "-uc", STATE, "${{ hosts.b.nics.data.ip }}"])
    + """
faults:
  - {interface: {host: a, network: data, down: true}, id: down, at: 2s, for: 1s}
  - {interface: {host: a, network: data, name: eth9}, id: name, when: down.healed, at: 1s, for: 1s}
  - {interface: {host: a, network: data, ip: 10.66.2.99}, id: ip, when: name.healed, at: 1s, for: 1s}
  - resolve: {host: c, names: {b: 127.0.1.1, c: missing}}
    id: names
    when: {process: state, host: c, log: "b 198"}
    for: 4s
  - {fill: {host: c, path: /dev/shm}, id: disk, when: {process: state, host: c, log: disk room}, for: 4s}
  - {block: {host: b, ports: [7000]}, id: drop, when: ip.healed, at: 1s, for: 2s}
  - {block: {host: b, ports: [7000-7001], answer: reject, from: a}, id: reject, when: drop.healed, at: 1s, for: 2s}
"""
    + until_healed("reject")
    + """
checks:
  - log: {process: state, host: a, order: ["data eth0=10.66.2.", data down, "data eth0=", "data eth9=10.66.2.", "data eth0=", "data eth0=10.66.2.99/24$", "data eth0="]}
  - log: {process: state, host: c, order: ["b 198", "b 127.0.1.1", "b 198"]}
  - log: {process: state, host: c, order: ["c 198", "c unknown", "c 198"]}
  - log: {process: state, host: c, order: [disk room, disk full, disk room]}
  - log: {process: state, host: a, absent: "disk full|b 127|c unknown"}
  - log: {process: state, host: a, order: [7000 open, 7000 TimeoutError, 7000 open, 7000 ConnectionRefusedError, 7000 open]}
  - log: {process: state, host: a, order: [7001 open, 7001 ConnectionRefusedError, 7001 open]}
  - log: {process: state, host: c, order: [7000 open, 7000 TimeoutError, 7000 open]}
  - log: {process: state, host: c, absent: Refused, since: reject.applied, within: 2s}
  - exit: {process: hold, signal: KILL}
  - {reach: {from: c, to: b, network: data, port: 7000}, eventually: 60s}
"""
)


@pytest.mark.measures
def test_interfaces_names_disks_and_ports_change_under_running_processes(
    fedtest: CommandLine,
) -> None:
    found = passed(fedtest, HOST_STATE)
    assert found["disk"]["found"] == [
        "host c: no byte more can be written to /dev/shm",
        "host c: /dev/shm can be written to",
    ]


BEAT = """
import itertools, socket, sys, time
print("began", flush=True)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
    for _ in range(100):
        end.sendto(bytes(1000), (sys.argv[1], 6001))
    print("sent", flush=True)
last = time.monotonic()
for number in itertools.count():
    time.sleep(0.05)
    now = time.monotonic()
    if now - last > 1:
        print(f"stood still", flush=True)
    last = now
"""

MACHINES = (
    hosts("10.66.3.0/24", "{delay: 5ms, probe: false}")
    + "processes:\n"
    + HOLD
    + watch(on="[a]")
    + "  beat:\n    hosts: [b, c]\n    run: "
    + json.dumps(["python3", "-uc", BEAT, "${{ hosts.a.nics.data.ip }}"])
    + "\n"
    + watch("talk", "[b, c]").replace("service: true, ", "")
    + """
faults:
  - {pause: {process: beat, host: b}, id: process, when: {process: beat, host: b, log: sent}, at: 500ms, for: 2s}
  - {pause: {host: c}, id: host, when: {process: beat, host: c, log: sent}, at: 1s, for: 2500ms}
  - {restart: {process: beat, host: b}, id: again, when: {process: beat, host: b, log: stood still}}
  - {restart: {host: c}, id: reboot, when: {process: beat, host: c, log: stood still}, at: 500ms}
  - {stop: {host: {any: [b]}}, id: power, when: reboot.healed, at: 1s, for: 2500ms}
  - {kill: {process: beat, signal: TERM}, id: term, when: power.healed, at: 1s}
  - {kill: {process: talk}, id: kill, when: power.healed, at: 1500ms}
  - {kill: {process: hold}, when: kill.applied}
checks:
  - exit: {process: hold, signal: KILL}
  - exit: {process: beat, signal: TERM}
  - exit: {process: talk, signal: KILL}
  - log: {process: beat, host: b, match: began, count: 3}
  - log: {process: beat, host: c, match: began, count: 2}
  - log: {process: beat, host: b, match: stood still}
  - log: {process: beat, host: c, match: stood still}
  - log: {process: watch, host: a, order: [data c heard, data c silent, data c heard]}
  - log: {process: watch, host: a, order: [data b heard, data b silent, data b heard]}
  - bytes: {host: b, network: data, direction: tx, min: 300kB, max: 700kB}
  - bytes: {host: c, network: data, direction: tx, min: 200kB, max: 600kB}
"""
)


@pytest.mark.measures
def test_processes_and_hosts_stand_still_end_and_come_back(fedtest: CommandLine) -> None:
    found = passed(fedtest, MACHINES)
    assert found["power"]["found"][0] == "off: b"
    assert found["kill"]["found"] == ["talk on b, talk on c gone"]


SEND = """
import socket, time
from fedtest.values import report
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(100000):
    report("sent", number)
    end.sendto(bytes(1000), ("${{ hosts.a.nics.data.ip }}", 6001))
    time.sleep(0.02)
"""

TRIGGERS = (
    hosts("10.66.4.0/24")
    + "processes:\n"
    + HOLD
    + "  short: {hosts: [b], run: sleep 1}\n"
    + "  talk:\n    hosts: [c]\n    service: true\n    run: "
    + json.dumps([
        "python3", "-uc",
        SEND,
    ])
    + """
faults:
  - {pause: {host: b}, id: line, when: {host: c, log: '"sent".* 20\\b'}, for: 200ms}
  - {cut: {network: mgmt, to: b}, id: exit, when: {process: short, state: exited}, for: 200ms}
  - {cut: {network: mgmt, to: c}, id: bytes, when: {host: c, network: data, bytes: 100kB}, until: value.applied}
  - {cut: {network: mgmt, from: c}, id: value, when: {process: talk, value: sent, is: ">= 150"}, for: 200ms}
  - {cut: {network: mgmt, from: a, to: b}, id: often, at: 100ms..300ms, for: 100ms..200ms, repeat: {times: 3, every: 500ms..700ms}}
  - {kill: {process: hold}, when: {process: talk, host: c, value: sent, is: ">= 500"}, at: 30s}
checks:
  - exit: {process: hold, signal: KILL}
  - exit: {process: short}
  - time: {from: {host: c, log: '"sent".* 20\\b'}, to: line.applied, within: 60s}
  - time: {from: {process: short, state: exited}, to: exit.applied, within: 60s}
  - time: {from: {process: talk, value: sent, is: ">= 80"}, to: bytes.applied, within: 60s}
  - time: {from: {process: talk, value: sent, is: ">= 150"}, to: value.applied, within: 60s}
"""
)  # fmt: skip


@pytest.mark.measures
def test_faults_come_with_lines_exits_bytes_and_values_and_again(fedtest: CommandLine) -> None:
    found = passed(fedtest, TRIGGERS)
    times = {name: len(fault["applied"]) for name, fault in found.items()}
    assert times == {
        "line": 1, "exit": 1, "bytes": 1, "value": 1, "often": 3, "kill-6": 1
    }  # fmt: skip
    assert found["bytes"]["healed"][0] >= found["value"]["applied"][0]


ECHO = "while :; do python -m fedtest.probe.echo ${{ hosts.b.nics.data.ip }} | grep time=; sleep 0.1; done"
CHANGES = (
    hosts("10.66.5.0/24", "{delay: 10ms, loss: 2%}")
    + "processes:\n"
    + HOLD
    + f"  echo: {{hosts: [a], service: true, run: {json.dumps(ECHO)}}}\n"
    + """
faults:
  - {link: {network: data, from: a, to: b, change: {delay: 80ms, loss: 0%}}, id: slow, at: 2s, for: 2s}
  - {cut: {network: data}, id: cut, when: slow.healed, at: 500ms, until: within.healed}
  - {cut: {network: data, from: b, to: a}, id: within, when: cut.applied, for: 1s}
"""
    + until_healed("cut")
    + """
checks:
  - exit: {process: hold, signal: KILL}
  - log: {process: echo, match: "time=(?P<ms>[0-9.]+)", where: {ms: "< 60"}}
  - log: {process: echo, match: "time=(?P<ms>[0-9.]+)", where: {ms: ">= 89"}, since: slow.applied, within: 60s}
  - log: {process: echo, match: "time=(?P<ms>[0-9.]+)", where: {ms: "< 60"}, since: slow.healed, within: 60s}
  - log: {process: echo, match: "time=", since: cut.healed, within: 60s}
"""
)


@pytest.mark.measures
def test_a_link_changes_and_a_conditioned_one_is_cut_twice_at_once(fedtest: CommandLine) -> None:
    found = passed(fedtest, CHANGES)
    assert found["slow"]["found"][0] == "measured on 1 ways"
    # One is over while the other one still keeps everything out.
    assert found["within"]["found"][1] == "nothing arrives on 1 of 1 ways"


FLOW = """
import socket, struct, sys, time
packet = struct.Struct("dI")
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "send":
    began = time.monotonic()
    number = 0
    while True:
        while number < 1000 * (time.monotonic() - began):
            end.sendto(packet.pack(time.monotonic(), number) + bytes(1200), (sys.argv[2], 6002))
            number += 1
        time.sleep(0.001)
end.bind((sys.argv[2], 6002))
window, sent = None, []
while True:
    at, number = packet.unpack_from(end.recv(2000))
    if number // 300 != window:
        if len(sent) > 1:
            mbit = len(sent) * 1216 * 8 / (sent[-1] - sent[0]) / 1e6
            kept = len(sent) / 300
            print(f"mbit {mbit:.2f} lost {1 - kept:.3f} kept {kept:.3f}", flush=True)
        window, sent = number // 300, []
    sent.append(at)
"""

RATE_AND_LOSS = (
    hosts("10.66.19.0/24")
    + "processes:\n"
    + HOLD
    + "".join(
        f"  {name}: {{hosts: [{host}], service: true, run: {json.dumps(['python3', '-uc', FLOW, name, '${{ hosts.b.nics.data.ip }}'])}}}\n"
        for name, host in (("hear", "b"), ("send", "a"))
    )
    + """
faults:
  - {link: {network: data, from: a, to: b, change: {rate: 5mbit}}, id: rate, at: 1500ms, for: 2s}
  - {link: {network: data, from: a, to: b, change: {loss: 20%}}, id: loss, when: rate.healed, at: 1s, for: 2s}
"""
    + until_healed("loss")
    + """
checks:
  - exit: {process: hold, signal: KILL}
  - log: {process: hear, order: [mbit 9, 'mbit [34]\\.', mbit 9, 'lost 0\\.[12]', lost 0.0]}
  - log: {process: hear, match: "mbit (?P<mbit>.*) lost", where: {mbit: "<= 5"}, since: rate.applied, within: 60s, count: ">= 3"}
  - log: {process: hear, match: "lost (?P<lost>.*) kept (?P<kept>.*)", where: {lost: ">= 0.12", kept: ">= 0.72"}, since: loss.applied, within: 60s, count: ">= 3"}
  - log: {process: hear, match: "lost (?P<lost>.*) kept", where: {lost: "<= 0.02"}, since: loss.healed, within: 60s, count: ">= 2"}
"""
)


@pytest.mark.netns  # the same scripts on every engine; CHANGES has a link fault for both
@pytest.mark.measures
def test_a_rate_and_a_loss_come_and_go_where_there_were_no_conditions(
    fedtest: CommandLine,
) -> None:
    found = passed(fedtest, RATE_AND_LOSS)
    for name in ("rate", "loss"):
        assert found[name]["found"] == ["measured on 1 ways", "read back"]


LEFT = (
    hosts("10.66.6.0/24")
    + "processes: {hold: {hosts: [a, b, c], run: sleep 60}}\n"
    + "faults:\n  - {FAULT: {host: b}, at: 0s}\n"
    + "checks: [exit: {process: hold}]\n"
)


@pytest.mark.parametrize("kind", ["pause", "stop"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_run_is_ended_while_a_host_is_paused_or_off(
    fedtest: CommandLine, kind: str, number: signal.Signals
) -> None:
    file = fedtest.scenario("left", LEFT.replace("FAULT", kind))
    process = fedtest.start("run", file)
    assert process.stdout is not None
    assert any(f"fault {kind}-1 applied" in line for line in process.stdout)
    process.send_signal(number)
    done = fedtest.end(process, timeout=120)
    if number == signal.SIGKILL:
        cleaned = fedtest("clean")
        assert cleaned.code == 0, cleaned.err
    else:
        assert done.code == 130, done.out + done.err
    (run_id,) = fedtest.run_ids()
    assert left_behind(run_id) == []
