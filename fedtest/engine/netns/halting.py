"""Halting a host's processes one by one, where no control group does it at once."""

from __future__ import annotations

import contextlib
import os
import signal


def stop_all(first: int) -> list[int]:
    """Halt every process of a host but its first, where there is no control group to do it.

    Again until none is left that runs: one may be making another just now.
    """
    wanted = os.stat(f"/proc/{first}/ns/pid").st_ino
    halted: list[int] = []
    while True:
        running = [pid for pid in _processes(wanted) if pid != first and not _stands(pid)]
        if not running:
            return halted
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                if pid not in halted:
                    halted.append(pid)


def go_on(halted: list[int]) -> None:
    """Let those go on that were halted."""
    for pid in halted:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _processes(namespace: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}/ns/pid").st_ino == namespace:
                found.append(int(name))
    return found


def _stands(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "TtZX"
    except OSError:
        return True
