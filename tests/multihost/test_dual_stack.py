"""Networks with both families: what is said of a network, or of a fault on it, holds for both."""

# ruff: noqa: E501 - a line of a scenario is one thing

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import run_with
from fault_hosts import HOLD, hosts, until_healed
from test_faults_noticed import Tampered

from fedtest.engine.choose import open_engine
from fedtest.run.result import Verdict
from network_scenarios import two

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import CommandLine

# The same code looks and judges on every engine.
without_docker = pytest.mark.netns

SERVE = """
import socket
listening = socket.create_server(("", 5000), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
ends = [listening.accept()[0] for _ in range(2)]
for end in ends:
    while end.recv(65536):
        pass
"""
TALK = """
import socket, sys, time
found = {item[4][0] for item in socket.getaddrinfo("b", 5000, type=socket.SOCK_STREAM)}
print("b is", found == set(sys.argv[1:]) and len(found), flush=True)
ends = [socket.create_connection((address, 5000)) for address in sys.argv[1:]]
for end in ends:
    end.sendall(bytes(300_000))
time.sleep(4)  # A busy machine looks at sockets less often.
"""


pytestmark = pytest.mark.needs("ipv6")


def test_names_traffic_and_checks_are_of_both_families(fedtest: CommandLine) -> None:
    places = ["${{ hosts.b.nics.data.ip }}", "${{ hosts.b.nics.data.ip6 }}"]
    text = two(
        "{ipv6: true}",
        rest=f"""resolve: data
processes:
  serve: {{hosts: [b], run: {json.dumps(["python3", "-c", SERVE])}}}
  talk:
    hosts: [a]
    after: {{process: serve, log: ready}}
    run: {json.dumps(["python3", "-c", TALK, *places])}
checks:
  - log: {{process: talk, match: "^b is 2$"}}
  - sockets: {{process: talk, remote: data}}
  - bytes: {{host: a, network: data, direction: tx, peer: b, min: 600kB}}
  - bytes: {{host: a, network: mgmt, direction: tx, max: 10kB}}
  - {{sockets: {{process: talk, remote: "{places[0]}"}}, id: four-alone}}
""",
    )
    done = fedtest("run", fedtest.scenario("both", text))
    assert done.code == 1, done.out + done.err
    # Of two connections one leads elsewhere: by IPv6.
    assert [item["id"] for item in done.result["checks"] if not item["passed"]] == ["four-alone"]


ECHO = """
last=
while :; do
  now=heard
  for family in FAMILIES; do
    if python -m fedtest.probe.echo -$family b > /dev/null 2>&1; then now="$now $family"; fi
  done
  [ "$now" = "$last" ] || echo "$now."
  last=$now
  sleep 0.1
done
"""
# Host c speaks with nobody: who has never sent it anything must be measured all the same.
FAULTS = """
faults:
  - {cut: {network: data}, id: cut, when: {process: echo, log: '6[.]'}, at: 1s, for: 5s}
  - {cut: {network: data, from: a, to: b}, id: directed, when: cut.healed, at: 2s, for: 5s}
  - {interface: {host: a, network: data, down: true}, id: down, when: directed.healed, at: 2s, for: 5s}
  - {block: {host: b, ports: [7000], from: c}, id: block, when: cut.healed, for: 1s}
"""


def kept_out(fedtest: CommandLine, network: str, families: str) -> None:
    """By each fault, those of each family; and not any more when it is over."""
    echo = json.dumps(ECHO.replace("FAMILIES", families))
    text = hosts("").replace("subnet: ", network)
    text += f"resolve: data\nprocesses:\n{HOLD}"
    text += f"  echo: {{hosts: [a], service: true, run: {echo}}}\n"
    order = [f"heard {families}[.]", *["heard[.]", f"heard {families}[.]"] * 3]
    text += f"""{FAULTS}{until_healed("down", "3s")}
checks:
  - exit: {{process: hold, signal: KILL}}
  - log: {{process: echo, order: {json.dumps(order)}}}
"""
    done = fedtest("run", fedtest.scenario("families", text))
    assert done.code == 0, done.out + done.err
    found = {item["id"]: item["found"][0] for item in done.result["faults"]}
    each = len(families.split())
    # A port is blocked on the other network, too, which has IPv4 only.
    for name, count in (("cut", 3 * each), ("directed", each), ("block", 1 + each)):
        assert found[name] == f"nothing arrives on {count} of {count} ways"


def test_what_keeps_packets_out_keeps_out_those_of_each_family(fedtest: CommandLine) -> None:
    kept_out(fedtest, "ipv6: true", "4 6")


@without_docker
def test_packets_are_kept_out_where_there_is_ipv6_only(fedtest: CommandLine) -> None:
    kept_out(fedtest, "ipv4: false, ipv6: true", "6")


@without_docker
def test_a_cut_that_one_family_passes_by_is_noticed(tmp_path: Path, engine_name: str) -> None:
    looks = "ip6tables -w -S 2>/dev/null"
    passed_by = f"ip6tables -w -I INPUT 1 -j ACCEPT\n{looks}"
    bent = Tampered(open_engine(engine_name), looks, passed_by)
    text = hosts("").replace("subnet: ", "ipv6: true")
    text += "processes: {work: {hosts: [a], run: sleep 30}}\n"
    text += "faults:\n  - {cut: {network: data}, at: 0s, id: cut}\n"
    result = run_with(bent.engine, text, tmp_path)
    assert bent.count
    assert result.verdict is Verdict.INVALID
    message = result.problems[0].message
    assert message.startswith("fault cut: was not applied: what is sent from ")
    assert "arrives" in message
    assert "fd" in message
