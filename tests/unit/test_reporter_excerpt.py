"""Of a process that prints much: which lines are shown, and when."""

from __future__ import annotations

from fedtest.reporters.excerpt import EVERY, FIRST, LAST, LAST_OF_A_FAILURE, Excerpt, Line
from fedtest.reporters.progress import Progress


class Clock:
    """Seconds, as a test sets them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shown_of(excerpt: Excerpt, numbers: range) -> list[int]:
    return [n for n in numbers if excerpt.is_due(Line("stdout", str(n)))]


def end_of(excerpt: Excerpt, status: int) -> tuple[int, list[int]]:
    hidden, last = excerpt.end(status)
    return hidden, [int(line.text) for line in last]


def test_the_first_lines_come_at_once_and_the_last_at_the_end() -> None:
    excerpt = Excerpt(Clock())
    assert shown_of(excerpt, range(100)) == list(range(FIRST))
    assert end_of(excerpt, 0) == (100 - FIRST - LAST, list(range(100 - LAST, 100)))


def test_of_a_failure_there_are_more_last_lines() -> None:
    excerpt = Excerpt(Clock())
    shown_of(excerpt, range(100))
    hidden, last = end_of(excerpt, 1)
    assert last == list(range(100 - LAST_OF_A_FAILURE, 100))
    assert hidden == 100 - FIRST - LAST_OF_A_FAILURE


def test_no_line_is_shown_twice_and_of_few_lines_none_is_left_out() -> None:
    for count in range(FIRST + LAST + 1):
        excerpt = Excerpt(Clock())
        first = shown_of(excerpt, range(count))
        hidden, last = end_of(excerpt, 0)
        assert (hidden, first + last) == (0, list(range(count)))


def test_now_and_then_a_line_shows_that_it_lives() -> None:
    clock = Clock()
    excerpt = Excerpt(clock)
    shown_of(excerpt, range(20))
    clock.now = EVERY
    assert shown_of(excerpt, range(20, 30)) == [20]
    assert end_of(excerpt, 0) == (30 - FIRST - 1 - LAST, [27, 28, 29])


def test_what_is_left_follows_from_the_pace_since_the_first_report() -> None:
    clock = Clock()
    progress = Progress(clock)
    assert progress.bar(0) == ""
    progress.reached(0.5)  # it goes on from a checkpoint
    assert progress.bar(0).endswith(" 50%")
    clock.now = 10.0
    progress.reached(0.6)
    assert progress.bar(10).endswith(" 60%, 40 s left")
    assert progress.bar(15).endswith(" 60%, 35 s left")
    clock.now = 100.0
    progress.reached(0.61)
    assert progress.bar(100).endswith(" 61%, 5 min 55 s left")


def test_who_is_started_again_has_a_bar_from_its_beginning() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.reached(0.9)
    clock.now = 5.0
    progress.reached(0.1)
    clock.now = 6.0
    progress.reached(0.2)
    assert progress.bar(6).endswith(" 20%, 8 s left")
