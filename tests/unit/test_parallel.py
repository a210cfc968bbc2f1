"""Many hosts at once: all results, or the first error with nothing still under way."""

from __future__ import annotations

import threading

import pytest

from fedtest.engine.parallel import WORKERS, each
from fedtest.errors import DeadlineError


def test_results_come_by_item_in_the_order_of_the_items() -> None:
    items = [3, 1, 2]
    assert list(each(lambda item: item * 10, items, doing="x", deadline=10).items()) == [
        (3, 30),
        (1, 10),
        (2, 20),
    ]


def test_nothing_to_do_is_done() -> None:
    assert each(lambda item: item, [], doing="x", deadline=10) == {}


def test_items_are_worked_on_side_by_side() -> None:
    together = threading.Barrier(WORKERS)
    each(lambda _: together.wait(10), range(WORKERS), doing="x", deadline=20)


def test_the_first_error_is_raised_and_nothing_more_is_begun() -> None:
    begun = []
    first = threading.Event()

    def work(item: int) -> None:
        begun.append(item)
        if item == 0:
            first.set()
            raise ValueError("no")
        first.wait(10)

    with pytest.raises(ValueError, match="no"):
        each(work, range(100), doing="x", deadline=20)
    assert len(begun) < 100


def test_no_call_is_under_way_any_more_when_an_error_is_raised() -> None:
    failed = threading.Event()
    under_way = []

    def work(item: str) -> None:
        if item == "bad":
            failed.set()
            raise ValueError("no")
        under_way.append(item)
        failed.wait(10)
        under_way.remove(item)

    with pytest.raises(ValueError, match="no"):
        each(work, ["slow", "bad"], doing="x", deadline=20)
    assert not under_way


def test_a_deadline_names_those_that_are_not_done() -> None:
    go = threading.Event()
    release = threading.Timer(0.2, go.set)
    release.start()

    def work(item: str) -> None:
        if item != "fast":
            go.wait(10)

    with pytest.raises(DeadlineError) as caught:
        each(work, ["fast", "b", "c"], doing="starting hosts", deadline=0.05)
    assert caught.value.message == "starting hosts: not done after 0.05 s: b, c"
    release.join()


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    each(lambda item: item, range(20), doing="x", deadline=10)
    assert threading.active_count() == before
