"""What the ranks of test_ring_*.py do, each a function of Here."""

from __future__ import annotations

import hashlib
import io
import os
import time
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from fedtest import values as fedtest_values
from fedtest.ring import exchanges
from fedtest.ring.__main__ import main
from fedtest.ring.errors import PeerError
from fedtest.ring.exchanges import Chunked, TwoRing
from fedtest.ring.exchanges.base import Exchange
from fedtest.ring.exchanges.processors import oversubscribed
from fedtest.ring.gradients import Gradients, overlapping
from fedtest.ring.group import Group, Place, joined

ROOT = Path(__file__).parents[2]
BROADCAST = "broadcast"

if TYPE_CHECKING:
    from collections.abc import Iterator

    from comm_ranks import Here


@dataclass(frozen=True)
class Values:
    """Something to add up: each rank's own values, drawn from `seed`."""

    exchange: str
    size: int
    dtype: torch.dtype
    seed: int
    segment: int = 4 << 20
    small: int = 0
    smallest: int = 160 << 10
    direct: int | None = None
    oversubscribed: bool | None = None

    def of(self, rank: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1000 + rank)
        values = torch.randn(self.size, generator=generator, dtype=torch.float64)
        return (values * 10 ** (self.seed % 5)).to(self.dtype)


@dataclass(frozen=True)
class Backward:
    """Gradients of a model that has a parameter without elements, and one without a part."""

    exchange: str
    dtype: torch.dtype
    seed: int
    counts: tuple[int, ...]  # samples, by rank
    bucket: int
    overlap: bool = False

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return Odd().to(self.dtype)

    def samples(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        total = torch.randn(sum(self.counts), 6, generator=generator, dtype=torch.float64)
        return list(total.to(self.dtype).split(self.counts))

    def loss(self, model: nn.Module, samples: torch.Tensor) -> torch.Tensor:
        return model(samples).square().sum() / sum(self.counts)


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 17)
        self.nothing = nn.Parameter(torch.zeros(0, 3))
        self.unused = nn.Parameter(torch.ones(5))
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)
        self.second = nn.Linear(17, 3)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(samples))) + self.nothing.sum()


@contextmanager
def group_of(here: Here, timeout: float = 60.0) -> Iterator[Group]:
    place = Place("127.0.0.1", here.port, here.rank, here.size, "lo", 60.0, timeout)
    with joined(place) as (group, interface):
        assert interface == "lo"
        yield group


def serve(here: Here) -> None:
    """Do what the test says, one thing after the other, until it says None."""
    with group_of(here) as group:
        while (task := here.wait()) is not None:
            here.say(values(group, task) if isinstance(task, Values) else backward(group, task))


def values(group: Group, task: Values) -> Any:
    """The digest of the total's bytes; from rank 0 the total itself, too."""
    exchange = exchanges.make(task.exchange, group)
    if isinstance(exchange, Chunked):
        exchange = Chunked(
            group,
            segment=task.segment,
            small=task.small,
            smallest=task.smallest,
            direct=task.direct,
            oversubscribed=task.oversubscribed,
        )
    flat = task.of(group.rank)
    exchange.total(flat, "test")
    return digest(flat), flat.tolist() if group.rank == 0 else None


def backward(group: Group, task: Backward) -> Any:
    model = task.model()
    gradients = Gradients(model, task.bucket)
    exchange = exchanges.make(task.exchange, group)
    own = task.samples()[group.rank]
    for _ in range(2):  # the second time in the same memory
        gradients.clear()
        with overlapping(gradients, exchange, wanted=task.overlap) as overlap:
            if overlap is not None:
                overlap.begin("test")
            if len(own):
                (task.loss(model, own) * group.size).backward()
            if overlap is not None:
                overlap.end()
            else:
                gradients.average(exchange, "test")
    found = {name: p.grad.tolist() for name, p in model.named_parameters() if p.requires_grad}
    return digest(gradients.flat), found if group.rank == 0 else None


def digest(flat: torch.Tensor) -> str:
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def moves(here: Here) -> list[str]:
    """What a rank sends and receives in a two-ring, in order."""
    found: list[str] = []

    class Recording(Group):
        def send(self, tensor: Any, to: int, phase: str) -> None:
            found.append(f"send {to}")
            super().send(tensor, to, phase)

        def receive(self, tensor: Any, source: int, phase: str) -> None:
            super().receive(tensor, source, phase)
            found.append(f"recv {source}")

    with group_of(here) as group:
        group.__class__ = Recording
        TwoRing(group).total(torch.ones(3), "test")
    return found


def counting(here: Here, cases: tuple[tuple[tuple[int, ...], bool], ...]) -> list[bool]:
    """What a rank finds, each case the processors by rank, and whether rank 1 is on loopback."""
    found: list[bool] = []
    with group_of(here) as group:
        for processors, loopback in cases:
            group.loopback = loopback or here.rank != 1
            with pytest.MonkeyPatch.context() as patch:
                own = set(range(processors[here.rank]))
                patch.setattr(os, "sched_getaffinity", lambda _, own=own: own)
                found.append(oversubscribed(group, "test"))
    return found


def one_after_the_other(here: Here) -> list[str]:
    """One exchange adds up values of any length and dtype; what went wrong."""
    wrong: list[str] = []
    with group_of(here) as group:
        exchange = Chunked(group, small=1 << 20)
        for length, dtype in (
            (3_000_003, torch.float32),  # buffers in memory of their own, in huge pages
            (50_000, torch.float32),
            (700_001, torch.int64),
            (5, torch.float64),
            (4_000_007, torch.float32),
        ):
            flat = (torch.arange(length) % 1000 + here.rank).to(dtype)
            exchange.total(flat, "test")
            rest = here.size * (here.size - 1) // 2
            if not torch.equal(flat, (torch.arange(length) % 1000 * here.size + rest).to(dtype)):
                wrong.append(f"{length} of {dtype}")
    return wrong


class Broadcast(Exchange):
    """Not a sum: all get what rank 1 has."""

    def total(self, flat: torch.Tensor, phase: str) -> None:
        self.group.broadcast(flat, 1, phase)


def broadcast(here: Here) -> Any:
    """What each rank has after a broadcast of rank 1's."""
    with group_of(here) as group:
        flat = torch.arange(1000) * group.rank
        group.broadcast(flat, 1, "test")
    return flat.tolist()


def until_it_fails(here: Here, exchange: str, size: int, timeout: float) -> Any:
    """Exchange for ever; the error of each rank that is left, and when it came."""
    began = time.monotonic()
    try:
        with group_of(here, timeout) as group:
            made = Broadcast(group) if exchange == BROADCAST else exchanges.make(exchange, group)
            flat = torch.zeros(size)
            made.total(flat, "first")
            here.say("running")
            number = 0
            while True:
                number += 1
                began = time.monotonic()
                made.total(flat, f"step {number}")
    except PeerError as error:
        return type(error).__name__, error.rank, error.phase, str(error), time.monotonic() - began


def trains(here: Here, *more: str, environment: dict[str, str] | None = None) -> Any:
    """`python -m fedtest.ring` on this rank: exit status, values, standard output and error."""
    os.environ.update(environment or {})
    own = ["--init-method", f"tcp://127.0.0.1:{here.port}", "--gloo_socket_ifname", "lo"]
    own += ["--rank", str(here.rank), "--world-size", str(here.size)]
    words = [word.replace("{rank}", str(here.rank)) for word in more]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([*(own if "--init-method" not in more else []), *words])
        except SystemExit as ended:
            status = int(ended.code or 0)
    found = dict(filter(None, map(fedtest_values.parse, out.getvalue().splitlines())))
    return status, found, out.getvalue(), err.getvalue()


class _Stopped(Exception):
    pass


def stops_after(here: Here, steps: int, *more: str) -> int:
    """The same, but every rank ends after so many steps, without another checkpoint."""
    from fedtest.ring.train import _Rank

    whole = _Rank._stepped

    def stepped(rank: _Rank) -> None:
        whole(rank)
        if rank.training.done == steps:
            raise _Stopped

    _Rank._stepped = stepped
    try:
        trains(here, *more)
    except _Stopped:
        return steps
    return 0


def dies_agreeing(here: Here, dying: int, *more: str) -> Any:
    """The same as `trains`; rank `dying` is gone before it tells the others what it has."""
    from fedtest.ring import agreement

    def dies(*_: object) -> None:
        raise _Stopped

    if here.rank != dying:
        return trains(here, *more)
    agreement.agree = dies
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with suppress(_Stopped):
        trains(here, *more)
    return None


def falls(here: Here, dying: int, ring: str, how: int, *more: str) -> Any:
    """The same as `trains`; rank `dying` gets a signal before it receives in the third step."""
    whole = Group.receive

    def receive(group: Group, tensor: Any, source: int, phase: str) -> None:
        if phase == f"epoch 1 step 3, {ring}":
            os.kill(os.getpid(), how)
        whole(group, tensor, source, phase)

    if here.rank == dying:
        Group.receive = receive
    return trains(here, *more)


def trains_as(here: Here, ranks: list[int], sizes: list[int], *more: str) -> Any:
    """The same; the processes claim these ranks and world sizes, each when it is told to."""
    rank, size = ranks[here.rank], sizes[here.rank]
    here.wait()
    return trains(here, *more, "--rank", str(rank), "--world-size", str(size))


def cannot_write(here: Here, failing: tuple[int, ...], *more: str) -> Any:
    """The same as `trains`; the ranks `failing` cannot write a checkpoint."""
    from fedtest.ring import checkpoint
    from fedtest.ring.errors import CheckpointError

    def write(*_: object) -> None:
        raise CheckpointError("no place to write to")

    if here.rank in failing:
        checkpoint.write = write
    return trains(here, *more)
