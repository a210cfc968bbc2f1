"""The least that N ranks on N hosts take: a script without fedtest, the peer in engines.py.

One process imports torch and forks the ranks, each into network, mount, UTS and
IPC namespaces of its own, with one interface on one bridge, all made by one
`ip -batch` for the links and one a host for its addresses. No checks, no logs,
no clean-up but that the namespaces go with their processes.

    python benchmarks/engines_plain.py N

Needs root. Prints the seconds of its three parts, as JSON.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

NAMESPACES = {"net": 0x40000000, "mnt": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000}
PRIVATE = 0x4000 | 0x40000  # MS_REC | MS_PRIVATE
LIBC = ctypes.CDLL(None, use_errno=True)
PORT = 29500


def check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def leave_the_machine() -> None:
    """Have namespaces of our own; nothing below may happen in the machine's."""
    before = Path("/proc/self/ns/mnt").readlink()
    check(LIBC.unshare(sum(NAMESPACES.values())))
    if Path("/proc/self/ns/mnt").readlink() == before:
        raise SystemExit("this is still the machine's own mount namespace")
    check(LIBC.mount(None, b"/", None, PRIVATE, None))


def make_hosts(count: int) -> list[int]:
    """Processes that keep a host's namespaces, named by their ids; the links between them."""
    holders = []
    for _ in range(count):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            check(LIBC.unshare(sum(NAMESPACES.values())))
            os.write(writer, b"x")
            signal.pause()
            os._exit(0)
        holders.append(pid)
        os.read(reader, 1)
        os.close(reader)
        os.close(writer)
    batch(["link add br0 up type bridge", "link set lo up"]
          + [f"link add p{i} master br0 up type veth peer name enps1 address {mac(i)} netns {pid}"
             for i, pid in enumerate(holders)])  # fmt: skip
    # All know all: the kernel's one table of neighbours holds no 64 times 63 that it learns.
    known = [f"neigh add {address(i)} lladdr {mac(i)} nud permanent dev enps1"
             for i in range(count)]  # fmt: skip
    for number, pid in enumerate(holders):
        lines = ["link set lo up", "link set enps1 up", f"addr add {address(number)}/16 dev enps1"]
        batch([*lines, *known], "nsenter", "-n", "-t", str(pid))
    return holders


def address(number: int) -> str:
    return f"10.9.{number // 250}.{number % 250 + 1}"


def mac(number: int) -> str:
    return f"02:09:00:00:{number // 250:02x}:{number % 250:02x}"


def batch(lines: list[str], *within: str) -> None:
    command = [*within, "ip", "-batch", "-"]
    subprocess.run(command, input="\n".join(lines), text=True, check=True)


def rank(number: int, count: int, holder: int) -> None:
    for name in NAMESPACES:
        fd = os.open(f"/proc/{holder}/ns/{name}", os.O_RDONLY)
        check(LIBC.setns(fd, 0))
        os.close(fd)
    os.environ["GLOO_SOCKET_IFNAME"] = "enps1"
    torch = sys.modules["torch"]
    dist = torch.distributed
    place = f"tcp://10.9.0.1:{PORT}"
    dist.init_process_group("gloo", init_method=place, rank=number, world_size=count)
    total = torch.ones(1000)
    dist.all_reduce(total)
    dist.destroy_process_group()
    if int(total[0]) != count:
        raise SystemExit(f"rank {number}: {total[0]}")


def main() -> None:
    count = int(sys.argv[1])
    began = time.perf_counter()
    leave_the_machine()
    holders = make_hosts(count)
    made = time.perf_counter()
    importlib.import_module("torch.distributed")
    gc.freeze()
    imported = time.perf_counter()
    ranks = []
    for number, holder in enumerate(holders):
        pid = os.fork()
        if pid == 0:
            rank(number, count, holder)
            os._exit(0)
        ranks.append(pid)
    failed = [pid for pid in ranks if os.waitpid(pid, 0)[1]]
    ended = time.perf_counter()
    for pid in holders:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if failed:
        raise SystemExit(f"{len(failed)} of {count} ranks failed")
    parts = {"networks": made - began, "import": imported - made, "ranks": ended - imported}
    sys.stdout.write(json.dumps(parts) + "\n")


if __name__ == "__main__":
    main()
