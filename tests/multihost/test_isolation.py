"""A run's hosts reach each other, and nothing else: no other run, not the machine, not beyond."""

from __future__ import annotations

import json
import re
import secrets
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest
from conftest import CommandLine, left_behind

if TYPE_CHECKING:
    from collections.abc import Iterator


OUTSIDE = "203.0.113.1"
"""Of a range that belongs to nobody: a packet for it is not answered, but may be on its way."""

# Tries everything as root of a host, and reports what it got hold of.
ATTEMPT = """
import errno, json, os, socket, sys
from concurrent.futures import ThreadPoolExecutor

UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}

def value(name, found):
    print("fedtest-value " + json.dumps({"name": name, "value": " ".join(found) or "nothing"}))

def attempt(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as sock:
            sock.settimeout(6)
            sock.connect((address, port))
    except OSError as error:
        # Whoever refuses us was reached; and silence may be that of somebody beyond.
        return error.errno not in UNREACHABLE
    return True

def past_routes(address, port):
    # As if the address were on the network of the host.
    try:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
            sock.settimeout(6)
            sock.connect((address, port))
    except OSError as error:
        return error.errno == errno.ECONNREFUSED
    return True

targets = [item.rsplit("/", 1) for item in sys.argv[1:]]
targets = [(address, int(port)) for address, port in targets]
with ThreadPoolExecutor(len(targets) * 2) as pool:
    found = list(pool.map(attempt, *zip(*targets)))
    past = list(pool.map(past_routes, *zip(*[item for item in targets if ":" not in item[0]])))
value("reached", [address for (address, _), there in zip(targets, found) if there])
value("reached past routes", ["something"] if any(past) else [])

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.settimeout(5)
    sock.connect(("127.0.0.11", 53))
    name = b"".join(bytes([len(part)]) + part for part in b"somewhere.invalid".split(b"."))
    try:
        sock.send(b"\\x12\\x34\\x01\\x00\\x00\\x01" + b"\\0" * 6 + name + b"\\0\\0\\x01\\0\\x01")
        answer = [sock.recv(512).hex()]
    except OSError:
        answer = []
value("names from outside", [item for item in answer if int(item[6:8], 16) & 15 in (0, 3)])

paths = ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"]
mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
value("sockets", [path for path in paths if os.path.lexists(path)]
      + [path for path in mounts if "docker.sock" in path or "containerd" in path])

effective = int(next(line for line in open("/proc/self/status") if "CapEff" in line).split()[1], 16)
forbidden = {"NET_ADMIN": 12, "SYS_MODULE": 16, "SYS_ADMIN": 21, "SYS_BOOT": 22}
value("rights", [name for name, bit in forbidden.items() if effective >> bit & 1])
"""

SCENARIO = """
fedtest: 1
name: curious
networks: {{data: {{subnet: {subnet}, internal: {internal}}}}}
hosts: {{a: {{nics: {{data: eth0}}}}}}
processes:
  p: {{hosts: [a], user: "0:0", run: {run}, deadline: 200s}}
checks:
  - exit: {{process: p, code: 0}}
  - value: {{process: p, name: reached, each: "== {reached}"}}
  - value: {{process: p, name: reached past routes, each: "== {past}"}}
  - value: {{process: p, name: sockets, each: "== nothing"}}
  - value: {{process: p, name: rights, each: "== nothing"}}
  - value: {{process: p, name: names from outside, each: '{names}'}}
"""

OTHER = """
fedtest: 1
name: other
networks: {data: {}}
hosts: {x: {nics: {data: eth0}}, y: {nics: {data: eth0}}}
processes:
  server: {hosts: [x], run: RUN, deadline: 300s}
  neighbour:
    hosts: [y]
    run: until python3 -c 'import socket; socket.create_connection(("x", 4444), 5)'; do :; done
    deadline: 60s
"""
SERVER = """
import socket
with socket.create_server(("", 4444)) as server:
    while True:
        print("visit from", server.accept()[1][0], flush=True)
"""


@pytest.fixture
def port() -> Iterator[int]:
    """At every address of the machine somebody listens there."""
    with socket.create_server(
        ("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64
    ) as server:
        yield server.getsockname()[1]


def machine() -> list[str]:
    """The machine's own addresses, loopback aside."""
    told = subprocess.run(
        ["ip", "-o", "addr", "show", "scope", "global"], capture_output=True, text=True, check=True
    )
    return re.findall(r"inet6? ([0-9a-f.:]+)/", told.stdout)


def curious(
    fedtest: CommandLine, targets: list[str], *, internal: bool, reached: str = "nothing"
) -> str:
    """A scenario whose host tries to reach the targets, and its own gateway."""
    octet = secrets.randbelow(250)
    gateway = f"10.232.{octet}.1"
    text = SCENARIO.format(
        subnet=f"10.232.{octet}.0/24",
        internal=str(internal).lower(),
        run=json.dumps(["python3", "-c", ATTEMPT, *targets, f"{gateway}/2375"]),
        reached=reached.replace("GATEWAY", gateway),
        past="nothing" if internal else "something",
        names="== nothing" if internal else '!= ""',
    )
    return fedtest.scenario("curious", text)


def test_the_machine_and_what_is_beyond_it_are_out_of_reach(
    fedtest: CommandLine, port: int
) -> None:
    addresses = machine()
    assert addresses
    targets = [*(f"{address}/{port}" for address in addresses), f"{OUTSIDE}/80"]
    done = fedtest("run", curious(fedtest, targets, internal=True))
    assert done.code == 0, done.out + done.err
    assert left_behind(done.result["id"]) == []


@pytest.mark.docker  # Without it there is no way out to ask for.
def test_where_the_scenario_asks_for_a_way_out_the_same_attempt_finds_it(
    fedtest: CommandLine, port: int
) -> None:
    """Which shows that the attempt is one."""
    address = next(item for item in machine() if ":" not in item)
    targets = [f"{address}/{port}"]
    file = curious(fedtest, targets, internal=False, reached=f"{address} GATEWAY")
    done = fedtest("run", file)
    assert done.code == 0, done.out + done.err


def test_another_runs_hosts_are_out_of_reach(fedtest: CommandLine) -> None:
    run = json.dumps(["python3", "-c", SERVER])
    other = fedtest.start("run", fedtest.scenario("other", OTHER.replace("RUN", run)))
    try:
        assert other.stdout is not None
        # It can be reached, by its own neighbour.
        assert any("x server| visit from" in line for line in other.stdout)
        (directory,) = fedtest.runs.glob("*-other-*")
        plan = json.loads((directory / "plan.json").read_text(encoding="utf-8"))
        (address,) = [
            item["address"].partition("/")[0]
            for host in plan["hosts"]
            if host["name"] == "x"
            for item in host["attachments"]
        ]
        done = fedtest("run", curious(fedtest, [f"{address}/4444"], internal=True))
        assert done.code == 0, done.out + done.err
    finally:
        other.send_signal(signal.SIGINT)
        ended = fedtest.end(other, timeout=120)
    assert ended.code == 130
    assert "visit from" not in ended.out
    for run_id in fedtest.run_ids():
        assert left_behind(run_id) == []
