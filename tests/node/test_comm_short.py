"""The short form of a package: one message, which holds what three would."""

from __future__ import annotations

import pytest
import torch
from comm_cases import sample
from hypothesis import given
from hypothesis import strategies as st

from fedtest.comm import PackageError, outgoing, short, wire
from fedtest.comm.codes import DTYPES
from fedtest.comm.memory import Memory

MEMORY = Memory()
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def messages(tensors: list[torch.Tensor] | None, *, as_short: bool = True) -> list[torch.Tensor]:
    """What rank 3 sends to rank 5."""
    ready = outgoing.prepare(tensors, 2, strict=True, limit=1 << 30, memory=MEMORY)
    return ready.messages(3, 5, as_short=as_short)


def arrive(message: torch.Tensor) -> bytearray:
    """The memory for a first message, after this has come."""
    memory = short.memory()
    data = message.view(torch.uint8).numpy().tobytes()
    memory[: len(data)] = data
    return memory


@given(st.lists(shapes, min_size=1, max_size=8), st.sampled_from(DTYPES))
def test_it_holds_what_the_three_messages_hold(
    found: list[tuple[int, ...]], dtype: torch.dtype
) -> None:
    tensors = [sample(shape, dtype, seed) for seed, shape in enumerate(found)]
    header, slices, content = messages(tensors, as_short=False)
    (message,) = messages(tensors)
    memory = arrive(message)
    first = short.take(memory)
    assert list(first.header) == header.tolist()
    assert first.rest is not None
    both = slices.numpy().tobytes() + content.view(torch.uint8).numpy().tobytes()
    assert first.rest.startswith(both)
    assert len(first.rest) - len(both) < 4
    assert memory == short.memory()  # the next finds it as new


def test_a_header_alone_is_the_header_of_the_wire() -> None:
    for message in (messages(None)[0], messages([torch.ones(3)], as_short=False)[0]):
        memory = arrive(message)
        assert short.take(memory) == (wire.Header(*message.tolist()), None)
        assert memory == short.memory()


@pytest.mark.parametrize("over", [0, 1])
def test_what_does_not_fit_goes_out_as_three_messages(over: int) -> None:
    fits = short.MOST - short.size_of(3, 0) + over
    assert [message.numel() for message in messages([torch.zeros(fits, dtype=torch.int8)])] == (
        [5, 3, fits] if over else [short.MOST]
    )


def test_the_caller_s_tensor_is_copied() -> None:
    tensor = torch.ones(4)
    (message,) = messages([tensor])
    tensor.zero_()
    first = short.take(arrive(message))
    assert first.rest is not None
    assert torch.frombuffer(first.rest[12:], dtype=torch.float32).tolist() == [1, 1, 1, 1]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_whatever_comes_is_taken_whole_or_refused(data: bytes, size: int) -> None:
    """Also with a size and an end that agree."""
    memory = short.memory()
    memory[: len(data)] = data
    if size % 4 == 0 and size >= 24:
        memory[20:24] = size.to_bytes(4, "little")
        memory[size - 4 : size] = short.END.to_bytes(4, "little")
    try:
        short.take(memory)
    except PackageError:
        return
    assert memory == short.memory()
