"""Threads that Python does not know: which of them hinder a fork, and which an end."""

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
    for task in _others():
        while (where := _where(task, libraries)) is None and time.monotonic() < end:
            time.sleep(0.01)  # It runs, so it cannot be looked at.
        if where is not None and where.startswith(_POOLS):
            return (
                "the imports ran a parallel operation, so that there is a pool of OpenMP "
                f"threads ({where}), and a forked process would wait for them for ever"
            )
    return ""


def let_finish(seconds: float = 0.5) -> None:
    """Wait until every other thread rests, so that none is about to ask for Python's lock.

    An interpreter that ends makes a thread exit which asks for it. Where that
    is in a destructor (torch's threads drop their last references there, just
    after a collective) C++ calls `std::terminate`, and a program that was done
    dies of SIGABRT. A fresh process has the race, too, but takes longer to end.
    A thread that never rests (a daemon's) takes all of `seconds`.
    """
    end = time.monotonic() + seconds
    before = None
    while time.monotonic() < end:
        now = _activity()
        if now == before and all(state == "S" for state, *_ in now.values()):
            return
        before = now
        time.sleep(0.002)  # Without the lock: who waits for it gets it now.


def _others() -> list[Path]:
    """All threads but the main one."""
    own = str(os.getpid())
    return [task for task in Path("/proc/self/task").iterdir() if task.name != own]


def _activity() -> dict[str, tuple[str, ...]]:
    """Of each other thread its state, and how often it has stopped running."""
    found = {}
    for task in _others():
        try:
            lines = (task / "status").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue  # It ended.
        state = next(line.split()[1] for line in lines if line.startswith("State:"))
        found[task.name] = (state, *(line for line in lines if "ctxt_switches" in line))
    return found


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
