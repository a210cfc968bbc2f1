"""torchrun, and torch's stores however they are made, work with the torch that is here.

In the node image that is Debian's, which has no libuv (images/node sees to it).
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from ranks import Start, finish
from torch import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE = Path("/etc/fedtest-versions.txt").exists()  # it says so of itself
HOW = {
    "c10d": ("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:{port}"),
    "static": ("--master-addr", "127.0.0.1", "--master-port", "{port}", "--node-rank", "{agent}"),
}
WORK = """
import sys, torch
from torch import distributed as dist
dist.init_process_group("gloo")
tensor = torch.ones(3) + dist.get_rank()
dist.all_reduce(tensor)
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()}: {tensor.tolist()}\\n")
dist.destroy_process_group()
"""


@pytest.mark.skipif(torch.__version__ < "2", reason="its torchrun does not run on Python 3.11")
@pytest.mark.parametrize("how", HOW)
def test_two_agents_meet_and_so_do_their_ranks(
    start: Start, tmp_path: Path, port: int, how: str
) -> None:
    (tmp_path / "work.py").write_text(WORK, encoding="utf-8")
    agents = [
        start(
            [
                *("-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"),
                *(word.format(port=port, agent=agent) for word in HOW[how]),
                *("--local-addr", "127.0.0.1", str(tmp_path / "work.py")),
            ]
        )
        for agent in range(2)
    ]
    ended = finish(agents)
    assert [status for status, _, _ in ended] == [0, 0], ended
    said = sorted(line for _, out, _ in ended for line in out.splitlines())
    assert said == [f"rank {rank} of 2: [3.0, 3.0, 3.0]" for rank in range(2)]


def test_torchrun_is_a_command() -> None:
    """As torch installs it, beside the Python that it starts or on a path that all have."""
    places = {Path(sys.executable).parent, Path("/usr/bin")}
    assert any((place / "torchrun").is_file() for place in places)


TIME = timedelta(seconds=30)
MADE: dict[str, Callable[[], dist.TCPStore]] = {
    "by default": lambda: dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False),
    "by name": lambda: dist.TCPStore(
        host_name="127.0.0.1", port=0, is_master=True, wait_for_workers=False, use_libuv=True
    ),
    "by position": lambda: dist.TCPStore("127.0.0.1", 0, None, True, TIME, False, True, None, True),
    "by a class of one's own": lambda: type("Mine", (dist.TCPStore,), {})(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    ),
}


@pytest.mark.skipif(torch.__version__ < "2.4", reason="it has no parameter for libuv everywhere")
@pytest.mark.parametrize("made", MADE)
def test_a_store_is_made_and_another_finds_it(made: str) -> None:
    store = MADE[made]()
    assert isinstance(store, dist.TCPStore)
    assert store.port
    store.set("key", "value")
    other = dist.TCPStore("127.0.0.1", store.port, is_master=False, timeout=TIME)
    assert other.get("key") == b"value"


@pytest.mark.parametrize("way", ["env://", "tcp://127.0.0.1:{port}"])
def test_a_process_group_is_made(start: Start, port: int, way: str) -> None:
    code = (
        "import os; from torch import distributed as dist;"
        f"os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='{port}');"
        f"dist.init_process_group('gloo', '{way.format(port=port)}', rank=0, world_size=1);"
        "dist.barrier(); dist.destroy_process_group()"
    )
    [(status, _, err)] = finish([start(["-c", code])])
    assert status == 0, err


def test_what_a_store_cannot_do_is_told_as_ever(port: int) -> None:
    with pytest.raises(dist.DistNetworkError, match="timed out"):
        dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(milliseconds=50))
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        dist.TCPStore("127.0.0.1", port, nonsense=1)


@pytest.mark.skipif(not IMAGE, reason="is about the node image's Python")
def test_the_images_torch_lacks_libuv_and_its_parameters_are_known() -> None:
    """Where this fails, torch has changed, and images/node has to."""
    fedtest_tcpstore = sys.modules["fedtest_tcpstore"]
    init = dist.TCPStore.__init__
    with pytest.raises(RuntimeError, match=fedtest_tcpstore._LACKING):
        init.__wrapped__(dist.TCPStore.__new__(dist.TCPStore), "127.0.0.1", 0)
    signature = str(init.__doc__).partition(") ->")[0]
    names = [part.partition(":")[0].split()[-1] for part in signature.split(", ")[1:]]
    assert names.index("use_libuv") == fedtest_tcpstore._BEFORE


LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)))"


@pytest.mark.skipif(not IMAGE, reason="is about the node image's Python")
def test_python_starts_with_little_more_in_the_image(start: Start) -> None:
    with_it, without = (
        set(json.loads(out))
        for _, out, _ in finish([start(["-c", LOADED]), start(["-S", "-c", LOADED])])
    )
    assert "fedtest_tcpstore" in with_it
    assert not {"torch", "importlib.util", "functools", "typing"} & (with_it - without)
    compiled = Path(sys.modules["fedtest_tcpstore"].__cached__)
    assert compiled.is_file()  # or each start would compile it
