"""One rank of two that send each other the same packages: `exchange.py fedtest|fedlab ...`.

Everything is said with what the two libraries have in common: rank 0 sends a
package and receives the same one from rank 1, each compares what has come with
what was due. Reports how many there were, how many bytes, and their SHA-256.
"""

# ruff: noqa: INP001, PLC0415 - a script; which library is imported is its argument
from __future__ import annotations

import argparse
import hashlib
import math
import sys

import torch

from fedtest import values

DTYPES = (
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
)
SHAPES = ((), (1,), (0,), (5,), (3, 4), (2, 3, 4), (2, 1, 3, 2), (1, 2, 3, 2, 2), (2, 0, 3))
LARGE = 25_000_000  # elements of float32: 100 MB


def packages() -> list[tuple[int, list[torch.Tensor] | None]]:
    """Message codes and contents, the same on both sides."""

    def tensor(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return (torch.arange(math.prod(shape)) % 201 - 100).to(dtype).view(shape)

    found: list[list[torch.Tensor] | None] = [None]
    for dtype in DTYPES:
        found += [[tensor(shape, dtype)] for shape in SHAPES]
        found.append([tensor(shape, dtype) for shape in SHAPES])
    found.append([tensor((number % 7,), torch.float32) for number in range(1000)])
    found.append([tensor((LARGE,), torch.float32)])
    return [(number % 7, content) for number, content in enumerate(found)]


def digest(code: int, content: list[torch.Tensor] | None) -> bytes:
    sha = hashlib.sha256(str(code).encode())
    for tensor in content or ():
        sha.update(f"{tensor.dtype} {list(tensor.shape)}".encode())
        sha.update(tensor.numpy().tobytes())
    return sha.digest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("library", choices=("fedtest", "fedlab"))
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ethernet", required=True)
    arguments = parser.parse_args()
    if arguments.library == "fedlab":
        try:
            from fedlab.core.network import DistNetwork
            from fedlab.utils.message_code import MessageCode
        except ImportError as error:
            sys.exit(f"FedLab is not installed here ({error}): pip install fedlab")
    else:
        from fedtest.comm import DistNetwork, MessageCode

    # It is there, so the other rank will not wait in vain.
    values.report("library", arguments.library)
    network = DistNetwork((arguments.host, arguments.port), 2, arguments.rank, arguments.ethernet)
    network.init_network_connection()
    other = 1 - arguments.rank
    sha = hashlib.sha256()
    count = size = wrong = 0
    for code, content in packages():
        if arguments.rank == 0:
            network.send(content, MessageCode(code), dst=other)
        sender, got, tensors = network.recv(src=other)
        if arguments.rank == 1:
            network.send(content, MessageCode(code), dst=other)
        came = digest(got.value, tensors)
        if sender != other or came != digest(code, content):
            wrong += 1
            shapes = [tuple(tensor.shape) for tensor in content or ()]
            print(f"package {count} of {shapes} came as something else")  # noqa: T201
        sha.update(came)
        count += 1
        size += sum(tensor.numel() * tensor.element_size() for tensor in tensors or ())
    network.close_network_connection()
    values.report("packages", count)
    values.report("bytes", size)
    values.report("sha256", sha.hexdigest())
    values.report("wrong", wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
