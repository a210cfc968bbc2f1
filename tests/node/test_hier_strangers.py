"""Middle servers next to somebody who knows ids only as numbers: never a wrong one."""

from collections.abc import Callable

import hier_strangers as strangers
import pytest
import torch
from comm_ranks import Ranks
from hier_strangers import CLIENTS

Run = Callable[..., Ranks]


@pytest.mark.parametrize(
    ("told", "dtype", "said"),
    [
        (2049, torch.float16, "id 2048 does not fit into float16"),
        (5, torch.int8, f"id {CLIENTS - 1} does not fit into int8"),  # it may have been 261
    ],
)
def test_an_id_from_above_that_may_have_been_another_goes_to_nobody(
    ranks: Run, other_port: int, told: int, dtype: torch.dtype, said: str
) -> None:
    top, middle, client = ranks(strangers.above, 3, other_port, told, dtype).results()
    assert top == ("SetUp", [CLIENTS])
    assert middle["upper"].startswith(f"IdError: {said}")
    assert [(code, ids) for code, ids, _ in client] == [("Exit", [])]


def test_an_id_that_a_client_could_not_read_is_not_sent_to_it(ranks: Run, other_port: int) -> None:
    running = ranks(strangers.below, 3, other_port, 2049, torch.float16)
    top, middle, client = running.results()
    assert top == (CLIENTS, "Exit", CLIENTS)
    assert middle["lower"].startswith("IdError: id 2049 for rank 1: float16")
    assert client == ("Exit", None)
