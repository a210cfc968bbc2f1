"""The short form of a package: one message, which holds what three would."""

from __future__ import annotations

import pytest
import torch
from comm_cases import sample
from hypothesis import given
from hypothesis import strategies as st

from fedtest.comm import PackageError, PeerLost, outgoing, short, wire
from fedtest.comm.arrivals import Arrivals
from fedtest.comm.codes import DTYPES
from fedtest.comm.memory import Memory
from fedtest.comm.rendezvous import Member

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
    came = bytes(memory)
    try:
        header, rest = short.take(memory)
    except PackageError:
        return
    assert memory == short.memory()
    assert list(header) == list(memoryview(came).cast("i")[:5])
    if rest is not None:
        whole = int.from_bytes(came[20:24], "little")
        assert rest == came[24 : whole - 4]


def test_a_package_that_has_come_is_delivered_though_its_sender_has_closed() -> None:
    """The receive of the next is posted before this one is handed over."""
    (message,) = messages([torch.ones(3)])
    closed = RuntimeError("Connection closed by peer")

    class Closing:
        """A group whose connection closes when a message has come."""

        def __init__(self) -> None:
            self.posted = 0

        def recv(self, buffers: list[torch.Tensor], peer: int, tag: int) -> Closing:
            assert (peer, tag) == (3, 0)
            self.posted += 1
            if self.posted > 1:
                raise closed
            buffers[0][: message.numel()] = message
            return self

        def wait(self, _: object) -> None:
            """It is there."""

    def explain(peer: int, error: Exception | None) -> PeerLost:
        assert error is closed
        return PeerLost("it has closed", peer, closed=True)

    arrivals = Arrivals(Closing(), 5, 6, limit=100, ahead=False, memory=MEMORY, explain=explain)
    arrivals.ahead = True  # but only rank 3 is read from
    arrivals._inboxes[3].start()
    assert arrivals.receive(3, 60).volume == 12
    with pytest.raises(PeerLost):
        arrivals.receive(3, 60)


def test_a_rank_that_does_not_say_what_it_takes_gets_three_messages() -> None:
    """One that had this library before it had the short form."""
    text = b'{"interface": null, "address": "10.0.0.1", "listens": null}'
    assert Member.parse(text).short == 0
