"""The scenarios that ship, run as a user runs them, from a directory that is not the clone."""

from __future__ import annotations

import json

import pytest
from conftest import CommandLine, left_behind
from node_python import need

from fedtest.bundle import bundle, shipped_scenarios
from fedtest.scenario.load import load

ECHO = "python -m fedtest.probe.echo"
# These show the library and the trainer, which are the same on every engine; without Docker
# they take less time.
WITHOUT_DOCKER = {
    "hierarchical-aggregate",
    "hierarchical-client-dies",
    "hierarchical-middle-dies",
    "hierarchical-three-levels",
    "hierarchical-top-dies",
    "ring-peer-dies",
    "ring-resume",
    "ring-slow-link",
    "ring-two-servers",
    "ring-without-interface",
}


# What they check has to do with time.
TIMED = {
    "hierarchical-client-dies",
    "hierarchical-middle-dies",
    "hierarchical-top-dies",
    "ring-peer-dies",
    "ring-slow-link",
    "ring-with-faults",
    "slow-link",
    "torchrun",
    "wrong-interface",
}


def marks(name: str) -> list[pytest.MarkDecorator]:
    found = [pytest.mark.netns] if name in WITHOUT_DOCKER else []
    return [*found, pytest.mark.measures] if name in TIMED else found


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks(name)) for name in shipped_scenarios()],
)
def test_a_shipped_scenario_passes(fedtest: CommandLine, name: str) -> None:
    scenario = load(f"scenarios/{name}.yaml").scenario
    need(fedtest.engine, "torch", "torchvision", *(["fedlab"] if scenario.build else []))
    done = fedtest("run", f"scenarios/{name}.yaml")
    assert done.code == 0, done.out + done.err
    result = done.result
    assert result["verdict"] == "passed"
    assert result["checks"]
    assert all(check["passed"] for check in result["checks"])
    assert left_behind(result["id"]) == []


@pytest.mark.netns  # where an image brings it, it is there
@pytest.mark.parametrize("name", ["interop-fedlab", "hierarchical-fedlab"])
def test_where_there_is_no_fedlab_the_run_ends_soon_and_says_so(
    fedtest: CommandLine, name: str
) -> None:
    need(fedtest.engine, "torch", "torchvision")
    scenarios = bundle() / "scenarios"
    text = (scenarios / f"{name}.yaml").read_text(encoding="utf-8")
    # From no image; what is beside a script comes before what is installed.
    text = text.replace("build: ../images/peers/fedlab\nimage_optional: true\n", "").replace(
        "{from: fedlab}",
        f"{{from: {scenarios / 'fedlab'}}}, /opt/peer/fedlab.py: raise ImportError",
    )
    assert "raise ImportError" in text
    assert "\nbuild:" not in text
    done = fedtest("run", fedtest.scenario(name, text))
    assert done.code == 1, done.out + done.err
    assert "FedLab is not installed here" in done.out
    assert "never started: it waited in vain" in done.out
    # It waited for no deadline.
    assert "still running" not in done.out
    assert left_behind(done.result["id"]) == []


@pytest.mark.netns
def test_hosts_that_go_without_their_image_are_told_of(fedtest: CommandLine) -> None:
    text = TWO_HOSTS.format(name="s", run="sleep 0", deadline="60s")
    text = text.replace("b: {", "b: {image: 'nobody/has:this', image_optional: true, ")
    done = fedtest("run", fedtest.scenario("s", text))
    assert done.code == 0, done.out + done.err
    assert "without their image, which is optional, and from this machine: b\n" in done.out


TWO_HOSTS = """
fedtest: 1
name: {name}
networks: {{mgmt: {{}}, data: {{}}}}
hosts:
  a: {{nics: {{mgmt: mgmt0, data: eth0}}}}
  b: {{nics: {{mgmt: mgmt0, data: enps1}}}}
processes:
  p:
    hosts: [a, b]
    run: {run}
    deadline: {deadline}
checks:
  - exit: {{process: p, code: 0}}
"""


def test_a_second_run_builds_and_provisions_nothing(fedtest: CommandLine) -> None:
    text = TWO_HOSTS.format(name="s", run="ls /data/MNIST/raw", deadline="60s")
    file = fedtest.scenario("s", text + "\ndata: {mnist: /data}\n")
    fedtest("run", file)
    again = fedtest("run", file)
    assert again.code == 0, again.out + again.err
    stage = again.out.partition("images and data ...")[2].partition("images and data: done")[0]
    assert stage.strip() == ""


def test_processes_are_a_plain_user_and_names_resolve_on_the_chosen_network(
    fedtest: CommandLine,
) -> None:
    run = '"id -u; getent hosts b; cat /proc/sys/kernel/hostname"'
    file = fedtest.scenario("s", TWO_HOSTS.format(name="s", run=run, deadline="60s"))
    done = fedtest("run", file)
    assert done.code == 0, done.out + done.err
    uid, resolved, hostname = (
        (done.runs / "latest" / "logs" / "a.p.log").read_text(encoding="utf-8").splitlines()
    )
    plan = (done.runs / "latest" / "plan.json").read_text(encoding="utf-8")
    assert uid == "1000"
    assert hostname == "a"
    address = resolved.split()[0]
    assert f'"{address}/' in plan.partition('"network": "mgmt"')[2]


@pytest.mark.docker
def test_an_image_of_the_users_own_needs_neither_python_nor_iproute2(
    fedtest: CommandLine,
) -> None:
    text = TWO_HOSTS.format(name="s", run="cat /etc/debian_version", deadline="60s")
    file = fedtest.scenario("s", text + "\nimage: debian:trixie-slim\n")
    done = fedtest("run", file)
    assert done.code == 0, done.out + done.err


@pytest.mark.docker
def test_an_image_of_the_users_own_is_built_on_ours(fedtest: CommandLine) -> None:
    directory = fedtest.directory / "mine"
    directory.mkdir()
    (directory / "Dockerfile").write_text(
        "ARG FEDTEST_NODE\nFROM ${FEDTEST_NODE}\nCOPY mine.py /mine.py\n", encoding="utf-8"
    )
    (directory / "mine.py").write_text("print('mine')", encoding="utf-8")
    text = TWO_HOSTS.format(name="s", run="python /mine.py", deadline="60s")
    done = fedtest("run", fedtest.scenario("s", text + "\nbuild: mine\n"))
    assert done.code == 0, done.out + done.err
    assert "a p| mine" in done.out


@pytest.mark.docker
def test_an_image_that_cannot_be_had_makes_the_run_invalid(fedtest: CommandLine) -> None:
    text = TWO_HOSTS.format(name="s", run="sleep 0", deadline="60s")
    mine = fedtest.directory / "mine"
    mine.mkdir()
    (mine / "Dockerfile").write_text("FROM debian:trixie-slim\nRUN exit 7\n", encoding="utf-8")
    done = fedtest("run", fedtest.scenario("s", text + "\nbuild: mine\n"))
    assert done.code == 3, done.out + done.err
    assert "exit 7" in done.out
    assert "Traceback" not in done.out + done.err


SERVE = """
import socket, time
server = socket.create_server(("", 5000))
connection, _ = server.accept()
time.sleep(1)
connection.close()
"""

CONNECT = """
import socket, time
while True:
    try:
        connection = socket.create_connection(("a", 5000))
        break
    except OSError:
        time.sleep(0.05)
connection.recv(1)
connection.close()
"""


def test_the_sockets_of_a_short_exchange_are_seen(fedtest: CommandLine) -> None:
    """Two hosts connect for a second only."""
    text = """
fedtest: 1
name: short
networks: {lan: {}}
hosts:
  a: {nics: {lan: eth0}}
  b: {nics: {lan: enps1}}
processes:
  serve: {hosts: [a], run: [python, -c, SERVE], deadline: 60s}
  connect: {hosts: [b], run: [python, -c, CONNECT], deadline: 60s}
checks:
  - sockets: {process: serve, local: "${{ nics.lan.ip }}", ignore_port: 1}
  - sockets: {process: connect, local: "${{ nics.lan.ip }}"}
"""
    text = text.replace("SERVE", json.dumps(SERVE)).replace("CONNECT", json.dumps(CONNECT))
    done = fedtest("run", fedtest.scenario("short", text))
    found = {check["expected"].split()[3]: check for check in done.result["checks"]}
    assert found["connect"]["passed"], done.out
    # The listener is bound to all addresses, which is what the check is there to find.
    assert "0.0.0.0:5000" in str(found["serve"]["details"]) or ":::5000" in str(
        found["serve"]["details"]
    )


def test_a_process_that_overruns_its_deadline_fails_the_run_and_is_named(
    fedtest: CommandLine,
) -> None:
    run = "\"echo still waiting; trap '' TERM; while :; do sleep 1; done\""
    file = fedtest.scenario("s", TWO_HOSTS.format(name="s", run=run, deadline="2s"))
    done = fedtest("run", file)
    assert done.code == 1, done.out + done.err
    assert "p on a: still running after its deadline of 2 s" in done.out
    assert "still waiting" in done.out
    assert left_behind(done.result["id"]) == []


PYTHON = """
fedtest: 1
name: hangs
networks: {lan: {}}
hosts: {a: {nics: {lan: eth0}}}
processes:
  p:
    hosts: [a]
    deadline: 3s
    run:
      - python3
      - -c
      - |
        import socket
        def receive_for_ever(end):
            end.recv(1)
        one, two = socket.socketpair()
        receive_for_ever(two)
"""


def test_what_a_process_was_doing_at_its_deadline_is_saved(fedtest: CommandLine) -> None:
    done = fedtest("run", fedtest.scenario("hangs", PYTHON))
    assert done.code == 1, done.out + done.err
    assert "What it was doing is in hosts/a.stacks.txt" in done.out
    hosts = done.runs / "latest" / "hosts"
    assert "receive_for_ever (<string>:3)" in (hosts / "a.stacks.txt").read_text(encoding="utf-8")
    assert (hosts / "a.overdue.txt").is_file()


def test_hosts_reach_each_other_by_name_and_nothing_outside(fedtest: CommandLine) -> None:
    run = f'"{ECHO} -W 5 a b && ! {ECHO} 192.0.2.1"'
    file = fedtest.scenario("s", TWO_HOSTS.format(name="s", run=run, deadline="60s"))
    done = fedtest("run", file)
    assert done.code == 0, done.out + done.err
