"""Signs of life of a middle server's sides: who looks for them, and who does not see them."""

import math
import queue
import time
from collections.abc import Callable
from typing import Any

import pytest

from fedtest.comm import ArgumentError, DistNetwork, MessageCode
from fedtest.comm.hierarchical import MessageQueue, Scheduler
from fedtest.comm.hierarchical.heard import ALIVE, Heard
from fedtest.comm.hierarchical.signs import Sign


def test_what_was_not_said_is_counted_from_the_first_sign() -> None:
    sign = Sign()
    assert [sign.missed() for _ in range(3)] == [0, 0, 0]  # a start may take long
    for _ in range(3):
        sign.say()
    assert [sign.missed() for _ in range(3)] == [0, 1, 2]
    sign.say()
    assert sign.missed() == 0


def test_who_says_that_it_is_there_never_waits() -> None:
    sign = Sign()
    for _ in range(100_000):  # more than a pipe holds
        sign.say()
    assert [sign.missed() for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("kind", [MessageQueue, queue.Queue])
def test_signs_of_life_between_messages_are_read_by_nobody(kind: Callable[[], Any]) -> None:
    between = kind()
    heard = Heard(between)
    between.put(ALIVE)
    began = time.monotonic()
    with pytest.raises(queue.Empty):
        heard.get(timeout=0.2)
    assert time.monotonic() - began >= 0.2
    assert began <= heard.at < math.inf
    between.put(ALIVE)
    with pytest.raises(queue.Empty):
        heard.get_nowait()
    for item in (ALIVE, "a word", ALIVE, ALIVE, (None, MessageCode.Exit, None)):
        between.put(item)
    assert heard.get() == "a word"
    assert heard.at == math.inf
    assert heard.get(timeout=60) == (None, MessageCode.Exit, None)
    if isinstance(between, MessageQueue):
        between.close()


@pytest.mark.parametrize("seconds", [0, -1, 1, 2.9, math.nan])
def test_a_side_has_time_for_its_signs(seconds: float) -> None:
    networks = [DistNetwork(("127.0.0.1", 1), 2, rank) for rank in (1, 0)]
    with pytest.raises(ArgumentError, match="silence_timeout"):
        Scheduler(*networks, silence_timeout=seconds)
