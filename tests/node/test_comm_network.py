"""Packages between real ranks over Gloo: what arrives, from whom, and what is refused."""

from collections.abc import Callable

import comm_cases as cases
import pytest
from comm_ranks import Ranks

from fedtest.comm import DistNetwork

Run = Callable[..., Ranks]


def test_every_dtype_and_shape_arrives_as_it_was_sent_in_both_directions(ranks: Run) -> None:
    (found, sent, received, interface), (_, back, there, _) = ranks(cases.delivery, 2).results()
    assert all(sender == 1 and got == code and same for sender, got, same, code in found)
    assert interface == "lo"
    assert sent == received == back == there
    elements = 0 + 1 + 1 + 7 + 0 + 6 + 24 + 24 + 8
    assert sent == elements * (1 + 2 + 4 + 8 + 2 + 4 + 8) + elements * 4 + 3000 * 8


@pytest.mark.parametrize("parts", [1, 62])
def test_large_contents_arrive_whole(ranks: Run, parts: int) -> None:
    assert ranks(cases.large, 2, 5_000_000, parts).results()[1] == parts


def test_from_any_rank_parts_of_two_senders_never_mix(ranks: Run) -> None:
    counts = ranks(cases.any_source, 9, 1250).result(0)
    assert counts == dict.fromkeys(range(1, 9), 1250)


def test_broadcast_reaches_all_and_counts_bytes(ranks: Run) -> None:
    first, second, third = ranks(cases.broadcast, 3).results()
    received, again, wrong, sent, got = first
    assert received == ([1, 2], [1, 2], [[1, 1, 1], [2, 2, 2]])
    assert again == [2, 1]
    assert wrong == "ArgumentError"
    large = 4 << 19
    assert (sent, got) == (2 * (6 * 8 + large), 2 * 6)
    assert second == third == ([[0, 1, 2, 3], [0, 1]], 1 << 19, 6, 6 * 8 + large)


def test_a_broadcast_leaves_out_only_itself_whatever_the_rank() -> None:
    """Beyond 256 equal numbers are two objects."""
    network = DistNetwork(("127.0.0.1", 23456), 400, 300)
    every = network._others([int(str(rank)) for rank in range(400)], "dst")
    assert every == network._others(None, "dst") == [rank for rank in range(400) if rank != 300]


@pytest.mark.parametrize(("parts", "sender_at_most"), [(1, 0.1), (62, 1.1)])
def test_memory_is_that_of_the_payload(ranks: Run, parts: int, sender_at_most: float) -> None:
    sender, receiver = ranks(cases.memory, 2, 25_000_000, parts).results()
    assert sender < sender_at_most
    assert 1 <= receiver < 1.1


def test_senders_and_a_receiver_in_threads_keep_packages_whole(ranks: Run) -> None:
    assert ranks(cases.threads, 2, 200).results() == [{1: 200, 2: 200, 3: 0}, {1: 0, 2: 0, 3: 200}]


def test_two_receives_from_one_rank_at_once_are_refused(ranks: Run) -> None:
    refused = ranks(cases.two_receives, 2).result(0)
    assert refused["kind"] == "ArgumentError"
    assert "another thread is receiving from any rank" in refused["text"]


def test_two_ranks_that_both_send_a_small_package_first_do_not_wait(ranks: Run) -> None:
    for sent, received in ranks(cases.both_send_first, 2, 1 << 18).results():
        assert sent["kind"] is None
        assert received == 1 << 18


def test_two_ranks_that_both_send_a_large_package_first_time_out_and_go_on(ranks: Run) -> None:
    results = ranks(cases.both_send_first, 2, 1 << 19).results()
    # As soon as one gives up and receives, the other may be done in time.
    late = [(rank, sent) for rank, (sent, _) in enumerate(results) if sent["kind"] is not None]
    assert late
    for rank, sent in late:
        assert sent["kind"] == "TransferTimeout"
        assert (sent["peer"], sent["seconds"], sent["part"]) == (1 - rank, 1.0, "content")
    assert [received for _, received in results] == [1 << 19] * 2


def test_a_receive_that_times_out_says_from_whom_and_loses_nothing(ranks: Run) -> None:
    (one, anybody), content = ranks(cases.recv_times_out, 2).result(0)
    assert one["kind"] == anybody["kind"] == "TransferTimeout"
    assert (one["peer"], anybody["peer"]) == (1, -1)
    assert one["part"] == "header"
    assert one["text"] == "receiving from rank 1: waited 0.1 s for the header"
    assert content == [0, 1, 2]


def test_strict_refuses_what_would_be_lost(ranks: Run) -> None:
    refused, received = ranks(cases.strict, 2).results()
    assert refused["kind"] == "CoercionError"
    assert "0.25 became 0" in refused["text"]
    assert received == [1.0]


def test_what_is_refused_is_refused_before_the_first_byte(ranks: Run) -> None:
    kinds, received = ranks(cases.refusals, 2).results()
    package, argument = "PackageError", "ArgumentError"
    assert kinds == [package] * 3 + ["DtypeError"] + [package] * 10 + [argument] * 3 + [package] * 2
    assert received == [0, 0, 0]


def test_tensors_of_all_kinds_of_memory_arrive_and_stay_as_they_were(ranks: Run) -> None:
    unchanged, together = ranks(cases.odd_tensors, 2).results()
    assert all(unchanged)
    assert all(together)


@pytest.mark.parametrize("knows", [True, False])
def test_a_small_package_is_one_message_to_a_rank_that_knows_that(ranks: Run, knows: bool) -> None:
    sent, came = ranks(cases.messages_of, 2, knows).results()
    assert sent == ([1, 3, 1] if knows else [3, 3, 1])
    assert came == [True, True, False]


def test_a_tensor_may_change_after_a_small_send(ranks: Run) -> None:
    running = ranks(cases.sent_tensor_may_change, 2)
    running.tell(1)
    assert running.result(1) == 100_000


def test_networks_open_and_close_without_touching_each_other(ranks: Run, other_port: int) -> None:
    running = ranks(cases.reopened, 2)
    for rank in (0, 1):
        assert running.heard(rank) == "closed"
    for rank in (0, 1):
        running.tell(rank, other_port)
    for found in running.results():
        assert found == ["NotConnected", "NotConnected", "JoinError", "the network is closed", 1.0]
