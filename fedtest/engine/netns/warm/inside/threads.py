"""Threads that importing has left: which of them make this process unfit to fork from."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

_POOLS = ("libgomp", "libiomp", "libomp")
_SETTLE = 2.0
"""Seconds in which a worker that spins goes to sleep; OpenMP's do so within milliseconds."""


def harmful() -> str:
    """Why a forked process would hang or lack something; empty if it would not.

    A pool of OpenMP is told by where its threads wait: in its own library. Those
    of a BLAS wait in the C library, and are started again after a fork.
    """
    named = [thread.name for thread in threading.enumerate()]
    if len(named) > 1:
        return f"the imports started threads ({', '.join(named[1:])}), which no fork takes along"
    libraries = _libraries()
    end = time.monotonic() + _SETTLE
    for task in Path("/proc/self/task").iterdir():
        if task.name == str(os.getpid()):
            continue
        while (where := _where(task, libraries)) is None and time.monotonic() < end:
            time.sleep(0.01)  # It runs, so it cannot be looked at.
        if where is not None and where.startswith(_POOLS):
            return (
                "the imports ran a parallel operation, so that there is a pool of OpenMP "
                f"threads ({where}), and a forked process would wait for them for ever"
            )
    return ""


def _libraries() -> list[tuple[int, int, str]]:
    """Start, end and name of each piece of memory that holds code."""
    found = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and "x" in fields[1]:
            start, end = fields[0].split("-")
            found.append((int(start, 16), int(end, 16), fields[5].rpartition("/")[2]))
    return found


def _where(task: Path, libraries: list[tuple[int, int, str]]) -> str | None:
    """The library whose code a thread waits in; None while it runs."""
    try:
        fields = (task / "syscall").read_text(encoding="ascii").split()
    except OSError:
        return ""  # It ended, or this kernel does not tell.
    if fields == ["running"]:
        return None
    address = int(fields[-1], 16)
    return next((name for start, end, name in libraries if start <= address < end), "")
