"""Many hosts at once: all results, or the first error with nothing still under way."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from fedtest.engine.parallel import Workers
from fedtest.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 4


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(COUNT)
    yield workers
    workers.close()


def test_results_come_by_item_in_the_order_of_the_items(workers: Workers) -> None:
    items = [3, 1, 2]
    assert list(workers.each(lambda item: item * 10, items, doing="x", deadline=10).items()) == [
        (3, 30),
        (1, 10),
        (2, 20),
    ]


def test_nothing_to_do_is_done(workers: Workers) -> None:
    assert workers.each(lambda item: item, [], doing="x", deadline=10) == {}


def test_items_are_worked_on_side_by_side(workers: Workers) -> None:
    together = threading.Barrier(COUNT)
    workers.each(lambda _: together.wait(10), range(COUNT), doing="x", deadline=20)


def test_the_first_error_is_raised_and_nothing_more_is_begun(workers: Workers) -> None:
    begun = []
    first = threading.Event()

    def work(item: int) -> None:
        begun.append(item)
        if item == 0:
            first.set()
            raise ValueError("no")
        first.wait(10)

    with pytest.raises(ValueError, match="no"):
        workers.each(work, range(100), doing="x", deadline=20)
    assert len(begun) < 100


def test_no_call_is_under_way_any_more_when_an_error_is_raised(workers: Workers) -> None:
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
        workers.each(work, ["slow", "bad"], doing="x", deadline=20)
    assert not under_way


def test_a_deadline_names_those_that_are_not_done(workers: Workers) -> None:
    go = threading.Event()
    release = threading.Timer(0.2, go.set)
    release.start()

    def work(item: str) -> None:
        if item != "fast":
            go.wait(10)

    with pytest.raises(DeadlineError) as caught:
        workers.each(work, ["fast", "b", "c"], doing="starting hosts", deadline=0.05)
    assert caught.value.message == "starting hosts: not done after 0.05 s: b, c"
    release.join()


def test_threads_are_few_and_used_again_and_closing_leaves_none() -> None:
    before = threading.active_count()
    workers = Workers(COUNT)
    for _ in range(10):
        workers.each(lambda item: item, range(20), doing="x", deadline=10)
    assert threading.active_count() <= before + COUNT
    workers.close()
    assert threading.active_count() == before
