"""What torchrun starts: a plain torch script, which knows nothing of fedtest.

Its ranks average a tensor a few times. One rank of each host reports what came
of it: a line on standard output, and the testbed reads it.
"""

# ruff: noqa: INP001 - a script, not a package
import json
import os
import sys

import torch
from torch import distributed as dist

ELEMENTS = 1 << 20  # 4 MiB
ROUNDS = 10


def report(name: str, value: float) -> None:
    # In one piece: the ranks of a host share its output.
    sys.stdout.write(f"fedtest-value {json.dumps({'name': name, 'value': value})}\n")
    sys.stdout.flush()


def main() -> None:
    dist.init_process_group("gloo")  # where and as which rank: torchrun's variables say
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.full((ELEMENTS,), float(rank))
    for step in range(ROUNDS):
        tensor += step * rank
        dist.all_reduce(tensor)
        tensor /= size
    if os.environ["LOCAL_RANK"] == "0":
        report("world_size", size)
        report("average", tensor.mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
