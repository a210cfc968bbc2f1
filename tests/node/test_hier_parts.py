"""What middle servers are made of: FedLab's names, and the queue between two sides."""

import gc
import inspect
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hier_cases import nothing_left

from fedtest import comm
from fedtest.comm import MessageCode, hierarchical, tensors
from fedtest.comm.hierarchical import MessageQueue


def test_names_bases_and_arguments_are_fedlabs() -> None:
    process = torch.multiprocessing.Process
    connector = ["network", "write_queue", "read_queue"]
    for kind, arguments in (
        (hierarchical.Scheduler, ["net_upper", "net_lower"]),
        (hierarchical.ClientConnector, connector),
        (hierarchical.ServerConnector, connector),
    ):
        assert issubclass(kind, process)
        assert list(inspect.signature(kind).parameters)[: len(arguments)] == arguments
    for side in (hierarchical.ClientConnector, hierarchical.ServerConnector):
        assert issubclass(side, hierarchical.Connector)
        taken = list(inspect.signature(side.on_receive).parameters)
        assert taken == ["self", "sender", "message_code", "payload"]
        assert list(inspect.signature(side.deal_queue).parameters) == ["self"]


def test_tensors_of_a_package_are_sent_from_where_they_are() -> None:
    whole = torch.rand(20)
    parts = [whole[2:5], whole[5:11].view(2, 3), whole[11:11], whole[11:20]]
    found = tensors.joined(parts)
    assert found is not None
    assert found.data_ptr() == parts[0].data_ptr()
    assert torch.equal(found, whole[2:])
    assert tensors.joined([parts[1], parts[0]]) is None
    assert tensors.joined([parts[0], torch.rand(3)]) is None
    assert tensors.joined([whole.view(4, 5).t()[:1], whole[4:]]) is None


# The queue.


@pytest.fixture
def between() -> Iterator[MessageQueue]:
    made = MessageQueue(items=4, limit=1 << 20)
    yield made
    made.close()


@pytest.mark.parametrize("elements", [0, 1, 1000, 50_000, 300_000])
@pytest.mark.parametrize("shared", [True, False])
def test_a_message_arrives_whole(between: MessageQueue, elements: int, shared: bool) -> None:
    make = between.empty if shared else lambda size, dtype: torch.empty(size, dtype=dtype)
    payload = [make(elements, torch.float32).fill_(2), torch.tensor(7), torch.zeros(2, 0, 3)]
    payload.append(torch.arange(6).view(2, 3).t())
    between.put((3, MessageCode.SetUp, payload))
    sender, code, got = between.get(timeout=5)
    assert (sender, code) == (3, MessageCode.SetUp)
    assert [(g.dtype, g.shape) for g in got] == [(p.dtype, p.shape) for p in payload]
    assert all(torch.equal(g, p) for g, p in zip(got, payload, strict=True))
    got[0] += 1  # it can be written to


@pytest.mark.parametrize("dtype", comm.DTYPES)
@pytest.mark.parametrize("sender", [None, 0, 70_000])
def test_a_small_message_crosses_in_one_piece(
    between: MessageQueue, dtype: torch.dtype, sender: int | None
) -> None:
    whole = torch.arange(24).to(dtype)
    payload = [
        whole[3],
        whole[4:4],
        torch.zeros(2, 0, 3, dtype=dtype),
        whole.view(2, 3, 4),
        whole.view(6, 4).t(),
        whole[5:],
    ]
    for content in (payload, payload[2:3], None):
        between.put((sender, MessageCode.ParameterUpdate, content))
    for content in (payload, payload[2:3], None):
        who, code, got = between.get(timeout=5)
        assert (who, code) == (sender, MessageCode.ParameterUpdate)
        assert (got is None) == (content is None)
        for one, other in zip(got or (), content or (), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert torch.equal(one, other)
            one.add_(1)  # it is nobody else's
    assert torch.equal(whole, torch.arange(24).to(dtype))


@pytest.mark.parametrize(
    "item",
    [
        "a word",
        (1, MessageCode.Exit),
        (1, "Exit", None),
        (True, MessageCode.Exit, None),
        (-1, MessageCode.Exit, None),
        (1, MessageCode.Exit, []),
        (1, MessageCode.Exit, (torch.ones(1),)),
        (1, MessageCode.Exit, [torch.ones(1), torch.ones(1).int()]),
        (1, MessageCode.Exit, [torch.ones(1).bool()]),
        (1, MessageCode.Exit, [torch.zeros(0, 1 << 40)]),
        (1, MessageCode.Exit, [torch.ones(1)] * 200),
        (1, MessageCode.Exit, [1.5]),
    ],
)
def test_whatever_else_is_put_arrives_as_it_was(between: MessageQueue, item: object) -> None:
    between.put(item)
    assert repr(between.get(timeout=5)) == repr(item)


def test_what_lies_in_shared_memory_is_not_copied(between: MessageQueue) -> None:
    tensor = between.empty(100_000, torch.float32).fill_(1)
    between.put([tensor[10:20], tensor])
    part, whole = between.get(timeout=5)
    tensor[15] = 9
    assert part[5] == whole[15] == 9


def test_memory_is_used_again_when_nobody_sees_it_on_either_side(between: MessageQueue) -> None:
    addresses = set()
    for _ in range(20):
        tensor = between.empty(100_000, torch.float32)
        addresses.add(tensor.data_ptr())
        between.put(tensor)
        del tensor
        got = between.get(timeout=5)
        del got
    assert len(addresses) == 1
    kept = []
    for number in range(5):  # what is held stays as it is
        between.put(between.empty(100_000, torch.float32).fill_(number))
        kept.append(between.get(timeout=5))
    assert [int(each[0]) for each in kept] == [0, 1, 2, 3, 4]


def test_it_holds_so_many_messages_and_so_many_bytes(between: MessageQueue) -> None:
    for number in range(4):
        between.put_nowait(number)
    with pytest.raises(queue.Full):
        between.put(4, timeout=0.01)
    assert [between.get_nowait() for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(queue.Empty):
        between.get(timeout=0.01)
    between.put(torch.zeros(1 << 19))  # larger than the limit, but alone
    with pytest.raises(queue.Full):
        between.put(torch.zeros(1), timeout=0.01)
    assert between.get().numel() == 1 << 19
    between.put(torch.zeros(1))


def test_who_gets_waits_no_longer_than_it_has_said_though_another_thread_waits_too(
    between: MessageQueue,
) -> None:
    got: list[object] = []
    waits = threading.Thread(daemon=True, target=lambda: got.append(between.get(timeout=60)))
    waits.start()
    deadline = time.monotonic() + 60
    while not between._getting.locked():  # so it waits
        assert time.monotonic() < deadline
    began = time.monotonic()
    for each in ({"block": False}, {"timeout": 0.1}):
        with pytest.raises(queue.Empty):
            between.get(**each)
    assert time.monotonic() - began < 30
    between.put("a word")
    waits.join(60)
    assert got == ["a word"]


def test_who_waits_for_room_goes_on_when_there_is(between: MessageQueue) -> None:
    def put() -> None:
        for number in range(200):
            between.put((number, torch.full((20_000,), number)), timeout=30)

    thread = threading.Thread(daemon=True, target=put)
    thread.start()
    for number in range(200):
        got, tensor = between.get(timeout=30)
        assert got == number == tensor[-1]
    thread.join()


def _other(to: MessageQueue, back: MessageQueue, how: str) -> None:
    torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
    to.only_get()
    back.only_put()
    tensor = to.get(timeout=60)
    back.put(tensor + 1)
    if how == "killed":
        os.kill(os.getpid(), 9)
    back.put("last")
    back.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("how", ["closes", "killed"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_end_of_the_other_process_is_noticed_after_its_last_message(
    method: str, how: str
) -> None:
    before = set(Path("/dev/shm").iterdir())
    to, back = MessageQueue(), MessageQueue()
    context = multiprocessing.get_context(method)
    process = context.Process(target=_other, args=(to, back, how))
    process.start()
    to.only_put()
    back.only_get()
    large = to.empty(1_000_000, torch.float64).fill_(1)
    to.put(large)
    got = back.get(timeout=60)
    assert got.unique().tolist() == [2.0]
    if how == "closes":
        assert back.get(timeout=60) == "last"
    with pytest.raises(EOFError):
        back.get(timeout=60)
    process.join(60)
    with pytest.raises(BrokenPipeError):
        to.put("more")
    assert process.exitcode == (-9 if how == "killed" else 0)
    del got, large
    gc.collect()
    nothing_left(before)  # it has no name
    to.close()
    back.close()


def _stops(to: MessageQueue, back: MessageQueue) -> None:
    """Takes a large tensor, stands still, and takes the rest when it goes on."""
    torch.set_num_threads(1)
    to.only_get()
    back.only_put()
    to.get(timeout=60)
    before = _mapped()
    os.kill(os.getpid(), signal.SIGSTOP)
    got = [to.get(timeout=60)]
    while got[-1] != "last":
        got.append(to.get(timeout=60))
    back.put((len(got), before - _mapped()))


def _mapped() -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count("memfd:fedtest.comm")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_who_puts_waits_no_longer_than_it_has_said_though_the_other_process_stands_still() -> None:
    to, back = MessageQueue(items=100_000, limit=1 << 20), MessageQueue()
    process = multiprocessing.get_context("fork").Process(target=_stops, args=(to, back))
    process.start()
    to.only_put()
    back.only_get()
    assert process.pid is not None
    try:
        to.put(to.empty(1 << 20, torch.int8))
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        large = to.empty(1 << 21, torch.int8)  # what was taken is dropped, and that is to be told
        put = 0
        with suppress(queue.Full):
            while True:
                to.put_nowait((put, MessageCode.Exit, None))
                put += 1
        began = time.monotonic()
        with pytest.raises(queue.Full):
            to.put("a word", timeout=0.3)
        waits = threading.Thread(daemon=True, target=to.put, args=("a word", True, 60))
        waits.start()
        with pytest.raises(queue.Full):
            to.put("another", timeout=0.3)
        assert time.monotonic() - began < 60  # what the other one waits for
        os.kill(process.pid, signal.SIGCONT)
        waits.join(60)
        to.put("last", timeout=60)
        assert back.get(timeout=60) == (put + 2, 1)
        process.join(60)
        del large
    finally:
        process.kill()
        process.join()
        to.close()
        back.close()
