"""Halting a host's processes one by one, where no control group does it at once."""

from __future__ import annotations

import contextlib
import os
import signal
import time

_PATIENCE = 10.0


def stop_all(first: int) -> list[int]:
    """Halt every process of a host but its first, where there is no control group to do it.

    Again until none is left that runs: one may be making another just now. One that waits
    in the kernel, perhaps for a child that stands still, stops before it runs on. OSError
    with those that run on.
    """
    end = time.monotonic() + _PATIENCE
    wanted = os.stat(f"/proc/{first}/ns/pid").st_ino
    halted: list[int] = []
    while True:
        running = [
            pid
            for pid in _processes(wanted)
            if pid != first and _state(pid) not in ("TtZXD" if pid in halted else "TtZX")
        ]
        if not running:
            return halted
        if time.monotonic() > end:
            go_on(halted)
            raise OSError(f"processes that do not stand still: {', '.join(map(str, running))}")
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


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"  # It has ended.
