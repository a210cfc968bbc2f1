"""`log`: lines that must be printed, must not be, in which order and how soon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from checking import Case

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


class TestMatch:
    CHECK = "log: {process: trainer, match: 'step=[0-9]+'}"

    def test_holds_when_each_instance_printed_such_a_line(self, case: Case) -> None:
        case.prints("a", "epoch=1 step=5", "step=6")
        case.prints("b", "noise", "step=1")
        result = case.check(self.CHECK)
        assert result.passed
        assert result.expected == "trainer prints 'step=[0-9]+'"
        assert result.found == "a: 2 lines, b: 1 line"

    def test_fails_when_one_did_not_and_shows_the_end_of_its_log(self, case: Case) -> None:
        case.prints("a", "step=5")
        case.prints("b", "step=x")
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.found == "a: 1 line, b: no line"
        assert result.details == ("b: the end of its log:", "    its last words")

    def test_may_be_of_one_host_and_one_stream(self, case: Case) -> None:
        case.prints("a", "step=5", stream="stderr")
        check = "log: {{process: trainer, host: a, match: 'step', stream: {}}}"
        assert case.check(check.format("stderr")).passed
        assert not case.check(check.format("stdout")).passed

    @pytest.mark.parametrize(
        ("count", "passed"), [("2", True), ("1", False), ('">= 2"', True), ('"< 2"', False)]
    )
    def test_how_many_there_are(self, case: Case, count: str, *, passed: bool) -> None:
        case.prints("a", "x", "no", "x")
        check = f"log: {{process: trainer, host: a, match: x, count: {count}}}"
        assert case.check(check).passed is passed

    def test_too_many_shows_the_first_and_the_lines_around_it(self, case: Case) -> None:
        case.prints("a", "one", "two", "ERROR", "three", "four", "five", "six")
        result = case.check("log: {process: trainer, host: a, match: '(?i)error', count: 0}")
        assert not result.passed
        assert result.details == (
            "a: the first of 1:", "    one", "    two", "  > ERROR",
            "    three", "    four", "    five",
        )  # fmt: skip


class TestWhere:
    CHECK = (
        "log: {process: trainer, host: a, match: 'acc=(?P<acc>\\S+) on (?P<set>\\w+)',"
        ' where: {acc: ">= 0.9", set: "== test"}}'
    )

    def test_a_line_counts_when_all_comparisons_hold(self, case: Case) -> None:
        case.prints("a", "acc=0.5 on test", "acc=0.95 on train", "acc=0.91 on test")
        result = case.check(self.CHECK)
        assert result.passed
        assert result.found == "a: 1 line"
        assert result.expected.endswith("with acc >= 0.9 and set == test")

    def test_says_what_the_lines_had_that_match_but_do_not_count(self, case: Case) -> None:
        case.prints("a", "acc=0.5 on test", "acc=0.95 on train")
        result = case.check(self.CHECK)
        assert not result.passed
        assert "a: a line matches, but has acc = 0.5, set = test" in result.details
        assert "a: a line matches, but has acc = 0.95, set = train" in result.details

    def test_says_when_nothing_matched_at_all(self, case: Case) -> None:
        assert case.check(self.CHECK).found == "a: no line, and none that matches"

    @pytest.mark.parametrize("text", ["nan", "best", ""])
    def test_what_is_no_number_is_in_no_order(self, case: Case, text: str) -> None:
        case.prints("a", f"acc={text};")
        check = (
            "log: {{process: trainer, host: a, match: 'acc=(?P<acc>.*);', where: {{acc: '{} 1'}}}}"
        )
        assert not case.check(check.format(">")).passed
        assert not case.check(check.format("<")).passed

    def test_a_group_that_took_no_part_is_nothing(self, case: Case) -> None:
        case.prints("a", "done")
        check = "log: {process: trainer, host: a, match: 'done(=(?P<n>.))?', where: {n: '!= 1'}}"
        result = case.check(check)
        assert not result.passed
        assert "a: a line matches, but has n = nothing" in result.details


class TestAbsent:
    CHECK = 'log: {process: trainer, absent: "closed (by peer)"}'

    def test_holds_when_no_line_has_the_text_as_it_is(self, case: Case) -> None:
        case.prints("a", "closed by peer")
        result = case.check(self.CHECK)
        assert result.passed
        assert result.found == "no line on all 2 hosts"

    def test_fails_when_one_has_it_and_shows_where(self, case: Case) -> None:
        case.prints("b", "before", "Connection closed (by peer).", stream="stderr")
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.found == "a: no line, b: 1 line"
        assert result.details[1:] == ("    before", "  > Connection closed (by peer).")

    def test_of_a_process_that_ran_nowhere_nothing_can_be_said(self, case: Case) -> None:
        case.evidence.processes.clear()
        assert not case.check(self.CHECK).passed


class TestOrder:
    CHECK = "log: {process: trainer, host: a, order: [one, two, three]}"

    def test_holds_when_lines_come_in_it_whatever_is_between(self, case: Case) -> None:
        case.prints("a", "two", "one", "x", "one", "two", "two", "three")
        result = case.check(self.CHECK)
        assert result.passed
        assert result.found == "a: all 3"

    def test_fails_when_one_is_missing_after_the_one_before(self, case: Case) -> None:
        case.prints("a", "three", "one", "two")
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.found == "a: 2 of 3"
        assert result.details[0] == "a: no line matches 'three' after 'two', though 1 elsewhere"

    def test_one_line_is_not_two(self, case: Case) -> None:
        case.prints("a", "one two three")
        assert case.check(self.CHECK).found == "a: 1 of 3"

    def test_nothing_printed_is_no_order(self, case: Case) -> None:
        assert case.check(self.CHECK).found == "a: 0 of 3"


class TestWithin:
    CHECK = "log: {process: trainer, host: a, match: ready, within: 2s}"

    def test_holds_when_the_line_comes_so_soon_after_the_start(self, case: Case) -> None:
        case.state("a").started = 10.0
        case.prints("a", "ready", at=12.0)
        result = case.check(self.CHECK)
        assert result.passed
        assert result.expected == "trainer prints 'ready' within 2 s"

    def test_fails_when_it_comes_later_and_says_when(self, case: Case) -> None:
        case.state("a").started = 10.0
        case.prints("a", "ready", at=12.5)
        result = case.check(self.CHECK)
        assert not result.passed
        assert result.details == ("a: 2.5 s after: ready",)

    def test_may_be_since_something_that_happened_elsewhere(self, case: Case) -> None:
        check = (
            "log: {process: trainer, host: a, match: lost, within: 2s,"
            " since: {process: trainer, host: b, state: exited}}"
        )
        case.state("b").ended = 5.0
        case.prints("a", "lost", at=4.0)
        result = case.check(check)
        assert not result.passed
        assert result.details == ("a: 1.0 s too early: lost",)
        case.prints("a", "lost", at=6.0)
        assert case.check(check).passed

    def test_without_that_there_is_nothing_to_count_from(self, case: Case) -> None:
        result = case.check(
            "log: {process: trainer, match: x, since: {process: other, log: 'go!'}}"
        )
        assert not result.passed
        assert result.found == "nothing to count from"
        assert result.details == ("it did not happen that other prints 'go!'",)

    def test_absence_may_be_for_a_while(self, case: Case) -> None:
        case.prints("a", "bad", at=9.0)
        check = "log: {{process: trainer, host: a, absent: bad, within: {}}}"
        assert case.check(check.format("5s")).passed
        assert not case.check(check.format("10s")).passed

    def test_an_order_must_be_kept_in_time(self, case: Case) -> None:
        case.prints("a", "one", at=1.0)
        case.prints("a", "two", at=5.0)
        check = "log: {{process: trainer, host: a, order: [one, two], within: {}}}"
        assert case.check(check.format("5s")).passed
        assert case.check(check.format("4s")).found == "a: 1 of 2"


def test_a_million_lines_are_counted_and_few_remembered(case: Case) -> None:
    case.prints("a", *(f"line {number}" for number in range(150_000)))
    result = case.check("log: {process: trainer, host: a, match: line, count: 150000}")
    assert result.passed
    timed = case.check("log: {process: trainer, host: a, absent: line, within: 1s}")
    assert "more such lines than fedtest remembers" in timed.details[0]
