"""Warm starts with torch. Needs no engine, but an interpreter that has torch.

FEDTEST_TORCH_PYTHON names it; without, it is the one that hosts without Docker run.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from node_python import node

from fedtest.engine.netns.warm.client import Start, Zygote
from fedtest.errors import EngineError
from warmth import Warmth, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERPRETER = Path(os.environ.get("FEDTEST_TORCH_PYTHON") or node().executable).with_name("python")
IMPORTING = 300.0

pytestmark = pytest.mark.skipif(
    subprocess.run(
        [INTERPRETER, "-c", "import importlib.util as u; assert u.find_spec('torch')"],
        capture_output=True, check=False,
    ).returncode != 0,
    reason=f"{INTERPRETER} has no torch; FEDTEST_TORCH_PYTHON names one that has",
)  # fmt: skip


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    preload = ("torch", "numpy", "torch._dynamo")
    env = environment(INTERPRETER, OMP_NUM_THREADS="2")
    zygote = Zygote.start(str(INTERPRETER), preload, env, deadline=IMPORTING)
    yield zygote
    zygote.close()


@pytest.fixture
def warmth(zygote: Zygote, tmp_path: Path) -> Warmth:
    return Warmth(zygote, tmp_path, environment(INTERPRETER, OMP_NUM_THREADS="2"))


def tasks(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def memory(pid: int) -> float:
    """Proportional set size in MB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    (line,) = (line for line in text.splitlines() if line.startswith("Pss:"))
    return int(line.split()[1]) / 1024


def test_the_zygote_has_no_pool_of_openmp_and_its_processes_make_their_own(warmth: Warmth) -> None:
    warmth.write(
        "program.py",
        "import os, torch\n"
        "def tasks(): return len(os.listdir('/proc/self/task'))\n"
        "print(torch.get_num_threads(), tasks())\n"
        "a = torch.ones(800, 800)\n"
        "assert (a @ a).sum() == 800 ** 3\n"
        "print(tasks())\n"
        "torch.set_num_threads(1); torch.set_num_threads(2); (a @ a + a).sum()\n"
        "loss = torch.nn.Linear(800, 10)(a).sum(); loss.backward(); print(tasks() > 1)\n",
    )
    for _ in range(2):
        assert warmth.warm("python program.py") == (0, "2 1\n2\nTrue\n", "")
        # An idle helper of the BLAS at most, which forking ends.
        assert tasks(warmth.zygote.pid) == 1


def test_a_zygote_that_ran_a_parallel_operation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "parallel.py").write_text("import torch; a = torch.ones(800, 800); a @ a\n")
    env = environment(INTERPRETER, PYTHONPATH=str(tmp_path), OMP_NUM_THREADS="2")
    with pytest.raises(EngineError, match=r"pool of OpenMP threads \(libgomp"):
        Zygote.start(str(INTERPRETER), ["torch", "parallel"], env, deadline=IMPORTING)


def test_another_number_of_threads_needs_another_zygote(warmth: Warmth) -> None:
    command = warmth.command("python program.py", OMP_NUM_THREADS="1")
    reason = warmth.zygote.why_not(command, str(warmth.directory))
    assert reason == "OMP_NUM_THREADS acts before the program runs and is '1', not '2'"


def test_what_ranks_are_told_by_their_environment_needs_no_other_zygote(warmth: Warmth) -> None:
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME", "LOCAL_RANK")
    command = warmth.command("python program.py", **dict.fromkeys(names, "1"))
    assert warmth.zygote.why_not(command, str(warmth.directory)) == ""


def test_seeds_are_each_process_s_own(warmth: Warmth) -> None:
    warmth.write(
        "program.py",
        "import random, numpy, torch\n"
        "print(torch.initial_seed(), torch.rand(1).item(), numpy.random.rand(), random.random())\n"
        "torch.manual_seed(3); numpy.random.seed(3); random.seed(3)\n"
        "print(torch.rand(1).item(), numpy.random.rand(), random.random())\n",
    )
    one, two = (warmth.warm("python program.py").out.splitlines() for _ in range(2))
    assert not {*one[0].split()} & {*two[0].split()}
    assert one[1] == two[1]


LOADER = """
import sys, torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i):
        return torch.tensor([float(i)]), torch.ones(300, 300) @ torch.ones(300)

if __name__ == "__main__":
    loader = DataLoader(Numbers(), 4, num_workers=2, multiprocessing_context=sys.argv[1])
    print([x.flatten().tolist() for x, _ in loader])
    model = torch.nn.Linear(1, 1)
    for x, _ in loader:
        model(x).sum().backward()
    print(model.weight.grad.item())
"""


def test_data_loaders_have_workers(warmth: Warmth) -> None:
    warmth.write("program.py", LOADER)
    expected = "[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]\n28.0\n"
    for method in ("fork", "spawn"):
        assert warmth.warm(["python", "program.py", method]) == (0, expected, "")


SPAWN = """
import torch.multiprocessing as mp, torch

def work(rank, text): print(rank, text, torch.get_num_threads(), flush=True)

if __name__ == "__main__":
    mp.spawn(work, ("started",), nprocs=1)
"""


def test_torch_spawns(warmth: Warmth) -> None:
    warmth.write("program.py", SPAWN)
    assert warmth.warm(["python", "-m", "program"]) == (0, "0 started 2\n", "")


DDP = """
import os, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/store",
                        rank=int(os.environ["RANK"]), world_size=2)
total = torch.ones(3); dist.all_reduce(total)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.full((2, 4), float(dist.get_rank()))).sum().backward()
print(total.tolist(), model.module.weight.grad.tolist())
dist.destroy_process_group()
"""


def test_distributed_data_parallel(warmth: Warmth) -> None:
    warmth.write("program.py", DDP)
    reader, writer = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    starts = [
        Start(
            warmth.command("python program.py", RANK=str(rank), GLOO_SOCKET_IFNAME="lo"),
            str(warmth.directory), null, writer, 2,
        )
        for rank in range(2)
    ]  # fmt: skip
    children = warmth.zygote.spawn(starts, 60)
    os.close(writer)
    assert [child.ended.result(120) for child in children] == [0, 0]
    with os.fdopen(reader) as stream:
        assert stream.read() == "[2.0, 2.0, 2.0] [[1.0, 1.0, 1.0, 1.0]]\n" * 2
    os.close(null)


def test_a_rank_costs_little_time_and_memory(warmth: Warmth) -> None:
    """64 of them, each at its first line with torch imported."""
    warmth.write(
        "program.py", "import os, torch\nx = torch.ones(10).sum()\nos.write(1, b'x')\ninput()\n"
    )
    stdin, hold = os.pipe()
    reader, writer = os.pipe()
    command = warmth.command("python program.py")
    start = Start(command, str(warmth.directory), stdin, writer, 2)
    before = time.monotonic()
    (one,) = warmth.zygote.spawn([start], 60)
    os.read(reader, 1)
    first = time.monotonic() - before
    before = time.monotonic()
    children = [one, *warmth.zygote.spawn([start] * 63, 60)]
    for _ in children[1:]:
        assert os.read(reader, 1)
    rest = time.monotonic() - before
    alone = [memory(child.pid) for child in children]
    print(f"one {first:.3f} s, 63 more {rest:.2f} s, {sum(alone) / 64:.1f} MB each")  # noqa: T201
    os.close(hold)
    for fd in (stdin, reader, writer):
        os.close(fd)
    assert [child.ended.result(120) for child in children] == [1] * 64
    assert max(alone) <= 25
