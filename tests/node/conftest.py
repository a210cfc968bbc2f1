"""What the tests of the torch side share: ranks as processes, free ports, a small MNIST."""

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from comm_ranks import Ranks
from ranks import Start

from foreground import (  # noqa: F401 - fixtures of each test
    no_ci_system_reads_the_output,
    signals_of_a_foreground_job,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is free and stays reserved for this test.

    Bound but not listening, with SO_REUSEADDR as torch's store sets it: the
    store may listen there, and no other test is given the same.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield holder.getsockname()[1]


other_port = port  # a second one


@pytest.fixture
def ports() -> Iterator[Callable[[int], list[int]]]:
    """So many of them."""
    with ExitStack() as holders:

        def free(count: int) -> list[int]:
            found = []
            for _ in range(count):
                holder = holders.enter_context(socket.socket())
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                holder.bind(("", 0))
                found.append(holder.getsockname()[1])
            return found

        yield free


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a Python process from arguments; it is gone when the test ends."""
    started: list[subprocess.Popen[str]] = []
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"GLOO_SOCKET_IFNAME", "USE_LIBUV"}
    }
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}

    def run(arguments: Sequence[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it started
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _idx(path: Path, shape: Sequence[int], values: bytes) -> None:
    header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    path.write_bytes(header + values)


@pytest.fixture
def small_mnist(tmp_path: Path) -> Path:
    """Something in MNIST's format: 203 and 50 images, bright where the digit is."""
    raw = tmp_path / "small" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, count in (("train", 203), ("t10k", 50)):
        digits = bytes(number % 10 for number in range(count))
        images = bytearray()
        for digit in digits:
            image = bytearray(784)
            image[digit * 78 : digit * 78 + 78] = b"\xff" * 78
            images += image
        _idx(raw / f"{name}-images-idx3-ubyte", (count, 28, 28), bytes(images))
        _idx(raw / f"{name}-labels-idx1-ubyte", (count,), digits)
    return tmp_path / "small"


@pytest.fixture
def real_mnist() -> Path:
    """The directory that holds the real MNIST, or the test is skipped."""
    for place in filter(None, (os.environ.get("FEDTEST_MNIST"), "/data")):
        if (Path(place) / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
            return Path(place)
    pytest.skip("no MNIST: set FEDTEST_MNIST to a directory with MNIST/raw/")


@pytest.fixture
def few_mnist(real_mnist: Path, tmp_path: Path) -> Path:
    """The first 4,000 and 1,000 images of the real MNIST."""
    raw = tmp_path / "few" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, count in (("train", 4000), ("t10k", 1000)):
        for kind, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            source = real_mnist / "MNIST" / "raw" / f"{name}-{kind}-ubyte"
            size = count * (784 if len(shape) == 3 else 1)
            head = 4 + 4 * len(shape)
            with source.open("rb") as file:
                values = file.read(head + size)[head:]
            _idx(raw / source.name, shape, values)
    return tmp_path / "few"


@pytest.fixture
def ranks(port: int) -> Iterator[Callable[..., Ranks]]:
    """Start `case` on so many ranks: `ranks(case, 2, *arguments)`; they are gone afterwards."""
    started: list[Ranks] = []

    def run(
        case: Callable[..., object], size: int, *arguments: object, **environment: str
    ) -> Ranks:
        started.append(Ranks(case, size, port, *arguments, **environment))
        return started[-1]

    yield run
    for each in started:
        each.end()
