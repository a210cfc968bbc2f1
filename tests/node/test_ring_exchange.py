"""The exchanges over real Gloo: the right mean, and the same bits on every rank."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
import ring_cases as cases
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ring_cases import Backward, Values

from fedtest.ring.options import EXCHANGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from comm_ranks import Ranks

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
WORLDS = range(1, 9)
EXAMPLES = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def asked(running: Ranks, task: object) -> list[Any]:
    for rank in range(len(running.processes)):
        running.tell(rank, task)
    return [running.heard(rank) for rank in range(len(running.processes))]


def ended(running: Ranks) -> None:
    for rank in range(len(running.processes)):
        running.tell(rank)
    running.results()


@pytest.mark.parametrize("size", WORLDS)
def test_every_exchange_adds_up_and_gives_all_ranks_the_same_bits(
    ranks: Callable[..., Ranks], size: int
) -> None:
    running = ranks(cases.serve, size)

    @EXAMPLES
    @given(
        length=st.one_of(st.integers(0, 40), st.integers(0, 9000), st.just(100_003)),
        dtype=st.sampled_from([*TOLERANCE, torch.int64]),
        seed=st.integers(0, 1000),
        segment=st.sampled_from([64, 1000, 1 << 14, 1 << 20]),
        small=st.sampled_from([0, 1 << 14, 4 << 20]),
        smallest=st.sampled_from([64, 1000, 160 << 10]),
        direct=st.sampled_from([None, 0, 1000]),
        oversubscribed=st.booleans(),
    )
    def adds_up(length: int, segment: int, **others: Any) -> None:
        if segment < 1 << 14:
            length = min(length, 9000)
        dtype = others["dtype"]
        for name in EXCHANGES:
            task = Values(name, length, segment=segment, **others)
            heard = asked(running, task)
            assert len({sha for sha, _ in heard}) == 1, task
            got = torch.tensor(heard[0][1], dtype=dtype)
            parts = torch.stack([task.of(rank) for rank in range(size)])
            if not dtype.is_floating_point:
                assert torch.equal(got, parts.sum(0))
                continue
            scale = parts.double().abs().sum(0)
            error = (got.double() - parts.double().sum(0)).abs()
            assert bool((error <= TOLERANCE[dtype] * scale).all()), task

    adds_up()
    ended(running)


@pytest.mark.parametrize("size", WORLDS)
def test_gradients_are_those_of_one_process_on_all_samples(
    ranks: Callable[..., Ranks], size: int
) -> None:
    """With ranks that have no samples, parameters without elements, or without a part."""
    running = ranks(cases.serve, size)

    @settings(EXAMPLES, max_examples=6)
    @given(
        counts=st.lists(st.integers(0, 4), min_size=size, max_size=size).filter(any),
        dtype=st.sampled_from([*TOLERANCE]),
        seed=st.integers(0, 1000),
        bucket=st.sampled_from([1, 100, 1 << 20]),
    )
    def agrees(counts: list[int], dtype: torch.dtype, seed: int, bucket: int) -> None:
        shas = {}
        for name, overlap in (*((name, False) for name in EXCHANGES), ("chunked", True)):
            task = Backward(name, dtype, seed, tuple(counts), bucket, overlap)
            heard = asked(running, task)
            assert len({sha for sha, _ in heard}) == 1, task
            shas[name, overlap] = heard[0][0]
            model = task.model()
            task.loss(model, torch.cat(task.samples())).backward()
            scale = max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None
                        and p.numel())  # fmt: skip
            for key, parameter in model.named_parameters():
                if not parameter.requires_grad:
                    continue
                wanted = parameter.grad if parameter.grad is not None else torch.zeros(5)
                got = torch.tensor(heard[0][1][key], dtype=dtype).view(parameter.shape)
                close = torch.allclose(got, wanted.to(dtype), 0, TOLERANCE[dtype] * scale)
                assert close, (task, key)
        assert shas["chunked", False] == shas["chunked", True]

    agrees()
    ended(running)


def expected_moves(rank: int, size: int) -> list[str]:
    """The order of sends and receives that the algorithm prescribes, written out rank by rank."""
    if size == 1:
        return []
    last = size - 1
    if rank == 0:
        own = ["send 1", f"recv {last}"]  # starts the first ring, gets its result
        return own if size == 2 else [*own, "send 1"]  # and starts the second
    if rank == last:
        return [f"recv {last - 1}", "send 0"]  # takes no part in the second ring
    first = [f"recv {rank - 1}", f"send {rank + 1}"]
    second = [f"recv {rank - 1}"] if rank == last - 1 else first
    return first + second


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_two_rings_move_as_they_are_described(ranks: Callable[..., Ranks], size: int) -> None:
    found = ranks(cases.moves, size).results()
    assert found == [expected_moves(rank, size) for rank in range(size)]


def test_ranks_that_outnumber_processors_all_know_it(ranks: Callable[..., Ranks]) -> None:
    expected = {
        ((3, 3, 3), True): False,
        ((2, 2, 2), True): True,
        ((2, 2, 2), False): False,  # rank 1 may be on another machine
        ((1, 1, 1), True): True,
    }
    found = ranks(cases.counting, 3, tuple(expected)).results()
    assert found == [list(expected.values())] * 3


@pytest.mark.parametrize("size", [2, 3])
def test_one_exchange_adds_up_values_of_any_length_and_dtype(
    ranks: Callable[..., Ranks], size: int
) -> None:
    assert ranks(cases.one_after_the_other, size).results() == [[]] * size


def test_a_broadcast_gives_all_the_same(ranks: Callable[..., Ranks]) -> None:
    assert ranks(cases.broadcast, 3).results() == [list(range(1000))] * 3


@pytest.mark.parametrize("exchange", [*EXCHANGES, cases.BROADCAST])
@pytest.mark.parametrize(("how", "timeout"), [(signal.SIGKILL, 60.0), (signal.SIGSTOP, 4.0)])
def test_every_other_rank_names_the_one_that_is_gone(
    ranks: Callable[..., Ranks], exchange: str, how: signal.Signals, timeout: float
) -> None:
    running = ranks(cases.until_it_fails, 4, exchange, 20_000, timeout)
    for rank in range(4):
        assert running.heard(rank) == "running"
    os.kill(running.processes[1].pid or 0, how)
    for rank in (0, 2, 3):
        kind, blamed, phase, text, seconds = running.result(rank)
        assert blamed == 1, text
        assert kind == ("RankLost" if how == signal.SIGKILL else "RankSilent"), text
        assert phase.startswith("step ")
        assert "rank 1 " in text
        # By the rank's own clock, from when it began the exchange that failed. A death is
        # known at once; a machine that is busy may come late to the end of a wait.
        assert seconds < (timeout / 2 if how == signal.SIGKILL else 2 * timeout), text
