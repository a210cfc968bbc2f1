"""What the ranks of test_comm_*.py do, each a function of Here: a case."""

from __future__ import annotations

import hashlib
import threading
import warnings
from pathlib import Path
from typing import Any

import torch
from comm_ranks import Here, failure

from fedtest import comm
from fedtest.comm import MessageCode, Package, PackageProcessor, short

SHAPES: tuple[tuple[int, ...], ...] = (
    (), (1,), (0,), (7,), (3, 0), (2, 3), (2, 3, 4), (1, 2, 3, 4), (2, 1, 2, 1, 2),
)  # fmt: skip


def sample(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-100, 100, shape, generator=generator).to(dtype)


def digest(tensors: list[torch.Tensor] | None) -> str | None:
    """Values, dtypes and shapes."""
    if tensors is None:
        return None
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist()))
    return sha.hexdigest()


def contents() -> list[Any]:
    """Every dtype with every shape, alone and together; many; none."""
    found: list[Any] = [None]
    for number, dtype in enumerate(comm.DTYPES):
        found.append([sample(shape, dtype, number) for shape in SHAPES])
    found += [sample(shape, torch.float32, 1) for shape in SHAPES]
    found.append([sample((3,), torch.float64, i) for i in range(1000)])
    return found


def as_list(content: Any) -> list[torch.Tensor] | None:
    return [content] if isinstance(content, torch.Tensor) else content


def delivery(here: Here) -> Any:
    """Rank 0 sends everything to rank 1 and back again."""
    with here.network() as network:
        found = []
        for number, content in enumerate(contents()):
            code = number % 7
            if here.rank == 0:
                network.send(content, code, dst=1)
                sender, got, tensors = network.recv(src=1)
                found.append((sender, got.value, digest(tensors) == digest(as_list(content)), code))
            else:
                sender, got, tensors = network.recv()
                network.send(tensors, got)
        return found, network.send_volume_intotal, network.recv_volume_intotal, network.interface


def large(here: Here, elements: int, parts: int) -> Any:
    """One large content, in `parts` tensors; contents compared by hash."""
    with here.network() as network:
        if here.rank == 0:
            tensors = list(torch.arange(elements, dtype=torch.int32).chunk(parts))
            network.send(tensors, MessageCode.ParameterUpdate, dst=1)
            return digest([torch.cat(tensors)[:1000]])
        _, _, tensors = network.recv(src=0)
        same = torch.equal(torch.cat(tensors), torch.arange(elements, dtype=torch.int32))
        assert same
        return len(tensors)


def memory(here: Here, elements: int, parts: int) -> Any:
    """The most memory that one large package needed, in its own size; the caller's not counted."""
    with here.network() as network:
        content = list(torch.ones(elements).chunk(parts)) if here.rank == 0 else None
        network.send(torch.ones(1 << 19), dst=1 - here.rank) if here.rank == 0 else network.recv(0)
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        got = network.send(content, dst=1) if content else network.recv(0)
        used = resident("VmHWM") - before
        del got
        return used / (4 * elements)


def resident(kind: str) -> int:
    """Bytes: VmRSS those now, VmHWM the most since /proc/self/clear_refs was told so."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition(f"{kind}:")[2].split()[0]) * 1024


def any_source(here: Here, packages: int) -> Any:
    """All others send to rank 0 at once; it takes from anybody."""
    with here.network() as network:
        if here.rank:
            for number in range(packages):
                numbers = torch.tensor([here.rank, number] + [here.rank] * (number % 17))
                network.send([numbers, torch.full((number % 5, 2), here.rank)], 6)
            return None
        counts = dict.fromkeys(range(1, here.size), 0)
        for _ in range(packages * (here.size - 1)):
            sender, code, (numbers, other) = network.recv()
            number = counts[sender]
            assert code is MessageCode.Activation
            assert numbers.tolist() == [sender, number] + [sender] * (number % 17)
            assert other.tolist() == [[sender, sender]] * (number % 5)
            counts[sender] += 1
        return counts


def broadcast(here: Here) -> Any:
    with here.network() as network:
        mine = torch.full((3,), here.rank, dtype=torch.int16)
        if here.rank == 0:
            network.broadcast_send([torch.arange(4), torch.arange(2)], 1)
            network.broadcast_send(torch.zeros(1 << 19), 2, dst=[0, 2, 1])
            network.broadcast_send(torch.zeros(9), 2, dst=[1, 2], count=False)
            ranks, codes, contents = network.broadcast_recv()
            again = network.broadcast_recv(src=[2, 0, 1], count=False)
            wrong = failure(lambda: network.broadcast_send(mine, 0, dst=["1"]))
            return (
                (ranks, [code.value for code in codes], [c[0].tolist() for c in contents]),
                again[0],
                wrong["kind"],
                network.send_volume_intotal,
                network.recv_volume_intotal,
            )
        first = network.recv(0)
        second = network.recv(0)
        network.recv(0, count=False)
        network.send(mine, here.rank)
        network.send(mine, here.rank, count=False)
        return (
            [t.tolist() for t in first[2]],
            second[2][0].numel(),
            network.send_volume_intotal,
            network.recv_volume_intotal,
        )


def threads(here: Here, packages: int) -> Any:
    """Two senders and a receiver on each of two ranks."""
    with here.network() as network:
        other = 1 - here.rank
        failures: list[BaseException] = []

        def send(kind: int) -> None:
            try:
                for number in range(packages):
                    size = 300_000 if number % 50 == 7 else number % 9
                    network.send([torch.tensor([kind, number]), torch.full((size,), kind)], kind)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        senders = [threading.Thread(target=send, args=(kind,)) for kind in (1, 2)]
        if here.rank == 1:
            senders[0].start()
            senders[1].start()
        else:
            send_back = threading.Thread(
                target=lambda: [network.send(torch.zeros(3), 3, dst=1) for _ in range(packages)]
            )
            send_back.start()
        counts = {1: 0, 2: 0, 3: 0}
        for _ in range(2 * packages if here.rank == 0 else packages):
            _, code, tensors = network.recv(other)
            if here.rank == 0:
                assert tensors[0].tolist() == [code.value, counts[code.value]]
                assert bool((tensors[1] == code.value).all())
            counts[code.value] += 1
        for sender in senders if here.rank else [send_back]:
            sender.join()
        assert not failures, failures
        return counts


def two_receives(here: Here) -> Any:
    with here.network() as network:
        if here.rank:
            network.recv(0)
            network.send(dst=0)
            return None
        thread = threading.Thread(target=network.recv)
        thread.start()
        found = []
        while not found or found[-1]["kind"] == "TransferTimeout":  # until the thread is there
            found.append(failure(lambda: network.recv(1, timeout=0.01)))
        network.send(dst=1)
        thread.join()
        return found[-1]


def both_send_first(here: Here, elements: int) -> Any:
    network = here.network()
    network.init_network_connection()
    other = 1 - here.rank
    sent = failure(lambda: network.send(torch.zeros(elements), 1, dst=other, timeout=1.0))
    _, _, content = network.recv(other)
    network.close_network_connection()
    return sent, content[0].numel()


def recv_times_out(here: Here) -> Any:
    """A time-out loses nothing."""
    with here.network() as network:
        if here.rank == 0:
            early = [
                failure(lambda: network.recv(1, timeout=0.1)),
                failure(lambda: network.recv(timeout=0.1)),
            ]
            network.send(dst=1)
            _, _, content = network.recv()
            return early, content[0].tolist()
        network.recv(0)
        network.send(torch.arange(3))
        return None


def strict(here: Here) -> Any:
    with here.network(strict=True) as network:
        if here.rank:
            return network.recv(0)[2][0].tolist()
        refused = failure(lambda: network.send([torch.tensor([1]), torch.tensor([0.25])], 1, dst=1))
        network.send([torch.tensor([1.0]), torch.tensor([2], dtype=torch.int8)], 1, dst=1)
        return refused


def refusals(here: Here) -> Any:
    """Nothing of what is refused reaches the other: it gets the one package that is sent."""
    with here.network(max_package_bytes=1 << 16) as network:
        if here.rank:
            return network.recv(0)[2][0].tolist()
        zeros = torch.zeros
        trials: list[tuple[Any, Any, int]] = [
            ("text", 0, 1),
            ([zeros(1), "text"], 0, 1),
            ({"a": zeros(1)}, 0, 1),
            (zeros(1, dtype=torch.bool), 0, 1),
            (zeros(1).to_sparse(), 0, 1),
            (torch.empty(1, device="meta"), 0, 1),
            (torch.quantize_per_tensor(zeros(1), 1.0, 0, torch.qint8), 0, 1),
            (zeros(1), 7, 1),
            (zeros(1), -1, 1),
            (zeros(1), "Exit", 1),
            (zeros(1 << 15), 0, 1),
            ([zeros(1)] * (1 << 21), 0, 1),
            (zeros([1] * 65), 0, 1),
            (torch.empty(1 << 31, 0), 0, 1),
            (zeros(1), 0, 0),
            (zeros(1), 0, 2),
            (zeros(1), 0, -1),
        ]
        package = Package(content=zeros(3))
        package.slices = [4, 1, 4]
        kinds = [failure(lambda t=t: network.send(*t))["kind"] for t in trials]
        kinds.append(failure(lambda: PackageProcessor.send_package(package, 1))["kind"])
        package.slices = [3, 1, 3]
        package.header[3] = 9
        kinds.append(failure(lambda: PackageProcessor.send_package(package, 1))["kind"])
        package.header[3] = 4
        PackageProcessor.send_package(package, 1)
        return kinds


def odd_tensors(here: Here) -> Any:
    """Tensors that are not one piece of memory in order arrive with the values that they show."""
    base = torch.arange(24, dtype=torch.float32)
    odd = [
        base[::2],
        base.view(4, 6).t(),
        torch.tensor([1.5]).expand(3, 2),
        base.view(2, 3, 4).permute(2, 0, 1)[1:],
        torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
        torch.nn.Parameter(base.clone()),
        base.clone().requires_grad_() * 2,
        base.flip(0),
    ]
    with here.network() as network, warnings.catch_warnings():
        warnings.simplefilter("error")
        if here.rank:
            for tensor in odd:
                _, _, (got,) = network.recv(0)
                assert torch.equal(got, tensor.detach().resolve_neg()), tensor
                assert not got.requires_grad
            _, _, got = network.recv(0)
            return [torch.equal(a, b.detach().resolve_neg()) for a, b in zip(got, odd, strict=True)]
        before = [tensor.detach().clone() for tensor in odd]
        for tensor in odd:
            network.send(tensor, dst=1)
        network.send(tuple(odd), dst=1)
        return [
            torch.equal(tensor.detach().resolve_neg(), kept.resolve_neg())
            for tensor, kept in zip(odd, before, strict=True)
        ] + [odd[5].requires_grad, odd[6].requires_grad]


def sent_tensor_may_change(here: Here) -> Any:
    """A small send is under way when it returns; the tensor may change then."""
    with here.network() as network:
        if here.rank == 0:
            for _ in range(70):  # more than are read ahead
                network.send(dst=1)
            tensor = torch.ones(100_000)
            network.send(tensor, dst=1)
            tensor.zero_()
            network.send(dst=1)
            return None
        here.wait()
        return [network.recv(0) for _ in range(71)][-1][2][0].sum().item()


def reopened(here: Here) -> Any:
    """A network can be opened again; closing an old one does nothing to another."""
    first = here.network()
    found = [failure(lambda: first.send(dst=0))["kind"], failure(first.recv)["kind"]]
    first.init_network_connection()
    second = here.network()
    found.append(failure(second.init_network_connection)["kind"])
    second.close_network_connection()
    first.send(dst=1 - here.rank)
    first.recv()
    first.close_network_connection()
    first.close_network_connection()
    found.append(failure(lambda: first.send(dst=0))["text"])
    here.say("closed")
    port = here.wait()
    here.port = port
    with here.network() as third:
        first.close_network_connection()
        third.send(torch.ones(1), dst=1 - here.rank)
        found.append(third.recv()[2][0].item())
    return found


def messages_of(here: Here, knows: bool) -> Any:
    """How many messages packages make: small, too large, none; rank 1 `knows` the short form."""
    if here.rank == 1 and not knows:
        short.EXACT = True
    with here.network() as network:
        if here.rank == 1:
            return [network.recv(0)[2] is not None for _ in range(3)]
        outbox = network._endpoint._outbox(1)
        sent: list[int] = []

        class Counting:
            """Gloo's group."""

            def __init__(self, group: Any) -> None:
                self.group = group

            def send(self, *what: Any) -> Any:
                sent[-1] += 1
                return self.group.send(*what)

        outbox._group = Counting(outbox._group)
        for content in (torch.ones(3), torch.zeros(short.MOST, dtype=torch.int8), None):
            sent.append(0)
            network.send(content, dst=1)
        return sent
