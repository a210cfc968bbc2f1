"""When processes start and end, on real hosts: in order, as services, and when it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtest.engine.base import ProcessKey
from fedtest.plan import make_plan
from fedtest.run.events import Exited, Inbox, Output
from fedtest.scenario.load import loads
from fedtest.subnets import choose

if TYPE_CHECKING:
    from typing import Any

    from conftest import CommandLine, Outcome

    from fedtest.engine.base import Engine, RunTag

HOSTS = """
fedtest: 1
name: processes
deadline: 90s
networks: {lan: {}}
hosts: {a: {nics: {lan: eth0}}, b: {nics: {lan: ib0}}}
"""
SERVER = """
processes:
  init: {hosts: [a], run: "umask 077; echo 23456 > /tmp/port"}
  server:
    hosts: [a]
    service: true
    after: {process: init, state: succeeded}
    run:
      - python3
      - -uc
      - |
        import signal, socket, sys
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
        listening = socket.create_server(("", int(open("/tmp/port").read())))
        while True:
            listening.accept()[0].sendall(b"hello\\n")
"""
WORKS = f"""{HOSTS}{SERVER}
  client:
    hosts: [b]
    after: [{{host: a, port: 23456}}, {{process: init, state: exited}}]
    run: [python3, -c, "import socket; print(socket.create_connection(('a', 23456)).recv(9))"]
  watcher:
    hosts: [a, b]
    after: {{process: client, log: hello}}
    run: "true"
checks:
  - log: {{process: client, match: hello}}
  - exit: {{process: watcher}}
  - time: {{from: {{process: init, state: succeeded}}, to: {{process: client, state: exited}}, within: 60s}}
  - done: {{within: 80s}}
"""  # noqa: E501 - a check a line


def started(done: Outcome) -> dict[str, float | None]:
    """When each process first ran, by name."""
    found: dict[str, float | None] = {}
    process: dict[str, Any]
    for process in done.result["processes"]:
        found.setdefault(process["process"], process["started"])
    return found


def test_processes_start_in_order_and_a_service_is_asked_to_end(fedtest: CommandLine) -> None:
    done = fedtest("run", fedtest.scenario("processes", WORKS))
    assert done.code == 0, done.out + done.err
    assert [check for check in done.result["checks"] if not check["passed"]] == []
    at = started(done)
    assert at["init"] < at["server"] < at["client"] < at["watcher"]  # type: ignore[operator]
    statuses = {item["process"]: item["status"] for item in done.result["processes"]}
    assert statuses == {"init": 0, "server": 1, "client": 0, "watcher": 0}
    log = done.runs / "latest" / "logs" / "a.server.log"
    assert log.read_text() == "asked to end\n"
    assert done.result["saved"] == []


def test_a_service_that_ends_early_and_those_who_wait_in_vain_are_noticed(
    fedtest: CommandLine,
) -> None:
    """The port is taken, so the server ends; whoever waits for a line of it never starts."""
    text = f"""{HOSTS.replace("lan: eth0}", "lan: eth0}, ports_in_use: [23456]")}{SERVER}
  patient: {{hosts: [b], run: [python3, -c, "import time; time.sleep(600)"]}}
  client: {{hosts: [b], run: "true", after: {{process: server, log: ^ready}}}}
"""
    done = fedtest("run", fedtest.scenario("vain", text))
    assert done.code == 1, done.out + done.err
    assert done.result["seconds"] < 80
    (problem,) = done.result["problems"]
    assert problem["message"] == (
        "client on b: never started: it waited in vain until server prints '^ready'"
    )
    assert any("Address already in use" in line for line in problem["details"])
    found = {check["id"]: (check["passed"], check["found"]) for check in done.result["checks"]}
    assert found["exit-server"] == (False, "a: 1")
    assert found["exit-client"] == (False, "b: never started")
    # What the patient one did was saved before it was asked to end.
    saved = {item["what"]: item["files"] for item in done.result["saved"]}
    stacks = saved["what processes were doing when server on a had ended with 1"]
    assert stacks == ["hosts/b.failed.stacks.txt"]
    latest = done.runs / "latest"
    assert "time.sleep" in (latest / stacks[0]).read_text()
    assert "hosts/b.failed.stacks.txt" in done.out
    assert all((latest / name).is_file() for files in saved.values() for name in files)
    assert "==> client on b, never started <==" in (latest / "tails.txt").read_text()


def test_a_circle_is_an_error_of_the_scenario(fedtest: CommandLine) -> None:
    text = f"""{HOSTS}processes:
  one: {{hosts: [a], run: "true", after: {{process: two, state: exited}}}}
  two: {{hosts: [b], run: "true", after: {{host: a, port: 80}}}}
"""
    done = fedtest("run", fedtest.scenario("circle", text))
    assert done.code == 2
    assert "one starts only after two, two starts only after one" in done.err


def test_a_process_that_has_ended_can_be_started_again(engine: Engine, run: RunTag) -> None:
    text = f"""{HOSTS}processes: {{p: {{hosts: [a], run: "echo $$; exit 3"}}}}\n"""
    scenario = loads(text).scenario
    plan = make_plan(scenario, choose(scenario, run.id, ()))
    engine.realise(plan, run, engine.prepare(plan, run, print), print, 120)
    inbox = Inbox()
    key = ProcessKey("a", "p")
    seen: list[tuple[int, str, int]] = []
    for _ in range(2):
        pid = engine.start(run, plan.processes, inbox, 60)[key]
        said = b""
        while not isinstance(item := inbox.get(60), Exited):
            assert isinstance(item, Output)
            said += item.data
        seen.append((pid, said.decode().strip(), item.status))
    assert [status for _, _, status in seen] == [3, 3]
    assert [said for _, said, _ in seen] == [str(pid) for pid, _, _ in seen]
    assert seen[0][0] != seen[1][0]
