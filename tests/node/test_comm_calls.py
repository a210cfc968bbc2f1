"""Calls as their users make them: by name, in time, together with a close, in a fork."""

from collections.abc import Callable

import comm_calls as cases
import pytest
from comm_ranks import Ranks

Run = Callable[..., Ranks]


def test_everything_may_be_said_by_name_and_the_processor_uses_the_network(ranks: Run) -> None:
    package = (1, "SetUp", [[1, 1], 3, [], [[4, 4]]])
    assert ranks(cases.by_keywords, 2).results() == [[package, package, (1, "Exit", [[1]])], []]


def test_a_close_waits_until_all_that_is_under_way_is_taken(ranks: Run) -> None:
    running = ranks(cases.fills, 2, True)
    sent = running.heard(0)
    running.tell(1, sent)
    (late, closing, after), (numbers, then) = running.results()
    assert sent >= 256  # as many may be under way
    assert numbers == list(range(sent))
    assert (late["kind"], late["peer"], late["part"]) == ("TransferTimeout", 1, "header")
    assert late["text"] == "sending to rank 1: it has not taken the header within 0.5 s"
    assert (closing["kind"], after) == (None, "NotConnected")
    assert (then["kind"], then["closed"]) == ("PeerLost", True)


def test_a_close_says_who_has_not_taken_everything_and_closes(ranks: Run) -> None:
    running = ranks(cases.fills, 2, False)
    running.heard(0)
    _, closing, after = running.result(0)
    assert (closing["kind"], closing["peer"]) == ("TransferTimeout", 1)
    assert closing["seconds"] == 0.5
    assert after == "NotConnected"
    running.tell(1)
    running.result(1)


def test_a_broadcast_that_times_out_says_whom_it_waited_for_and_loses_nothing(ranks: Run) -> None:
    running = ranks(cases.broadcast_late, 3)
    assert running.heard(0) == "told"
    running.tell(2)
    late, counted, *found = running.result(0)
    assert (late["kind"], late["peer"], late["seconds"]) == ("TransferTimeout", 2, 2.0)
    assert counted == 0
    assert found == [[1, 2], [10, 20], 11]


def test_who_is_received_from_by_a_broadcast_is_so_until_its_end(ranks: Run) -> None:
    """Or a package that it puts back could come after one that was sent later."""
    running = ranks(cases.broadcast_holds, 3)
    running.tell(1)
    assert running.heard(1) == "taken"
    running.tell(0)
    assert running.heard(0) == "tried"
    running.tell(2)
    assert running.heard(2) == "taken"
    assert running.result(0) == ("ArgumentError", [1, 2], [1, 2])
    running.result(1)
    running.result(2)


def test_who_receives_while_the_network_is_closed_is_told(ranks: Run) -> None:
    running = ranks(cases.closed_while_receiving, 2)
    kind, told = running.result(0)
    running.tell(1)
    running.result(1)
    assert kind == "ArgumentError"
    assert (told["kind"], told["text"]) == ("NotConnected", "the network is closed")


def test_a_fork_is_refused_and_disturbs_nobody(ranks: Run) -> None:
    kinds, received = ranks(cases.forked, 2).results()
    assert kinds == ["ArgumentError"] * 6 + ["None"]
    assert received == [1, 2]


@pytest.mark.parametrize("ours", [0, 1])
def test_with_a_rank_that_has_torch_alone_the_time_out_counts(ranks: Run, ours: int) -> None:
    running = ranks(cases.beside_torch, 2, ours, GLOO_SOCKET_IFNAME="lo")
    other = 1 - ours
    assert running.heard(other) == [
        [ours, other, 6, 5, 5],  # in the order of the wire
        [2, 1, 2, 1, 1, 1],
        [1, 1, 1],
    ]
    assert running.heard(other) == "sent"
    running.tell(ours)
    assert running.heard(ours) == "told"
    running.kill(other)
    running.tell(ours)
    code, content, late, lost, known = running.result(ours)
    assert (code, content, known) == ("ParameterUpdate", [[[5, 6]]], [])
    assert (late["kind"], late["peer"], late["part"]) == ("TransferTimeout", other, "slices")
    assert (lost["kind"], lost["peer"], lost["closed"]) == ("PeerLost", other, None)


def test_joining_has_a_time_out_of_its_own(ranks: Run) -> None:
    found = ranks(cases.joins_within, 2).result(1)
    assert found["kind"] == "RendezvousTimeout"
    assert "not all came together within 1 s" in found["text"]
    assert found["took"] < 8.0


def test_the_processor_works_over_a_group_that_torch_made(ranks: Run) -> None:
    first, *others = ranks(cases.processor, 3).results()
    content = [[[0, 1, 2], [3, 4, 5]], 1]
    assert first == sorted(
        [(rank, "SetUp", content) for rank in (1, 2)]
        + [(rank, "ParameterRequest", None) for rank in (1, 2)],
        key=str,
    )
    assert others == [1.0, 2.0]


def test_the_processor_leaves_nothing_of_a_group_that_is_no_more(ranks: Run) -> None:
    running = ranks(cases.processor_of_groups, 2)
    for rank in (0, 1):
        other = 1 - rank
        assert running.heard(rank) == [f"fedtest.comm from {other}", f"fedtest.comm to {other}"]
    for rank in (0, 1):
        running.tell(rank)
    running.results()
