"""Ids on the wire, and which rank stands for which clients."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtest import comm
from fedtest.comm import ArgumentError, IdError, MessageCode, tensors
from fedtest.comm.hierarchical import Coordinator, put_ids, send_to, take_ids
from fedtest.comm.hierarchical.ids import decode, encode, plain_limit

DTYPES = st.sampled_from(comm.DTYPES)
IDS = st.lists(
    st.integers(0, 2**63 - 1)
    | st.sampled_from([0, 127, 128, 2047, 2048, 2049, 32768, 2**24 + 1, 2**31, 2**53 + 1])
)


@given(IDS, DTYPES)
def test_ids_come_back_as_they_were_whatever_the_dtype(ids: list[int], dtype: torch.dtype) -> None:
    payload = torch.tensor([1, 2]).to(dtype)
    content = put_ids(ids, payload)
    assert all(each.dtype is dtype for each in content)
    flat = tensors.flat(content, dtype, strict=True)  # as it crosses the wire
    first = flat[: content[0].numel()].view(content[0].shape)
    assert take_ids([first, payload]) == (ids, [payload])


@pytest.mark.parametrize("dtype", comm.DTYPES)
def test_plain_ids_are_fedlabs_and_end_before_the_first_that_could_be_another(
    dtype: torch.dtype,
) -> None:
    limit = plain_limit(dtype)
    last = encode([0, limit - 1], dtype)
    assert last.shape == (2,)
    assert [int(each) for each in last] == [0, limit - 1]
    if limit < 2**63:
        assert encode([limit], dtype).dim() == 2


@pytest.mark.parametrize(
    ("tensor", "most"),
    [
        (torch.tensor([2049.0]).half(), 0),  # 2,048 by now
        (torch.tensor([0.5]), 0),
        (torch.tensor([-1]), 0),
        (torch.tensor([float("nan")]), 0),
        (torch.tensor([float("inf")]), 0),
        (torch.tensor([300]).to(torch.int8), 300),  # 44 by now
        (torch.tensor([[1.0, 2.0, 3.0]]), 0),
        (torch.tensor(1), 0),
    ],
)
def test_what_are_no_ids_or_may_have_been_others_is_refused(
    tensor: torch.Tensor, most: int
) -> None:
    with pytest.raises(IdError):
        decode(tensor, most=most)


@pytest.mark.parametrize("wrong", [[-1], [2**63]])
def test_what_can_be_no_id_is_not_sent(wrong: list[int]) -> None:
    with pytest.raises(IdError, match="is no id"):
        encode(wrong, torch.float32)


@pytest.mark.parametrize("wrong", [[1.5], ["1"], [None], ["x"], torch.tensor([0.5]), 3, None])
def test_what_is_no_list_of_whole_numbers_is_an_error_and_not_another_client(wrong: Any) -> None:
    with pytest.raises(IdError, match="whole numbers"):
        put_ids(wrong)


@pytest.mark.parametrize("ids", [torch.tensor([2, 1]), (each for each in (2, 1)), [True + 1, 1]])
def test_ids_may_be_any_whole_numbers(ids: Any) -> None:
    assert take_ids(put_ids(ids, torch.ones(1))) == ([2, 1], [torch.ones(1)])


def test_a_coordinator_knows_no_part_of_a_client_and_no_stranger() -> None:
    coordinator = Coordinator({1: 2, 2: 3})
    for ask in (
        lambda: coordinator.map_id(1.5),  # type: ignore[arg-type]
        lambda: coordinator.map_id("1"),  # type: ignore[arg-type]
        lambda: coordinator.ids(9),
        lambda: coordinator.id_of(9, 0),
    ):
        with pytest.raises(IdError):
            ask()
    with pytest.raises(ArgumentError):
        Coordinator({1: 2}, first="a")  # type: ignore[arg-type]


def test_an_id_that_fedlab_could_not_be_told_exactly_is_not_sent_to_it() -> None:
    network = comm.DistNetwork(("127.0.0.1", 1), 2, 0)  # nobody there has this library
    payload = torch.ones(3).half()
    with pytest.raises(IdError, match=r"id 2049 for rank 1: float16.*cannot hold it exactly"):
        send_to(network, [7, 2049], payload, MessageCode.ParameterUpdate, 1)
    with pytest.raises(comm.NotConnected):  # so it would be sent
        send_to(network, [7, 2047], payload, MessageCode.ParameterUpdate, 1)


def test_a_coordinator_maps_ids_to_ranks_and_their_own() -> None:
    coordinator = Coordinator({1: 10, 2: 0, 3: 5})
    assert coordinator.total == 15
    assert coordinator.map_id(9) == (1, 9)
    assert coordinator.map_id(10) == (3, 0)
    assert coordinator.map_id_list([12, 0, 3, 14]) == {3: [2, 4], 1: [0, 3]}
    assert coordinator(12) == (3, 2)
    assert coordinator([12]) == {3: [2]}
    assert coordinator.id_of(3, 2) == 12
    coordinator.switch()
    assert coordinator.mode == "GLOBAL"
    assert coordinator.map_id(12) == (3, 12)
    assert coordinator.id_of(3, 12) == 12
    assert list(coordinator.ids(2)) == []
    coordinator.switch()
    assert coordinator.map_id(12) == (3, 2)


def test_a_coordinator_below_one_with_global_ids_begins_where_it_is_told() -> None:
    coordinator = Coordinator({1: 2, 2: 2}, "GLOBAL", first=40)
    assert coordinator.map_id_list([40, 43]) == {1: [40], 2: [43]}
    assert coordinator.ids() == range(40, 44)
    for outside in (39, 44, 0):
        with pytest.raises(IdError, match="rank 1: 40 to 41, rank 2: 42 to 43"):
            coordinator.map_id(outside)
    with pytest.raises(comm.ArgumentError, match="LOCAL and GLOBAL"):
        Coordinator({}, "local")
    with pytest.raises(IdError):
        coordinator.id_of(1, 42)
