"""Peers that die, close or send what is no package: noticed, named, and over in seconds."""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import comm_failures as cases
import pytest
from comm_failures import header
from comm_ranks import DEADLINE, Ranks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedtest import comm
from fedtest.comm import short, wire
from fedtest.comm.heartbeat import Heartbeat

Run = Callable[..., Ranks]
SOON = 20.0  # seconds within which a death is noticed, on a busy machine


@pytest.mark.parametrize("heartbeat", [5.0, 0.0])
def test_a_rank_that_is_killed_is_named_and_the_others_go_on(ranks: Run, heartbeat: float) -> None:
    running = ranks(cases.killed_while_idle, 3, heartbeat)
    for rank in range(3):
        assert running.heard(rank) == "joined"
    running.kill(1)
    assert running.heard(2) == "told"
    running.tell(0)
    for rank in (0, 2):
        found, sent, lost, closing = running.result(rank)
        for each in filter(None, (found, sent)):
            assert each["kind"] == "PeerLost", each
            assert each["peer"] == 1
            assert each["closed"] is (False if heartbeat else None)
            assert each["took"] < SOON
            assert "rank 1 is gone" in each["text"]
        if not heartbeat:  # Gloo's own words
            assert re.search(r"\(.*Connection (closed|reset) by peer", found["text"])
        # Without a heartbeat the other one's close, which may come first, looks the same.
        assert 1 in lost if not heartbeat else lost == [1]
        assert closing < SOON


@pytest.mark.parametrize("sender", [0, 1])
def test_a_rank_that_is_killed_in_a_transfer_is_noticed_in_seconds(ranks: Run, sender: int) -> None:
    running = ranks(cases.killed_in_a_transfer, 2, sender)
    for rank in (0, 1):
        assert running.heard(rank) == "joined"
    # Rank 1 is stopped when the transfer has begun, or there might be no middle.
    pid = running.processes[sender].pid
    before = cases.written(pid)
    for rank in (0, 1):
        running.tell(rank)
    assert running.heard(1) == "begins"
    deadline = time.monotonic() + DEADLINE
    while cases.written(pid) < before + 8_000_000:
        assert time.monotonic() < deadline
    os.kill(running.processes[1].pid, signal.SIGSTOP)
    assert cases.written(pid) < before + 4 * cases.LARGE
    killed = time.monotonic()
    running.kill(1)
    found = running.heard(0)
    assert time.monotonic() - killed < SOON
    assert found["kind"] == "PeerLost"
    assert found["peer"] == 1
    assert "its process ended without closing its network" in found["text"]
    assert running.result(0) < SOON


def test_a_paused_rank_is_not_taken_for_a_dead_one(ranks: Run) -> None:
    running = ranks(cases.paused, 2)
    assert running.heard(0) == running.heard(1) == "joined"
    pid = running.processes[1].pid
    os.kill(pid, signal.SIGSTOP)
    # It may have sent before it was stopped.
    assert running.heard(0) in {"TransferTimeout", None}
    os.kill(pid, signal.SIGCONT)


def test_a_rank_that_closes_in_order_disturbs_nobody_who_waits_for_others(ranks: Run) -> None:
    running = ranks(cases.closes_early, 3)
    assert running.heard(1) == "closed"
    running.tell(2)
    senders, (one, anybody) = running.result(0)
    assert senders == [1, 2]
    assert one["kind"] == anybody["kind"] == "PeerLost"
    assert one["closed"] is anybody["closed"] is True
    assert one["text"] == "rank 1 is gone: it has closed its network"
    assert "no other rank is left" in anybody["text"]


def test_what_was_sent_arrives_though_the_process_ends_without_a_close(ranks: Run) -> None:
    assert ranks(cases.ends_without_close, 2).result(0) == list(range(50))


def test_nobody_waits_for_the_verdict_of_a_heartbeat_that_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname())
        mine, _ = server.accept()
    beating = Heartbeat({1: mine}, 60.0, lambda *_: None)
    found: list[str | None] = []
    waiting = threading.Thread(
        daemon=True, target=lambda: found.append(beating.verdict(1, DEADLINE))
    )
    with theirs:
        waiting.start()
        beating.close()
        waiting.join(SOON)
    assert found == [None]


@pytest.mark.parametrize("how", ["nothing taken", "all taken", "the other one first"])
def test_a_close_leaves_no_thread_that_could_meet_the_interpreters_end(
    ranks: Run, how: str
) -> None:
    running = ranks(cases.threads_after, 2, how)
    assert running.heard(0) == running.heard(1) == "joined"
    assert running.heard(1) == "closed"
    running.tell(0)
    left, closing = running.result(0)
    assert left == []
    assert closing["kind"] == ("TransferTimeout" if how == "nothing taken" else None)
    running.tell(1)
    assert running.result(1) is None


def told(ranks: Run, *messages: tuple[list[int], str]) -> tuple[dict[str, Any], dict[str, Any]]:
    running = ranks(cases.raw, 2, list(messages))
    found, again, allocated = running.heard(0)
    assert allocated < 1_000_000  # kB: nothing giant, though it were never used
    running.tell(1)
    running.result(0)
    running.end()
    return found, again


INT = "int32"


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([(header(sender=0), INT)], "it says that it is from rank 0"),
        ([([1, 1, 3, 0, 5], INT)], "it is for rank 1, this is rank 0"),
        ([(header(dtype=7), INT)], "7 is no dtype code"),
        ([(header(dtype=-1), INT)], "-1 is no dtype code"),
        ([(header(length=-1), INT)], "a length of slices of -1"),
        ([(header(length=2**31 - 1), INT)], "a length of slices of 2147483647"),
        ([(header()[:4], INT)], "fewer than 5 numbers as header"),
        ([([*header(), 0], INT)], "more than 5 numbers as header"),
        ([(header(), INT), ([3, 1], INT)], "fewer than 3 numbers as slices"),
        ([(header(), INT), ([3, 1, 3, 3], INT)], "more than 3 numbers as slices"),
        ([(header(), INT), ([3, 1, 4], INT)], "tensor 0 has 3 elements but the shape (4,)"),
        ([(header(), INT), ([3, 2, 3], INT)], "the slices end within the shape of tensor 0"),
        ([(header(), INT), ([-1, 1, -1], INT)], "tensor 0 has -1 elements"),
        ([(header(), INT), ([2**31 - 1, 1, 2**31 - 1], INT)], "max_package_bytes is 65536"),
        ([([*header(), 40, 3, 1, 3, 0], INT)], "more than 5 numbers as header"),
        ([([*header(), 40, 3, 1, 4, short.END], INT)], "tensor 0 has 3 elements but"),
        ([([*header(), 40, 3, 1, 3, short.END], INT)], "slices, which are of 12 bytes of content"),
        ([([*header(length=9), 40, 3, 1, 3, short.END], INT)], "with a header of 9 numbers of"),
        ([([*header(length=0), 28, short.END], INT)], "0 bytes with a header of 0 numbers"),
        ([([*header(length=0, dtype=9), 28, short.END], INT)], "with a header of 0 numbers"),
        ([([*header(length=0, dtype=-100), 28, short.END], INT)], "with a header of 0 numbers"),
        ([([*header(), 52, 3, 1, 3, 1, 2, 3, short.END, 0], INT)], "more than 13 numbers"),
        ([(header(length=6), INT), ([0, 4, 0] + 3 * [2**31 - 1], INT)], "no tensor can have"),
    ],
)  # fmt: skip
def test_what_is_no_package_is_refused_and_said(
    ranks: Run, messages: list[tuple[list[int], str]], says: str
) -> None:
    found, again = told(ranks, *messages)
    assert found["kind"] == again["kind"] == "PackageError"
    assert says in found["text"]
    assert found["peer"] == again["peer"] == 1
    assert "rank 1" in found["text"]


@pytest.mark.parametrize(
    ("messages", "part"),
    [([(header(), INT)], "slices"), ([(header(), INT), ([3, 1, 3], INT)], "content")],
)
def test_a_package_that_stops_in_the_middle_is_a_time_out_that_says_where(
    ranks: Run, messages: list[tuple[list[int], str]], part: str
) -> None:
    for found in told(ranks, *messages):
        assert found["kind"] == "TransferTimeout"
        assert (found["peer"], found["part"]) == (1, part)
        assert found["text"].endswith(f" s for the {part}")


def test_a_package_with_an_unknown_code_is_refused_and_the_next_one_found(ranks: Run) -> None:
    whole = [(header(), INT), ([3, 1, 3], INT), ([1, 2, 3], "float32")]
    found, again = told(ranks, (header(code=9), INT), *whole[1:], *whole)
    assert found["kind"] == "PackageError"
    assert "9 is no message code" in found["text"]
    assert again["kind"] is None


@pytest.mark.parametrize("size", [36, 52, 56])
def test_a_package_in_one_message_needs_the_right_size(ranks: Run, size: int) -> None:
    """It is taken from a rank that has not asked for it in the same way, too."""
    found, _ = told(ranks, ([*header(), size, 3, 1, 3, 1, 2, 3, short.END], INT))
    assert found["kind"] == (None if size == 52 else "PackageError")


numbers = st.one_of(st.integers(-3, 8), st.integers(-(2**31), 2**31 - 1))


@settings(
    max_examples=15, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    st.lists(numbers, min_size=1, max_size=12)
    | st.builds(header, st.integers(0, 9))
    | st.builds(
        lambda length, dtype, some: [
            *header(length=length, dtype=dtype),
            4 * len(some) + 28,
            *some,
            short.END,
        ],
        st.integers(0, 4),
        st.integers(-100, 9),
        st.lists(numbers),
    ),
    st.lists(numbers, min_size=1, max_size=12),
    st.lists(st.integers(0, 255), min_size=1, max_size=64),
)
def test_whatever_arrives_there_is_no_crash_and_no_hang(
    ranks: Run, first: list[int], second: list[int], third: list[int]
) -> None:
    with suppress(comm.PackageError):  # a content too long for its slices is the end, within Gloo
        third = third[: wire.check_slices(second).total]
    told(ranks, (first, INT), (second, INT), (third, "uint8"))
