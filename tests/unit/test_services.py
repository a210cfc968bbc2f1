"""Services run until everything else has ended, and are asked to end then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fedtest.engine.fake import FakeEngine
from fedtest.run import supervise
from fedtest.run.result import Verdict
from runs import HOSTS, Awaited, Lab

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedtest.engine.base import RunTag
    from fedtest.engine.examine import Examination, Examined

SERVES = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(supervise, "_GRACE", 0.5)
    return Lab(tmp_path)


def service(script: str, checks: str = "", *, client: str = "sleep 0.2", extra: str = "") -> str:
    """`server` on a, and `client` on b, that starts when it is ready."""
    return (
        f"{HOSTS}processes:\n"
        f'  server: {{hosts: [a], run: "{script}", service: true{extra}}}\n'
        f'  client: {{hosts: [b], run: "{client}", after: {{process: server, state: started}}}}\n'
        f"checks: [{checks}]\n"
    )


def test_one_runs_until_the_others_have_ended_and_that_is_no_failure(lab: Lab) -> None:
    run = lab.run(service(SERVES), Awaited({"server": "ready"}))
    assert run.result.verdict is Verdict.PASSED
    assert run.order == ["server started", "client started", "client exited", "server exited"]
    assert "bye\n" in run.text("logs/a.server.log")
    check = next(check for check in run.result.checks if check.id == "exit-server")
    assert check.expected == "server runs until it is asked to end"
    assert check.found.startswith("a: asked to end after ")
    assert "tails.txt" not in run.names


def test_one_that_ended_before_has_failed(lab: Lab) -> None:
    run = lab.run(service("echo out of memory"), Awaited({"server": None}))
    assert run.result.verdict is Verdict.FAILED
    check = next(check for check in run.result.checks if not check.passed)
    assert (check.id, check.found) == ("exit-server", "a: 0")
    assert check.details[-1].strip() == "out of memory"


@pytest.mark.parametrize(
    ("script", "check"),
    [
        ("echo ready; sleep 600", "code: 143"),
        ("echo ready; sleep 600", "signal: TERM"),
        ("trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done", "code: 5"),
        ("trap '' TERM; echo ready; while :; do sleep 0.02; done", "signal: KILL"),
    ],
)
def test_an_exit_check_sees_what_comes_of_being_asked(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, script: str, check: str
) -> None:
    if "KILL" not in check:
        monkeypatch.setattr(supervise, "_GRACE", 30.0)
    run = lab.run(
        service(script, f"exit: {{process: server, {check}}}"), Awaited({"server": "ready"})
    )
    assert [item.passed for item in run.result.checks] == [True, True]
    assert "exit-server" not in {item.id for item in run.result.checks}


def test_everything_is_done_when_those_are_that_end_by_themselves(lab: Lab) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.02; done"
    run = lab.run(service(script, "done: {within: 20s}"), Awaited({"server": "ready"}))
    check = run.result.checks[0]
    assert check.passed
    server, client = run.result.processes
    assert server.ended is not None
    assert client.ended is not None
    assert float(check.found.split()[0]) < server.ended - (server.started or 0.0)


def test_one_may_have_a_deadline_all_the_same(lab: Lab) -> None:
    run = lab.run(service("sleep 600", client="sleep 600", extra=", deadline: 300ms"))
    assert run.messages == ["server on a: still running after its deadline of 0.3 s"]


def test_when_another_is_overdue_a_service_is_not_to_blame(lab: Lab) -> None:
    text = service("sleep 600", client="sleep 600").replace("deadline: 200s", "deadline: 500ms")
    run = lab.run(text)
    assert run.messages[-1] == "client on b: still running after the scenario's deadline of 0.5 s"
    assert {check.id: check.passed for check in run.result.checks}["exit-server"]


class Counts(FakeEngine):
    """Writes a line into a file at each look from beside hosts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        found = super().examine(run, hosts, deadline)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("looked\n")
        return found


def test_what_is_seen_while_one_is_asked_to_end_does_not_count_for_always(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is asked, it does what it must not, and waits until that has been seen."""
    monkeypatch.setattr(supervise, "_GRACE", 30.0)
    looks, wrong = tmp_path / "looks", tmp_path / "wrong"
    until = f"until [ $(cat {looks} | wc -l) -ge {{}} ]; do sleep 0.02; done"
    more = f"touch {wrong}; n=$(cat {looks} | wc -l); {until.format('$((n + 3))')}; exit 0"
    run = lab.run(
        service(
            f"trap '{more}' TERM; while :; do sleep 0.02; done",
            f"{{files: {{host: a, path: {wrong}, exists: false}}, always: true}}",
            client=until.format(5),
        ),
        Counts(looks),
    )
    assert wrong.exists()
    assert run.result.verdict is Verdict.PASSED, run.result.checks
