"""`time` and `done`: from one moment to another, by when the runner learned of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from checking import Case
from fedtest.run.checks.log import check_log
from fedtest.run.checks.time import check_time
from fedtest.run.fault_state import FaultState
from fedtest.scenario.checks import LogCheck, TimeCheck

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


class TestTime:
    CHECK = (
        "time: {from: {process: other, host: a, log: fault},"
        " to: {host: b, log: 'step=110 '}, within: 20s}"
    )

    def test_holds_when_it_took_no_longer(self, case: Case) -> None:
        case.prints("a", "fault", at=10.0, by="other")
        case.prints("b", "step=110 ", at=30.0)
        result = case.check(self.CHECK)
        assert result.passed
        assert result.found == "20.00 s"
        assert result.expected == (
            "at most 20 s from when other on a prints 'fault' "
            "to when any process on b prints 'step=110 '"
        )

    def test_fails_when_it_took_longer(self, case: Case) -> None:
        case.prints("a", "fault", at=10.0, by="other")
        case.prints("b", "step=110 ", at=30.5)
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.details == ("b: 20.50 s",)

    def test_fails_when_it_never_began(self, case: Case) -> None:
        case.prints("b", "step=110 ", at=30.5)
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.found == "it never began"

    def test_what_was_before_does_not_end_it(self, case: Case) -> None:
        case.prints("b", "step=110 ", at=9.0)
        case.prints("a", "fault", at=10.0, by="other")
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.found == "it never ended, from 10.0 s on"
        assert result.details[-1] == "b: it did 1.0 s before"

    def test_of_several_hosts_the_longest_time_counts(self, case: Case) -> None:
        check = (
            "time: {{from: {{process: trainer, value: epoch}},"
            " to: {{process: trainer, state: exited}}, within: {}}}"
        )
        case.reports("a", "epoch", 1, at=2.0)
        case.reports("b", "epoch", 1, at=4.0)
        case.state("a").ended, case.state("b").ended = 5.0, 9.0
        assert case.check(check.format("7s")).passed
        result = case.check(check.format("6s"))
        assert not result.passed
        assert result.found == "7.00 s"

    def test_all_of_several_hosts_must_come_to_it(self, case: Case) -> None:
        case.prints("a", "saved", at=2.0)
        check = (
            "time: {from: {process: trainer, state: started},"
            " to: {process: trainer, log: saved}, within: 5s}"
        )
        result = case.check(check)
        assert not result.passed
        assert result.details == ("it did not happen that trainer prints 'saved': b",)

    def test_every_process_of_a_host_may_be_meant(self, case: Case) -> None:
        check = (
            "time: {{from: {{host: a, state: started}}, to: {{host: a, state: exited}},"
            " within: {}}}"
        )
        case.state("a").ended, case.state("a", "other").ended = 1.0, 3.0
        assert case.check(check.format("3s")).passed
        assert not case.check(check.format("2s")).passed


class TestFromAFault:
    """A fault's moments, in evidence as whoever makes the faults leaves it."""

    TIME = TimeCheck.model_validate(
        {"from": "cut.applied", "to": "cut.healed", "within": "5s"},
    )

    def test_the_first_healing_that_follows_counts(self, case: Case) -> None:
        case.evidence.faults["cut"] = FaultState([9.0], [10.0, 20.0], [1.0, 14.0, 28.0])
        finding = check_time(self.TIME, case.evidence)
        assert finding.passed
        assert finding.found == "4.00 s"
        assert finding.expected == (
            "at most 5 s from when fault cut is applied to when fault cut is healed"
        )

    def test_one_that_was_never_asked_for_never_began_anything(self, case: Case) -> None:
        finding = check_time(self.TIME, case.evidence)
        assert not finding.passed
        assert finding.details == ["it did not happen that fault cut is applied"]

    def test_one_that_was_not_healed_never_ended(self, case: Case) -> None:
        case.evidence.faults["cut"] = FaultState([9.0], [10.0], [])
        finding = check_time(self.TIME, case.evidence)
        assert not finding.passed
        assert finding.details == ["it did not happen that fault cut is healed: cut"]

    def test_lines_count_from_it_on(self, case: Case) -> None:
        check = LogCheck.model_validate({
            "process": "trainer", "host": "a", "match": "lost", "within": "2s",
            "since": "cut.applied",
        })  # fmt: skip
        text = "log: {process: trainer, host: a, match: lost}"
        case.prints("a", "lost", at=11.5)
        case.check(text)
        case.evidence.faults["cut"] = FaultState([9.0], [10.0], [])
        assert check_log(check, case.evidence).passed
        case.evidence.faults["cut"] = FaultState([9.0], [9.4], [])
        assert not check_log(check, case.evidence).passed


class TestDone:
    def test_holds_when_everything_ended_in_time(self, case: Case) -> None:
        case.state("b").ended = 60.0
        result = case.check("done: {within: 60s}")
        assert result.passed
        assert result.expected == "everything is done in 60 s"
        assert result.found == "60.00 s"

    def test_fails_when_the_last_ended_later_and_names_it(self, case: Case) -> None:
        case.state("b").ended = 61.0
        result = case.check("done: {within: 1m}")
        assert not result.passed
        assert result.details == ("trainer on b: 61.00 s",)

    def test_fails_when_something_did_not_end(self, case: Case) -> None:
        case.state("b").ended = None
        result = case.check("done: {within: 60s}")
        assert not result.passed
        assert result.details == ("trainer on b did not end",)

    def test_nothing_that_ran_is_not_done(self, case: Case) -> None:
        case.evidence.processes.clear()
        assert not case.check("done: {within: 60s}").passed
