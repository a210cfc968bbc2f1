"""Whether hosts have what they are given: read back, or the run is invalid.

Limits and settings are what the kernel shows in the host itself; files,
directories and small file systems are looked at from beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.engine import settings
from fedtest.engine.examine import Examination
from fedtest.engine.parcel import entries, owner_ids
from fedtest.errors import NotAsPlanned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedtest.engine.base import Engine, RunTag
    from fedtest.engine.examine import PathFacts
    from fedtest.engine.parcel import Entry
    from fedtest.engine.snapshot import Snapshot
    from fedtest.plan import HostPlan, Plan
    from fedtest.plan_provisions import MountPlan, TmpfsPlan

_PAGE = 64 * 1024
"""Bytes: the kernel counts memory in pages, here or there of this size."""
_MOST_ASKED = 40_000
"""Characters of paths that are asked for at once: they are an argument of a command."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def verify(
    engine: Engine, run: RunTag, plan: Plan, snapshots: Mapping[str, Snapshot], deadline: float
) -> None:
    """Raises NotAsPlanned with every difference, by host. `plan` has the values of secrets."""
    found = []
    for host in plan.hosts:
        found += [f"host {host.name}: {line}" for line in held(host, snapshots[host.name])]
    _refuse(
        found,
        "The kernel must be able to keep it: control groups for cpu, memory and pids must be "
        "enabled. Leave out what this machine cannot do.",
    )
    given = {host.name: _wanted(host) for host in plan.hosts if host.looked_into}
    facts = _look(engine, run, {name: list(items) for name, items in given.items()}, deadline)
    for name, items in given.items():
        for path, item in items.items():
            fact = facts[name][path]
            wrong = fact.error or item.wrong(fact)
            if wrong:
                found.append(f"host {name}: {item.what}: {path}: {wrong}")
    _refuse(
        found,
        "`mounts` needs an engine that sees this machine's files: not one on another machine or "
        "in a root of its own. `files` copies what must be there.",
    )


def held(host: HostPlan, snapshot: Snapshot) -> list[str]:
    """What the kernel does not hold the host to as planned."""
    shown = snapshot.settings
    found = []
    if host.limits.cpus is not None:
        quota = _cpus(shown)
        if quota is None or abs(quota - host.limits.cpus) > max(0.001, host.limits.cpus / 100):
            found.append(f"cpus should be {host.limits.cpus:g}, {_there(quota)}")
    if host.limits.memory is not None:
        limit = _number(shown, settings.MEMORY[0], settings.MEMORY_1[0])
        if limit is None or abs(limit - host.limits.memory) > _PAGE:
            found.append(f"memory should be {host.limits.memory} bytes, {_there(limit)}")
        elif _swaps(shown, limit):
            found.append("memory: it is limited, but swap is not, and this machine swaps")
    if host.limits.pids is not None:
        pids = _number(shown, settings.PIDS[0], settings.PIDS_1[0])
        if pids != host.limits.pids:
            found.append(f"pids should be {host.limits.pids}, {_there(pids)}")
    for name, value in host.sysctls:
        there = shown.get(settings.sysctl_file(name))
        if there is None:
            found.append(f"sysctl {name}: the kernel does not have it for a host")
        elif there.split() != value.split():
            found.append(f"sysctl {name} should be {value}, it is {' '.join(there.split())}")
    return found


def _there(value: float | None) -> str:
    return "and the kernel shows no limit" if value is None else f"it is {value:g}"


def _number(shown: Mapping[str, str], *paths: str) -> int | None:
    """The first that is there; `max` is no limit."""
    for path in paths:
        if path in shown:
            return int(shown[path]) if shown[path].strip().isdigit() else None
    return None


def _cpus(shown: Mapping[str, str]) -> float | None:
    words = (
        " ".join(shown.get(path, "") for path in settings.CPU).split()
        or " ".join(shown.get(path, "") for path in settings.CPU_1).split()
    )
    if len(words) != len(settings.CPU_1) or not all(word.isdigit() for word in words):
        return None
    return int(words[0]) / int(words[1])


def _swaps(shown: Mapping[str, str], limit: int) -> bool:
    """Whether the host's processes may go on in swap when their memory is full."""
    if len(shown.get(settings.SWAPS, "").splitlines()) <= 1:
        return False
    extra, both = shown.get(settings.MEMORY[1]), shown.get(settings.MEMORY_1[1])
    if extra is not None:
        return extra.strip() != "0"
    return both is None or int(both) > limit + _PAGE


class _File:
    """A file or directory that is put into the host."""

    what = "files"

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._digest = entry.digest

    def wrong(self, fact: PathFacts) -> str:
        entry = self._entry
        kind = "directory" if entry.directory else "file"
        if fact.kind != kind:
            return f"should be a {kind}, there is {fact.kind or 'nothing'}"
        if fact.sha256 != self._digest:
            return "what is in it is not what was put there"
        if fact.mode != entry.mode:
            return f"its mode should be {entry.mode:04o}, it is {fact.mode:04o}"
        if all(part.isdigit() for part in entry.owner.split(":")) and ":" in entry.owner:
            uid, gid = owner_ids(entry.owner, "", "")
            if (fact.uid, fact.gid) != (uid, gid):
                return f"it should be {uid}:{gid}'s, it is {fact.uid}:{fact.gid}'s"
        return ""


class _Mount:
    """A directory of this machine: under one kernel, device and inode name it."""

    what = "mounts"

    def __init__(self, plan: MountPlan) -> None:
        self._plan = plan

    def wrong(self, fact: PathFacts) -> str:
        source = self._plan.source
        try:
            here = Path(source).stat()
            boot = _BOOT.read_text(encoding="ascii").strip()
        except OSError as error:
            return f"{error.filename or source}: {error.strerror}"
        if (fact.boot, fact.device, fact.inode) != (boot, here.st_dev, here.st_ino):
            return f"what the host sees there is not the directory {source} of this machine"
        if fact.read_only is self._plan.write:
            return f"it should {'not ' if self._plan.write else ''}be read-only"
        return ""


class _Tmpfs:
    """A file system that fills up where it should."""

    what = "tmpfs"

    def __init__(self, plan: TmpfsPlan) -> None:
        self._plan = plan

    def wrong(self, fact: PathFacts) -> str:
        if fact.kind != "directory" or abs(fact.capacity - self._plan.size) > _PAGE:
            return f"its size should be {self._plan.size} bytes, it is {fact.capacity}"
        if fact.read_only or fact.mode != 0o1777:
            return "not everybody can write there"
        return ""


def _wanted(host: HostPlan) -> dict[str, _File | _Mount | _Tmpfs]:
    wanted: dict[str, _File | _Mount | _Tmpfs] = {}
    wanted |= {entry.path: _File(entry) for entry in entries(host.files)}
    wanted |= {mount.path: _Mount(mount) for mount in host.mounts}
    wanted |= {item.path: _Tmpfs(item) for item in host.tmpfs}
    return wanted


def _look(
    engine: Engine, run: RunTag, paths: Mapping[str, list[str]], deadline: float
) -> dict[str, dict[str, PathFacts]]:
    """The facts of every path, a bounded number at a time."""
    found: dict[str, dict[str, PathFacts]] = {name: {} for name in paths}
    left = {name: list(some) for name, some in paths.items() if some}
    while left:
        now = {name: _some(items) for name, items in left.items()}
        orders = {name: Examination(facts=tuple(some)) for name, some in now.items()}
        for name, told in engine.examine(run, orders, deadline).items():
            found[name] |= told.facts
        left = {name: rest for name, items in left.items() if (rest := items[len(now[name]) :])}
    return found


def _some(paths: list[str]) -> list[str]:
    size = 0
    for at, path in enumerate(paths):
        # In JSON, a character may become six.
        size += 6 * len(path) + 4
        if size > _MOST_ASKED and at:
            return paths[:at]
    return paths


def _refuse(found: list[str], remedy: str) -> None:
    if found:
        raise NotAsPlanned(
            "the hosts do not have what the scenario gives them:\n"
            + "\n".join(f"  {line}" for line in found),
            remedy=remedy,
        )
