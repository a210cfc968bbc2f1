"""What of torch a scenario's processes need, by what they say of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fedtest.engine.parcel import entries
from fedtest.errors import InvalidError
from fedtest.plan_preload import bundled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fedtest.plan import HostPlan, Plan

TORCH, VISION = "torch", "torchvision"
_RING = re.compile(r"\bfedtest\.ring\b|\bfrom\s+fedtest\s+import\b[^\n]*\bring\b")
_COMM = re.compile(r"\bfedtest\.comm\b|\bfrom\s+fedtest\s+import\b[^\n]*\bcomm\b")
_RUN = re.compile(r"(?<![\w.-])torchrun(?![\w.-])|-m\s+torch(?:\.|\s|$)")
_IMPORT = re.compile(r"(?<![\w.])(?:from|import)[ \t]+([\w., \t]+)")
_PYTHON = re.compile(r"(?<![\w.-])(?:python[0-9.]*|torchrun)(?![\w-])")
_SOURCES = (".py", ".sh")
_LARGEST = 1 << 20


def needed(plan: Plan) -> frozenset[str]:
    """Which of torch and torchvision; nothing, if nothing says that it needs them.

    A command that names `fedtest.ring`, `fedtest.comm`, `torchrun`, `-m torch...` or
    imports them says so; and so does a script that a host is given, and `preload`.
    """
    found: set[str] = set()
    for text in _texts(plan):
        found |= _of(text)
        if len(found) == 2:
            break
    # What we would preload by ourselves is no wish of the scenario's.
    if plan.preload != bundled(plan.processes):
        found |= {TORCH, VISION} & {name.partition(".")[0] for name in plan.preload}
    return frozenset(found | ({TORCH} if VISION in found else set()))


def calls_python(plan: Plan) -> bool:
    """Whether a process of a plain user's calls Python, as far as its command says."""
    return any(
        _PYTHON.search(" ".join(process.argv))
        for process in plan.processes
        if process.user.partition(":")[0] not in {"0", "root"}
    )


def _texts(plan: Plan) -> Iterator[str]:
    for process in plan.processes:
        yield " ".join(process.argv)
    seen: set[object] = set()
    for host in plan.hosts:
        key = (host.files, host.mounts)
        if key not in seen:
            seen.add(key)
            yield from _given(host)
    yield from _mounted(plan)


def _given(host: HostPlan) -> Iterator[str]:
    """The scripts that are put into a host."""
    try:
        for entry in entries(host.files):
            if not entry.directory and entry.path.endswith(_SOURCES):
                yield entry.content().decode("utf-8", "replace")
    except InvalidError:
        return  # Whoever puts them there says it better.


def _mounted(plan: Plan) -> Iterator[str]:
    """The scripts in mounted directories that a command names."""
    mounts = {host.name: host.mounts for host in plan.hosts}
    for process in plan.processes:
        text = " ".join(process.argv)
        for mount in mounts.get(process.host, ()):
            for match in re.finditer(rf"{re.escape(mount.path)}/([\w./+-]+)", text):
                if match[1].endswith(_SOURCES):
                    yield from _read(f"{mount.source}/{match[1]}")


def _read(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield file.read(_LARGEST)
    except OSError:
        return


def _of(text: str) -> set[str]:
    found = set()
    if _RING.search(text):
        found |= {TORCH, VISION}
    if _COMM.search(text) or _RUN.search(text):
        found.add(TORCH)
    tops = set(_imported(text))
    return found | ({TORCH, VISION} & tops)


def _imported(text: str) -> Iterable[str]:
    for match in _IMPORT.finditer(text):
        for name in re.split(r"[,\s]+", match[1]):
            yield name.partition(".")[0]
