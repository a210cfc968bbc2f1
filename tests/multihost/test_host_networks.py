"""What hosts' networks have on real hosts: each kind works, and is noticed when it does not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from node_python import need

from fedtest.engine.netns.engine import NetnsEngine
from fedtest.plan import make_plan
from fedtest.run.artifacts import RunDirectory
from fedtest.run.events import EventLog
from fedtest.run.observer import Observer
from fedtest.run.settle import Settings
from fedtest.scenario.load import loads
from fedtest.subnets import choose
from network_scenarios import ROUTED, process, routed, two

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import CommandLine

    from fedtest.engine.base import Engine, RunTag

DEADLINE = 60.0
ECHO = "python -m fedtest.probe.echo"


def passed(fedtest: CommandLine, text: str, host: str = "a") -> list[str]:
    """The log of `work` in a run that passed."""
    done = fedtest("run", fedtest.scenario("nets", text))
    assert done.code == 0, done.out + done.err
    log = done.runs / "latest" / "logs" / f"{host}.work.log"
    return log.read_text(encoding="utf-8").splitlines()


def settings(fedtest: CommandLine) -> dict[str, Any]:
    (entry,) = json.loads((fedtest.runs / "latest" / "settings.json").read_text())
    return dict(entry)


def test_an_interface_has_its_mac_address_and_another_has_no_address(fedtest: CommandLine) -> None:
    text = two(
        a='{name: eth0, mac: "02:00:00:00:00:AA"}',
        b="{name: ib0, ip: none}",
        rest="resolve: data\n"
        + process("cat /sys/class/net/${{ nics.data.name }}/address; getent hosts b || echo none"),
    )
    assert passed(fedtest, text) == ["02:00:00:00:00:aa", "none"]
    found = json.loads((fedtest.runs / "latest" / "hosts" / "b.before.json").read_text())
    assert found["interfaces"]["ib0"]["addresses"] == []


LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], 5000), family=socket.AF_INET6)
if sys.argv[2] == "serve":
    server.accept()[0].sendall(b"heard")
"""
HOLD = """
import socket, sys, time
server = socket.create_server((sys.argv[1], 6000), family=socket.AF_INET6)
time.sleep(8)
"""
TALK = """
import socket, time
end = time.monotonic() + 20
while True:
    try:
        connection = socket.create_connection(("b", 5000))
        break
    except ConnectionRefusedError:
        assert time.monotonic() < end
print(connection.recv(9).decode(), connection.getpeername()[0])
time.sleep(8)  # A busy machine looks at sockets less often.
"""


@pytest.mark.needs("ipv6")
def test_an_ipv6_network_carries_names_templates_and_checks(fedtest: CommandLine) -> None:
    serve = ["python3", "-c", LISTEN, "${{ nics.data.ip6 }}", "serve"]
    hold = ["python3", "-c", HOLD, "${{ nics.data.ip6 }}"]
    talk = ["python3", "-c", TALK]
    text = two(
        '{ipv4: false, subnet6: "fd00:12::/64"}',
        b='{name: ib0, ip6: "fd00:12::b"}',
        rest=f"""resolve: data
groups: {{pair: {{members: [b, a], network: data}}}}
processes:
  serve: {{hosts: [b], run: {json.dumps(serve)}}}
  hold: {{hosts: [b], run: {json.dumps(hold)}}}
  work: {{hosts: [a], run: {json.dumps(talk)}, env: {{B: "${{{{ pair.master }}}}"}}}}
checks:
  - sockets: {{process: work, local: "${{{{ nics.data.ip6 }}}}", remote: data}}
  - sockets: {{process: work, remote: "fd00:0012::b"}}
  - sockets: {{process: hold, listen: {{port: 6000, local: "${{{{ nics.data.ip6 }}}}"}}}}
  - reach: {{from: a, to: b, network: data, port: 6000}}
    eventually: 10s
  - reach: {{from: a, to: b, network: data, port: 6001, reachable: false}}
""",
    )
    assert passed(fedtest, text) == ["heard fd00:12::b"]


GLOO = """
import os, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", rank=rank, world_size=2)
total = torch.ones(100_000) * (rank + 1)
dist.all_reduce(total)
assert total.eq(3).all()
print("sum", int(total[0]))
"""


@pytest.mark.needs("ipv6")
def test_gloo_reduces_over_an_interface_with_ipv6_only(fedtest: CommandLine) -> None:
    need(fedtest.engine, "torch")
    text = two(
        "{ipv4: false, ipv6: true}",
        rest=f"""resolve: data
groups: {{pair: {{members: [a, b], network: data}}}}
processes:
  work:
    hosts: pair
    run: {json.dumps(["python3", "-c", GLOO])}
    env:
      MASTER_ADDR: "${{{{ pair.master }}}}"
      MASTER_PORT: "${{{{ pair.port }}}}"
      RANK: "${{{{ pair.rank }}}}"
      GLOO_SOCKET_IFNAME: "${{{{ nics.data.name }}}}"
    deadline: 120s
checks:
  - bytes: {{group: pair, network: data, direction: tx, min: 100kB}}
  - bytes: {{group: pair, network: mgmt, direction: tx, max: 10kB}}
""",
    )
    assert passed(fedtest, text)[-1] == "sum 3"


WHO = """
import socket
server = socket.create_server(("", 5000))
connection, sender = server.accept()
print("from", sender[0])
"""
CONNECT = """
import socket, sys, time
end = time.monotonic() + 20
while time.monotonic() < end:
    try:
        socket.create_connection((sys.argv[1], 5000), 5).recv(1)
        break
    except ConnectionRefusedError:
        pass
"""


@pytest.mark.parametrize("nat", [True, False])
def test_a_host_forwards_between_its_networks_under_its_own_address_or_not(
    fedtest: CommandLine, nat: bool
) -> None:
    connect = ["python3", "-c", CONNECT, "${{ hosts.b.nics.right.ip }}"]
    rest = f"""processes:
  work: {{hosts: [b], run: {json.dumps(["python3", "-c", WHO])}}}
  connect: {{hosts: [a], run: {json.dumps(connect)}, deadline: 30s}}
  none: {{hosts: [r, b], run: "! ip route | grep default"}}
"""
    if nat:
        text = routed(", forward: {nat: right}", back="", rest=rest)
    else:
        text = routed(back=", routes: [{to: left, via: r}]", rest=rest)
    (line,) = passed(fedtest, text, "b")
    plan = json.loads((fedtest.runs / "latest" / "plan.json").read_text())
    address = {
        (host["name"], item["network"]): item["address"].partition("/")[0]
        for host in plan["hosts"]
        for item in host["attachments"]
    }
    assert line == f"from {address['r', 'right'] if nat else address['a', 'left']}"
    through = [item["what"] for item in settings(fedtest)["answers"] if item["over"]]
    assert through[:1] == ["host b through r"]


@pytest.mark.needs("ipv6")
def test_a_host_forwards_ipv6(fedtest: CommandLine) -> None:
    echo = f"{ECHO} -W 2 ${{{{ hosts.b.nics.right.ip6 }}}} > /dev/null && echo there"
    text = routed(rest=process(echo), networks="{ipv4: false, ipv6: true}")
    assert passed(fedtest, text) == ["there"]


def test_a_host_that_is_not_to_forward_does_not(fedtest: CommandLine) -> None:
    text = ROUTED.replace("LEFT", "{subnet: 10.78.9.0/24}").replace("RIGHT", "{}")
    text = text.replace("GATEWAY", ", gateway: 10.78.9.3").replace("FORWARD", "")
    echo = f"{ECHO} ${{{{ hosts.r.nics.left.ip }}}} > /dev/null && ! {ECHO} "
    echo += "${{ hosts.b.nics.right.ip }} > /dev/null && cat /proc/sys/net/ipv4/ip_forward"
    passed(fedtest, text.replace("BACK", "") + process(echo))


def test_names_lead_where_a_host_says_and_nowhere_else(fedtest: CommandLine) -> None:
    more = ", aliases: [head], names: {a: 127.0.1.1, b: missing, c: 192.0.2.7, d: b}"
    text = two(more=more, rest="""processes:
  work: {hosts: [a], run: "for name in a b c d; do getent hosts $name || echo no $name; done"}
  other: {hosts: [b], run: "getent hosts head"}
""")  # fmt: skip
    a, b, c, d = (" ".join(line.split()) for line in passed(fedtest, text))
    assert (a, b, c) == ("127.0.1.1 a", "no b", "192.0.2.7 c")
    assert d.endswith(" d")
    other = (fedtest.runs / "latest" / "logs" / "b.other.log").read_text(encoding="utf-8")
    assert other.split()[1:] == ["a", "head"]


RESOLVE = """
import socket
for name in ("web.example", "six.example", "gone.example", "bad.example", "unknown.example"):
    try:
        print(name, *sorted({item[4][0] for item in socket.getaddrinfo(name, 80)}))
    except socket.gaierror as error:
        print(name, error.strerror)
print(socket.gethostbyaddr("192.0.2.7")[0])
"""


def test_dns_answers_as_it_is_told_and_not_at_all_where_it_is_told_that(
    fedtest: CommandLine,
) -> None:
    dns = (
        'dns: {web.example: 192.0.2.7, six.example: "2001:db8::7", gone.example: nxdomain,'
        " bad.example: servfail}\n"
    )
    silent = "getent hosts dead.example; echo $?"
    text = two(more=", dns: {dead.example: silent}", rest=dns + f"""processes:
  work: {{hosts: [a], run: {json.dumps(["python3", "-c", RESOLVE])}}}
  silent: {{hosts: [a], run: {json.dumps(silent)}, deadline: 60s}}
checks:
  - time:
      from: {{process: silent, state: started}}
      to: {{process: silent, state: exited}}
      within: 50s
""")  # fmt: skip
    assert passed(fedtest, text) == [
        "web.example 192.0.2.7",
        "six.example 2001:db8::7",
        "gone.example Name or service not known",
        "bad.example Temporary failure in name resolution",
        "unknown.example Name or service not known",
        "web.example",
    ]
    log = (fedtest.runs / "latest" / "logs" / "a.silent.log").read_text(encoding="utf-8")
    assert log == "2\n"


WHOLE = two(
    "{ipv6: true}",
    a='{name: eth0, mac: "02:00:00:00:00:0a"}',
    more=", dns: {web.example: 192.0.2.7}",
)


@pytest.mark.needs("ipv6")
def test_a_host_is_whole_again_after_it_was_switched_off(
    engine: Engine, run: RunTag, tmp_path: Path
) -> None:
    scenario = loads(WHOLE).scenario
    plan = make_plan(scenario, choose(scenario, run.id, ()))
    prepared = engine.prepare(plan, run, print)
    engine.realise(plan, run, prepared, print, DEADLINE)
    directory = RunDirectory(tmp_path, "whole", run.id, datetime.now(UTC))
    events = EventLog(tmp_path / "events.jsonl")
    settings = Settings(engine, run, directory, events, Observer())
    found = settings.settle(plan)
    assert found["a"].interfaces["eth0"].mac == "02:00:00:00:00:0a"
    # A MAC address that is not the engine's is none of its business.
    engine.realise(plan, run, prepared, print, DEADLINE)

    engine.power(run, {"a": "off"}, DEADLINE)
    again = engine.realise(plan, run, prepared, print, DEADLINE)
    # Docker's is a new one; without Docker an interface is made with its own.
    made_with_it = isinstance(engine, NetnsEngine)
    assert (again["a"].interfaces["eth0"].mac == "02:00:00:00:00:0a") == made_with_it
    assert settings.settle(plan, ["a"]).keys() == {"a"}
    assert settings.settle(plan, []) == {}
    events.close()
    first, second = json.loads((directory.path / "settings.json").read_text())
    assert set(first["applied"]) == {"a", "b"}
    assert set(second["applied"]) == {"a"}
