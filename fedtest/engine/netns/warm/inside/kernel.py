"""System calls that Python does not have in every version: namespaces and `prctl`."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

# In the order in which they are entered: the user namespace gives the right to
# the others, and /proc belongs to the mounts. `pid` is for what is forked next.
NAMESPACES = {
    "user": 0x10000000,
    "cgroup": 0x02000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "net": 0x40000000,
    "pid": 0x20000000,
    "mnt": 0x00020000,
}

PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
_CAPABILITIES = 0x20080522  # Their third layout, of two words each.
PR_SET_MM, PR_SET_MM_ARG_END = 35, 9
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _arguments() -> tuple[int, int]:
    """Where in memory the command line is that `ps` shows, and how long it may be."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    start, end = map(int, fields.rpartition(")")[2].split()[45:47])
    return start, end - start


_command_line = _arguments()


def enter(fd: int, name: str) -> None:
    """Enter the namespace that is open as `fd`."""
    _check(_libc.setns(fd, NAMESPACES[name]), f"entering the {name} namespace")


def set_dumpable() -> None:
    """Own one's /proc again: changing the user took it, as only `exec` gives it back."""
    _check(_libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "owning /proc/self")


def limit_rights(kept: Collection[int]) -> None:
    """Have no other capabilities than these, and get none by executing."""
    for number in range(64):
        if number not in kept and _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break  # The kernel knows no more of them.
    _keep_rights(sum(1 << number for number in kept))


def _keep_rights(mask: int) -> None:
    """Of effective, permitted and inheritable capabilities; as `exec` would leave them."""
    head = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
    data = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(head, data), "reading capabilities")
    for place in range(6):
        data[place] &= mask >> 32 if place >= 3 else mask & 0xFFFFFFFF
    _check(_libc.capset(head, data), "giving up capabilities")


def map_user(uid: int, gid: int) -> None:
    """In a user namespace where there is root only: be somebody else, without root's rights."""
    if (uid, gid) == (0, 0):
        return
    _check(_libc.unshare(NAMESPACES["user"]), "making a user namespace")
    set_dumpable()
    for name, text in (
        ("setgroups", "deny"), ("uid_map", f"{uid} 0 1"), ("gid_map", f"{gid} 0 1"),
    ):  # fmt: skip
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _keep_rights(0)
    set_dumpable()


def set_command_line(argv: Sequence[str]) -> None:
    """Be known to `ps` and `pkill -f` by these words, cut at what there is room for.

    Only root may say where they end; otherwise empty words follow.
    """
    start, room = _command_line
    if not start:
        return  # This kernel does not tell.
    text = b"".join(os.fsencode(word) + b"\0" for word in argv)[:room]
    ctypes.memset(start, 0, room)
    ctypes.memmove(start, text, len(text))
    _libc.prctl(PR_SET_MM, PR_SET_MM_ARG_END, ctypes.c_ulong(start + len(text)), 0, 0)


def adopt_orphans() -> None:
    """Become the parent of grandchildren whose parent ends."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "adopting orphans")


def cut_exit_short() -> None:
    """From now on, C's `exit` ends where it would come to what is registered already.

    It goes backwards: what a process loads after the fork is torn down, then
    output is flushed, then `_exit`. The destructors of torch's libraries alone
    would take a third of a second.
    """
    if hasattr(_libc, "on_exit"):  # glibc has it
        _libc.on_exit(_libc._exit, None)  # noqa: SLF001 - C's
        _libc.__cxa_atexit(_libc.fflush, None, None)  # noqa: SLF001


def leave(status: int) -> None:
    """C's `exit`, with its own handlers; no thread of Python's runs meanwhile."""
    ctypes.PyDLL(None).exit(status)


def unbuffer_c() -> None:
    """What `-u` does to C's own streams."""
    for name in ("stdin", "stdout", "stderr"):
        _libc.setvbuf(ctypes.c_void_p.in_dll(_libc, name), None, 2, 0)  # _IONBF


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
