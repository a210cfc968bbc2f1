"""`eventually` and `always`: what was at some moment, and what was at every one."""

from __future__ import annotations

import sys
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from checking import SCENARIO, Case
from fedtest.engine.fake import Defects, FakeEngine
from fedtest.engine.snapshot import TcpSocket
from fedtest.run.checks import evaluate
from fedtest.run.checks.needs import examinations, looks
from fedtest.run.checks.repeated import Repeated
from fedtest.scenario.load import loads
from runs import Lab, scenario

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fedtest.engine.base import RunTag
    from fedtest.engine.examine import Examination, Examined
    from fedtest.run.result import CheckResult

REACH = "reach: {from: a, to: b, port: 80}"
OPEN = Defects(reach={("a", "10.1.0.3", 80): "connected"})
SHUT = Defects()
SPEAKS = TcpSocket(
    ip_address("192.168.0.10"), 40000, ip_address("192.168.0.1"), 5, "established", 7
)


class Watched:
    """A check that is judged at moments that a test chooses."""

    def __init__(self, case: Case, check: str) -> None:
        self.case = case
        self.scenario = loads(f"{SCENARIO}checks: [{{{check}}}]\n").scenario
        self.now = 10.0
        self.repeated = Repeated(self.scenario, case.evidence, lambda: self.now)
        self.repeated.start()

    def look(self, at: float, defects: Defects) -> None:
        self.now = 10.0 + at
        self.case.engine.defects = defects
        wanted = examinations(self.scenario.checks, self.case.evidence)
        self.case.evidence.examined = dict(self.case.engine.examine(self.case.run, wanted, 30))
        self.repeated.looked()

    def report(self, at: float, host: str, value: object) -> None:
        self.now = 10.0 + at
        self.case.state(host).report("loss", value, self.now)
        self.repeated.reported("loss")

    def end(self, at: float = 60.0) -> CheckResult:
        self.now = 10.0 + at
        result, *_ = evaluate(self.scenario, self.case.evidence, self.repeated)
        return result


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


class TestEventually:
    def test_holds_when_it_once_held_in_time(self, case: Case) -> None:
        watched = Watched(case, f"{REACH}, eventually: 5s")
        watched.look(1, SHUT)
        watched.look(5, OPEN)
        watched.look(6, SHUT)
        result = watched.end()
        assert result.passed
        assert result.expected == "within 5 s, a reaches b at 10.1.0.3, port 80"
        assert result.found == "after 5.0 s: connected"

    def test_fails_when_it_held_later(self, case: Case) -> None:
        watched = Watched(case, f"{REACH}, eventually: 5s")
        watched.look(4, SHUT)
        watched.look(6, OPEN)
        result = watched.end()
        assert not result.passed
        assert result.found == "after 6.0 s: connected"

    def test_fails_when_it_never_held_and_says_what_was_last(self, case: Case) -> None:
        watched = Watched(case, f"{REACH}, eventually: 5s")
        watched.look(1, SHUT)
        result = watched.end()
        assert not result.passed
        assert result.found == "Connection refused"

    def test_values_are_judged_at_each_report(self, case: Case) -> None:
        check = "value: {process: trainer, name: loss, each: '< 1'}, eventually: 5s"
        watched = Watched(case, check)
        for at, host, value in ((1, "a", 0.5), (2, "b", 0.5), (3, "a", 2)):
            watched.report(at, host, value)
        result = watched.end()
        assert result.passed
        assert result.found == "after 2.0 s: 0.5 on all 2 hosts"

    def test_what_nobody_reported_did_not_hold(self, case: Case) -> None:
        check = "value: {process: trainer, name: loss, each: '< 1'}, eventually: 5s"
        result = Watched(case, check).end()
        assert not result.passed
        assert result.found == "nothing"


class TestAlways:
    CHECK = f"{REACH}, always: true"

    def test_holds_when_it_held_at_every_look(self, case: Case) -> None:
        watched = Watched(case, self.CHECK)
        for at in (1, 2, 3):
            watched.look(at, OPEN)
        result = watched.end()
        assert result.passed
        assert result.expected == "always, a reaches b at 10.1.0.3, port 80"
        assert result.found == "3 times: connected"

    def test_fails_when_it_once_did_not_and_says_when(self, case: Case) -> None:
        watched = Watched(case, self.CHECK)
        for at, defects in ((1, OPEN), (2, SHUT), (3, OPEN)):
            watched.look(at, defects)
        result = watched.end()
        assert not result.passed
        assert result.found == "not after 2.0 s: Connection refused"

    def test_a_look_that_a_process_ended_after_does_not_count(self, case: Case) -> None:
        watched = Watched(case, self.CHECK)
        watched.look(1, OPEN)
        watched.look(2, SHUT)  # It had just ended, but that was not known yet.
        watched.repeated.exited()
        watched.look(3, OPEN)
        watched.look(4, OPEN)
        watched.repeated.exited()
        result = watched.end()
        assert result.passed
        assert result.found == "2 times: connected"

    def test_what_goes_on_while_others_run_counts(self, case: Case) -> None:
        watched = Watched(case, self.CHECK)
        watched.look(1, OPEN)
        watched.repeated.exited()
        watched.look(2, SHUT)
        watched.look(3, SHUT)
        result = watched.end()
        assert not result.passed
        assert result.found == "not after 2.0 s: Connection refused"

    def test_what_was_never_judged_did_not_always_hold(self, case: Case) -> None:
        watched = Watched(case, self.CHECK)
        watched.look(1, OPEN)
        watched.repeated.exited()
        result = watched.end()
        assert not result.passed
        assert result.found == "it was never judged while processes ran"

    def test_values_are_judged_at_each_report_once_all_have_reported(self, case: Case) -> None:
        check = "value: {process: trainer, name: loss, each: '< 1'}, always: true"
        watched = Watched(case, check)
        watched.report(1, "a", 0.5)
        watched.report(2, "b", 0.5)
        watched.repeated.exited()
        watched.report(3, "b", 0.6)
        assert watched.end().found == "2 times: 0.5 on all 2 hosts"
        watched.report(4, "a", 1.5)
        watched.report(5, "a", 0.5)
        result = watched.end()
        assert not result.passed
        assert result.found == "not after 4.0 s: a: 1.5, b: 0.6"


class TestSockets:
    """Who has no socket yet has none that is wrong: it is judged once each one has some."""

    CHECK = "sockets: {process: trainer, remote: data}"

    def test_it_is_judged_from_when_each_has_some(self, case: Case) -> None:
        watched = Watched(case, f"{self.CHECK}, always: true")
        watched.look(1, SHUT)
        case.sockets("a", ("192.168.0.10", 5))
        watched.look(2, SHUT)  # The other one has none.
        case.sockets("b", ("192.168.0.11", 5))
        watched.look(3, SHUT)
        watched.look(4, SHUT)
        result = watched.end()
        assert result.passed
        assert result.found.startswith("2 times: ")

    def test_one_that_goes_astray_later_is_noticed(self, case: Case) -> None:
        watched = Watched(case, "sockets: {process: other, local: 192.168.0.10}, always: true")
        watched.look(1, SHUT)
        case.state("a", "other").sockets.add(SPEAKS)
        watched.look(2, SHUT)
        case.state("a", "other").sockets.add(replace(SPEAKS, local=ip_address("10.1.0.2")))
        watched.look(3, SHUT)
        result = watched.end()
        assert not result.passed
        assert result.found == "not after 3.0 s: a: 10.1.0.2 and 192.168.0.10"

    def test_who_never_had_any_was_never_judged(self, case: Case) -> None:
        watched = Watched(case, f"{self.CHECK}, always: true")
        watched.look(1, SHUT)
        case.sockets("a", ("192.168.0.10", 5))
        watched.look(2, SHUT)
        result = watched.end()
        assert not result.passed
        assert result.found == "it was never judged while processes ran"

    def test_it_did_not_hold_at_some_moment_either(self, case: Case) -> None:
        watched = Watched(case, f"{self.CHECK}, eventually: 5s")
        watched.look(1, SHUT)
        case.sockets("a", ("192.168.0.10", 5))
        watched.look(2, SHUT)
        assert not watched.end().passed
        case.sockets("b", ("192.168.0.11", 5))
        watched.look(4, SHUT)
        result = watched.end()
        assert result.passed
        assert result.found.startswith("after 4.0 s: ")


class TestLooks:
    def test_hosts_and_what_is_beside_them_are_looked_at_for_repeated_checks(
        self, case: Case
    ) -> None:
        text = (
            f"checks: [{{{REACH}, always: true}}, "
            "{bytes: {host: b, network: data, direction: tx, min: 1B}, eventually: 1s}]"
        )
        found = looks(loads(f"{SCENARIO}{text}\n").scenario, case.evidence)
        assert found.hosts == ("b",)
        assert list(found.beside) == ["a"]
        assert found.closely

    def test_without_them_nothing_is_looked_at(self, case: Case) -> None:
        text = f"checks: [{{{REACH}}}]"
        assert not looks(loads(f"{SCENARIO}{text}\n").scenario, case.evidence).beside


class Telling(FakeEngine):
    """Leaves a mark when it has looked at a file that is there."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def examine(
        self, run: RunTag, hosts: Mapping[str, Examination], deadline: float
    ) -> Mapping[str, Examined]:
        found = super().examine(run, hosts, deadline)
        if any(facts.kind for item in found.values() for facts in item.files.values()):
            self.path.with_name("file.seen").touch()
        return found


class TestRuns:
    def test_a_file_that_was_there_for_a_while(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        script = f"touch {path}; while [ ! -e {path}.seen ]; do sleep 0.05; done; rm {path}"
        check = f"files: {{host: a, path: {path}}}"
        checks = f"{{{check}, eventually: 20s}}, {check}"
        run = Lab(tmp_path / "runs").run(scenario(script, checks), Telling(path))
        assert [item.passed for item in run.result.checks][:2] == [True, False]

    def test_a_value_that_was_once_too_high(self, tmp_path: Path) -> None:
        program = "from fedtest.values import report; [report('n', n) for n in (1, 5, 2)]"
        value = "value: {process: work, name: n, each: '< 4'}"
        run = Lab(tmp_path).run(
            scenario(f'{sys.executable} -c "{program}"', f"{value}, {{{value}, always: true}}"),
            FakeEngine(),
        )
        assert [item.passed for item in run.result.checks][:2] == [True, False]
        assert run.result.checks[1].found.endswith("a: 5")
