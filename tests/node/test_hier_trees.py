"""Middle servers between a top and clients: what arrives where, and that they end."""

from collections.abc import Callable
from pathlib import Path

import hier_cases as cases
import hier_memory as memory
import pytest
from comm_cases import contents, digest
from comm_ranks import Ranks
from hier_cases import CODES, MIDDLE, TOP

Run = Callable[..., Ranks]


@pytest.mark.parametrize("mode", ["LOCAL", "GLOBAL"])
def test_each_rank_is_sent_its_own_ids_and_the_payload_as_it_was(
    ranks: Run, other_port: int, mode: str
) -> None:
    """Clients of 2, 0 and 3,000 ids: 2,049 does not fit into float16, nor 128 into int8."""
    results = ranks(cases.down, 5, other_port, mode, [2, 0, 3000]).results()
    total, back = results[TOP]
    assert total == 3002
    due = [(CODES[n % len(CODES)].name, digest(payload)) for n, payload in enumerate(cases.kinds())]
    # The large ones are random: what came back is what the clients were sent.
    few, none, many = results[2:]
    first = 2 if mode == "GLOBAL" else 0
    assert [ids for _, ids, _ in few] == [[0, 1]] * len(due) + [[0, 1]]
    assert [ids for _, ids, _ in many[:-1]] == [[first + 2049, first + 2999]] * len(due)
    assert many[-1][1] == list(range(first, first + 3000))
    for seen in (few, many):
        got = [(code, found) for code, _, found in seen]
        assert got[:7] == due[:7]
        assert got[-1][0] == "Exit"
    assert few[7:-1] == [(code, [0, 1], found) for code, _, found in many[7:-1]]
    assert sorted(back, key=str) == sorted(
        [(1, code, found) for seen in (few, many) for code, _, found in seen[:-1]], key=str
    )
    # Who stands for nobody gets Exit, too, and no id.
    assert [(code, ids) for code, ids, _ in none] == [("Exit", [])]


@pytest.mark.parametrize("origins", [False, True])
def test_what_comes_from_below_goes_up_unchanged_and_in_order(
    ranks: Run, other_port: int, origins: bool
) -> None:
    seen, _, *sent = ranks(cases.up, 4, other_port, origins).results()
    # The clients stand for 2 and 3.
    ids = [[0, 1], [2, 3, 4]]
    if not origins:
        everybody = [0, 1, 2, 3, 4]
        assert all(who == everybody for who, _, _ in seen)
        assert sorted(map(str, (found for _, _, found in seen))) == sorted(
            map(str, sent[0] + sent[1])
        )
        return
    for who, all_of_them in zip(ids, sent, strict=True):
        found = [(code, got) for whose, code, got in seen if whose == who]
        assert found == [(CODES[n % len(CODES)].name, each) for n, each in enumerate(all_of_them)]
    assert len(seen) == 2 * len(contents())


def test_packages_are_taken_as_they_come_and_none_overtakes_another(ranks: Run) -> None:
    (seen, code, threads, received), sent = ranks(cases.hands_over, 2).results()
    assert (seen, code) == (list(range(7)), "Exit")
    assert threads == {"fedtest.comm from 1"}
    assert received == sent == 5 * 4 + 2 * 4_000_000


@pytest.mark.timeout(1200)
def test_it_ends_a_hundred_times_in_a_row(ranks: Run, other_port: int) -> None:
    before = set(Path("/dev/shm").iterdir())
    times = 100
    running = ranks(cases.often, 3, other_port, times)
    for _ in range(times):
        for rank in (1, 2):
            running.tell(rank)
        for rank in range(3):
            assert running.heard(rank) == "ended"
        running.tell(TOP)
    assert running.results()[MIDDLE] == [0] * times
    cases.nothing_left(before)


def test_the_port_is_free_again_after_a_rank_has_left(ranks: Run) -> None:
    ranks(cases.meets_again, 2).results()


def test_its_processes_need_not_be_forked(ranks: Run, other_port: int) -> None:
    running = ranks(cases.often, 3, other_port, 1, "spawn")
    for rank in (1, 2):
        running.tell(rank)
    for rank in range(3):
        assert running.heard(rank) == "ended"
    running.tell(TOP)
    assert running.results()[MIDDLE] == [0]


def test_averaging_in_a_few_lines(ranks: Run, other_port: int) -> None:
    (found, volume), *_ = ranks(cases.averages, 5, other_port).results()
    # The mean of number + 1, + 2, + 3, doubled.
    assert found == [[2.0 * (number + 2)] for number in range(3)]
    assert volume == 3 * 500_000 * 4 + 4  # one update each time, and the SetUp


@pytest.mark.parametrize(("elements", "shared"), [(10, 0.0), (2_000_000, 1.0)])
def test_large_contents_cross_in_shared_memory_and_nothing_of_them_stays(
    ranks: Run, other_port: int, elements: int, shared: float
) -> None:
    """Received there, and there for who sends them on: downwards, and back upwards."""
    before = set(Path("/dev/shm").iterdir())
    found, *_ = ranks(memory.shares, 3, other_port, elements).results()
    assert found == [shared] * 4
    cases.nothing_left(before)


def test_a_slow_top_holds_up_the_clients_not_the_memory(ranks: Run, other_port: int) -> None:
    messages, elements = 40, 4_000_000  # 16 MB each: 640 MB
    running = ranks(cases.slow, 3, other_port, messages, elements)
    sent = 0
    line = running.lines[2]
    while line.poll(3.0):  # until it is held up
        assert running.heard(2) == sent
        sent += 1
    # 256 MB wait in the queue; one is on either side of it, and one in Gloo.
    assert 10 <= sent <= 21
    running.tell(TOP)
    while sent < messages:
        assert running.heard(2) == sent
        sent += 1
    assert running.result(TOP) == list(range(messages))
    running.result(MIDDLE)


def test_connectors_work_with_queues_of_torch_without_a_scheduler(
    ranks: Run, other_port: int
) -> None:
    shapes, codes, _ = ranks(cases.queues_of_torch, 3, other_port).results()
    assert [tuple(shape) for shape in shapes] == [(500_000,), (3,)]
    assert codes == [0, 0]


@pytest.mark.parametrize(("mode", "origins"), [("LOCAL", True), ("LOCAL", False), ("GLOBAL", True)])
def test_a_middle_server_under_a_middle_server(
    ranks: Run, ports: Callable[[int], list[int]], mode: str, origins: bool
) -> None:
    found, _, _, _, left, right = ranks(cases.levels, 6, ports(3), mode, origins).results()
    code = CODES[1].name
    # Without origins all that is known is that it came from below.
    who = [[0, 1], [0, 1], [2]] if origins else [[0, 1, 2]] * 3
    assert found == [(ids, code, [float(each)], "torch.float16") for each, ids in enumerate(who)]
    exit_ = [[]]
    assert left == [[0], [1], *exit_]
    assert right == [[2 if mode == "GLOBAL" else 0], *exit_]


@pytest.mark.parametrize("elements", [10, 1_000_000])
def test_what_is_forwarded_stays_as_it_was_and_can_be_forwarded_again(
    ranks: Run, other_port: int, elements: int
) -> None:
    unchanged, _, first, second = ranks(cases.twice, 4, other_port, elements).results()
    assert unchanged == [True]
    for (seen, payload), ids in ((first, [0]), (second, [0, 1])):
        once = (CODES[0].name, ids, payload)
        assert seen == [once, once, ("Exit", ids, payload)]
