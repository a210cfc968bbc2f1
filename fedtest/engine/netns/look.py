"""What a host tells of itself, read by its first process: the text that `snapshot` parses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILES = (
    "/proc/uptime", "/proc/1/stat", "/proc/sys/kernel/random/boot_id",
    "/proc/net/dev", "/proc/net/route", "/proc/net/fib_trie", "/proc/net/if_inet6",
    "/proc/net/tcp", "/proc/net/tcp6", "/etc/hosts", "/etc/resolv.conf",
    "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control",
)  # fmt: skip
"""Those that a host has; none has all of them."""

_LINKS = "/sys/class/net"


def describe(more: Iterable[str] = ()) -> str:
    """The same as `inside.SNAPSHOT` prints, without starting anything."""
    parts = list(_files((*FILES, *more)))
    parts.append("==> links <==\n" + "".join(_links()))
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    parts.append("==> stat <==\n" + "".join(_read(f"/proc/{name}/stat") for name in processes))
    parts.append("==> fd <==\n" + "".join(_sockets(processes)))
    return "\n".join(parts) + "\n==> end <==\n"


def _files(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        if os.path.exists(path):
            yield f"==> {path} <==\n{_read(path)}"


def _links() -> Iterator[str]:
    for name in sorted(os.listdir(_LINKS)):
        mac, mtu, flags = (
            _read(f"{_LINKS}/{name}/{what}").strip() for what in ("address", "mtu", "flags")
        )
        yield f"{name} {mac or '-'} {mtu} {flags}\n"


def _sockets(processes: Iterable[str]) -> Iterator[str]:
    for name in processes:
        yield f"/proc/{name}/fd:\n"
        try:
            for descriptor in os.listdir(f"/proc/{name}/fd"):
                target = os.readlink(f"/proc/{name}/fd/{descriptor}")
                if target.startswith("socket:"):
                    yield f"{descriptor} -> {target}\n"
        except OSError:
            continue  # It ended while we looked.


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
