"""Who is to blame, as ranks tell it each other over the connections of their own."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

import pytest

from fedtest.ring.watch import NOBODY, Blame, Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = 60.0


@pytest.fixture
def watches() -> Iterator[list[Watch]]:
    """Those of three ranks; a test closes all but the first."""
    links: list[dict[int, socket.socket]] = [{}, {}, {}]
    with ExitStack() as opened:
        for low, high in ((0, 1), (0, 2), (1, 2)):
            with socket.create_server(("127.0.0.1", 0)) as server:
                links[high][low] = socket.create_connection(server.getsockname())
                links[low][high] = server.accept()[0]
        found = [Watch(rank, links[rank], TIMEOUT) for rank in range(3)]
        opened.callback(found[0].close)
        yield found


def heard(watch: Watch, count: int) -> None:
    with watch._changed:
        assert watch._changed.wait_for(lambda: len(watch._ended) == count, 30)


@pytest.mark.parametrize("peer", [1, NOBODY])
def test_a_rank_that_was_done_is_not_called_silent(watches: list[Watch], peer: int) -> None:
    first, second, third = watches
    second.close()
    heard(first, 1)
    found = first.blame(peer, 5.0)
    assert (found.rank, found.silent) == (1, False)
    third.close()
    heard(first, 2)
    found = first.blame(peer, 0.2)
    assert (found.rank, found.silent) == (1, False)
    assert found.why.startswith("has ended")


@pytest.mark.parametrize("number", [errno.ETIMEDOUT, errno.EHOSTUNREACH])
def test_a_rank_whose_machine_no_longer_answers_is_silent_not_lost(
    watches: list[Watch], number: int
) -> None:
    """What the kernel says of it depends on whether it still knows the machine's address."""
    first, second, third = watches

    class CutOff:
        """A connection that the kernel has given up."""

        def recv(self, size: int) -> bytes:
            raise OSError(number, os.strerror(number))

    whole, first._links[1] = first._links[1], cast("socket.socket", CutOff())
    second.close()  # So that there is something to read.
    with first._changed:
        assert first._changed.wait_for(lambda: 1 in first._lost, 30)
    first._links[1] = whole
    assert first.blame(2, 0.2) == Blame(1, "was silent for 60 s", silent=True)
    third.close()


def test_a_rank_that_ended_for_its_own_reason_is_named_with_it(watches: list[Watch]) -> None:
    first, second, third = watches
    why = "has ended: CheckpointError: no space"
    second.close(Blame(1, why, silent=False))
    heard(third, 1)
    told = third.blame(0, 0.2)
    assert told == Blame(1, why, silent=False)
    third.close(told)
    heard(first, 2)
    assert first.blame(2, 0.2).rank == 1
