"""Processes start when what they wait for has happened, and it is told when it cannot."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.base import ProcessKey
from fedtest.engine.fake import FakeEngine
from fedtest.run import supervise
from fedtest.run.clockwork import NEVER, Follower
from fedtest.run.events import Exited
from fedtest.run.result import Verdict
from fedtest.run.supervise import Supervisor
from runs import HOSTS, Awaited, Lab, until

if TYPE_CHECKING:
    from pathlib import Path

    from fedtest.run.checks.needs import Looks
    from fedtest.run.events import Item


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(supervise, "_GRACE", 0.3)
    return Lab(tmp_path)


def processes(*lines: str, checks: str = "", deadline: str = "200s") -> str:
    text = HOSTS.replace("deadline: 200s", f"deadline: {deadline}")
    return f"{text}processes:\n" + "".join(f"  {line}\n" for line in lines) + f"checks: [{checks}]"


def test_one_starts_when_another_has_printed_a_line(lab: Lab, tmp_path: Path) -> None:
    soon, over = tmp_path / "soon", tmp_path / "over"
    run = lab.run(
        processes(
            f'client: {{hosts: [b], run: "[ -e {soon} ] && touch {over}", '
            'after: {process: server, log: "^listening"}}',
            'server: {hosts: [a], run: "echo starting; sleep 0.1; '
            f'touch {soon}; echo listening; {until(over)}"}}',
        )
    )
    assert run.result.verdict is Verdict.PASSED
    assert run.order[:2] == ["server started", "client started"]
    (waiting,) = run.events("waiting")
    assert waiting["until"] == "server prints '^listening'"


def test_several_of_a_host_run_one_after_the_other_and_then_the_long_one(lab: Lab) -> None:
    run = lab.run(
        processes(
            'main: {hosts: [a], run: "sleep 0.1", after: {process: second, state: succeeded}}',
            'second: {hosts: [a], run: "true", after: [{process: first, state: exited}]}',
            'first: {hosts: [a], run: "exit 3"}',
            checks="exit: {process: first, code: 3}",
        )
    )
    assert run.result.verdict is Verdict.PASSED
    assert run.order == [
        "first started", "first exited", "second started", "second exited",
        "main started", "main exited",
    ]  # fmt: skip


def test_all_conditions_must_hold_and_on_every_host(lab: Lab) -> None:
    run = lab.run(
        processes(
            "last: {hosts: [a, b], run: 'true', after: "
            "[{process: peers, value: ready}, {host: a, state: started, process: peers}]}",
            'peers: {hosts: [a, b], run: "[ $WHO = a ] || sleep 0.4; '
            'echo \'fedtest-value {\\"name\\": \\"ready\\", \\"value\\": 1}\'",'
            ' env: {WHO: "${{ host.name }}"}}',
        )
    )
    assert run.result.verdict is Verdict.PASSED
    # Not before the slower of the two had reported.
    reports = [event["seq"] for event in run.events("value")]
    starts = [event["seq"] for event in run.events("started") if event["process"] == "last"]
    assert max(reports) < min(starts)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


LISTENS = (
    "import socket, time; time.sleep(0.3); "
    "s = socket.create_server(('127.0.0.1', {port})); s.accept()"
)


def test_a_host_is_ready_when_something_listens_on_its_port(lab: Lab) -> None:
    port = free_port()
    connects = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
    run = lab.run(
        processes(
            f'server: {{hosts: [a], run: [{sys.executable}, -c, "{LISTENS.format(port=port)}"]}}',
            f'client: {{hosts: [b], run: [{sys.executable}, -c, "{connects}"], '
            f"after: {{host: a, port: {port}}}}}",
        )
    )
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert run.order[:2] == ["server started", "client started"]


def test_one_that_ended_without_ever_listening_ends_the_waiting(lab: Lab) -> None:
    run = lab.run(
        processes(
            'server: {hosts: [a], run: "echo cannot bind"}',
            f'client: {{hosts: [b], run: "true", after: {{host: a, port: {free_port()}}}}}',
        )
    )
    assert run.result.verdict is Verdict.FAILED
    (message,) = run.messages
    assert message.startswith("client on b: never started: it waited in vain until something lis")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("process: server, log: listening", "server prints 'listening'"),
        ("process: server, value: port", "server reports port"),
        ("process: server, state: succeeded", "server ends with 0"),
        ("host: a, log: listening", "any process on a prints 'listening'"),
    ],
)
def test_what_cannot_happen_any_more_ends_the_run_and_says_whose_it_was(
    lab: Lab, condition: str, words: str
) -> None:
    run = lab.run(
        processes(
            'server: {hosts: [a], run: "echo no such device; exit 3"}',
            f'client: {{hosts: [b], run: "true", after: {{{condition}}}}}',
            'other: {hosts: [b], run: "sleep 600"}',
        )
    )
    assert run.result.verdict is Verdict.FAILED
    assert run.messages == [f"client on b: never started: it waited in vain until {words}"]
    assert run.result.problems[0].details == (
        "the end of the log of server on a, which ended with 3:", "no such device",
    )  # fmt: skip
    found = {check.id: check.found for check in run.result.checks}
    assert found["exit-client"] == "b: never started"
    client = next(item for item in run.result.processes if item.process == "client")
    assert (client.started, client.status) == (None, None)


def test_another_process_of_the_host_may_still_say_it(lab: Lab) -> None:
    run = lab.run(
        processes(
            'first: {hosts: [a], run: "true"}',
            'second: {hosts: [a], run: "sleep 0.4; echo listening"}',
            'client: {hosts: [b], run: "true", after: {host: a, log: listening}}',
        )
    )
    assert run.result.verdict is Verdict.PASSED


def test_a_deadline_of_its_own_counts_from_its_own_start(lab: Lab) -> None:
    run = lab.run(
        processes(
            'server: {hosts: [a], run: "sleep 0.8; echo listening"}',
            'client: {hosts: [b], run: "true", deadline: 700ms, '
            "after: {process: server, log: listening}}",
        ),
        Awaited({"client": None}),
    )
    assert run.result.verdict is Verdict.PASSED


def test_one_that_started_late_is_overdue_in_its_time(lab: Lab) -> None:
    run = lab.run(
        processes(
            'server: {hosts: [a], run: "echo listening"}',
            'client: {hosts: [b], run: "sleep 600", deadline: 300ms, '
            "after: {process: server, state: exited}}",
        )
    )
    assert run.messages == ["client on b: still running after its deadline of 0.3 s"]


def test_the_scenarios_deadline_is_over_for_those_that_wait_too(lab: Lab) -> None:
    run = lab.run(
        processes(
            'server: {hosts: [a], run: "echo binding; sleep 600"}',
            'client: {hosts: [b], run: "true", after: {process: server, log: listening}}',
            deadline="500ms",
        )
    )
    first, second = run.messages
    assert first == "server on a: still running after the scenario's deadline of 0.5 s"
    assert second == (
        "client on b: did not start within the scenario's deadline of 0.5 s: "
        "it waited until server prints 'listening'"
    )
    assert run.result.problems[1].details[-1] == "binding"


class Restarter(Follower):
    """Starts a process again when it has ended for the first time, a while later."""

    def __init__(self, supervisor: Supervisor, key: ProcessKey, pause: float) -> None:
        self.supervisor = supervisor
        self.key = key
        self.pause = pause
        self.ended = False
        self.due: float | None = None
        self.now = 0.0
        self.wakes = 0

    def taken(self, item: Item) -> None:
        if isinstance(item, Exited) and item.key == self.key and not self.ended:
            self.ended = True
            self.due = self.now + self.pause

    def wake(self, now: float) -> float:
        self.now = now
        self.wakes += 1
        if self.due is None:
            return NEVER
        if now >= self.due:
            self.due = None
            self.supervisor.starts.start_again(self.key)
            return NEVER
        return self.due

    def returns(self, key: ProcessKey) -> bool:
        return key == self.key and self.due is not None


@pytest.fixture
def restarting(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[Restarter]:
    """Every run has `server` on a started again a while after its first end."""
    made: list[Restarter] = []
    real = Supervisor.run

    def run(self: Supervisor, looks: Looks) -> None:
        made.append(Restarter(self, ProcessKey("a", "server"), request.param))
        self.follow(made[0])
        real(self, looks)

    monkeypatch.setattr(Supervisor, "run", run)
    return made


@pytest.mark.parametrize("restarting", [0.5], indirect=True)
def test_a_process_can_be_started_again_and_its_log_goes_on(
    lab: Lab, tmp_path: Path, restarting: list[Restarter]
) -> None:
    mark = tmp_path / "mark"
    run = lab.run(
        processes(
            f'server: {{hosts: [a], run: "if [ -e {mark} ]; then echo listening; else '
            f'touch {mark}; printf crashed; exit 3; fi"}}',
            'client: {hosts: [b], run: "true", after: {process: server, log: listening}}',
            checks="time: {from: {process: server, state: exited}, "
            "to: {process: server, log: listening}, within: 20s}",
        ),
        FakeEngine(),
    )
    assert run.result.verdict is Verdict.PASSED, run.messages
    assert run.text("logs/a.server.log") == "crashed\n[fedtest: started again]\nlistening\n"
    assert run.order[:3] == ["server started", "server exited", "server started"]
    assert run.result.checks[0].found >= "0.5"
    # It slept until it was due, but for what came meanwhile.
    assert restarting[0].wakes < 60


@pytest.mark.usefixtures("restarting")
@pytest.mark.parametrize("restarting", [60.0], indirect=True)
def test_one_that_is_to_be_started_again_is_waited_for_until_the_deadline(lab: Lab) -> None:
    run = lab.run(processes('server: {hosts: [a], run: "true"}', deadline="500ms"))
    assert run.messages == [
        "server on a: ended, and was not started again within the scenario's deadline of 0.5 s"
    ]
