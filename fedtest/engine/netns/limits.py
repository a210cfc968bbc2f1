"""Control groups of hosts: what limits them, what halts them, and where they see it.

Version 2 has one hierarchy, version 1 one for each controller. A run has a
group at the top of each, with one below for each host; processes of the
host are in it, and what looks after the host is not.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

ROOT = "/sys/fs/cgroup"
CONTROLLERS = ("cpu", "memory", "pids")
_HALTING = "freezer"
_PERIOD = 100_000
_PIDS = 2048
"""Processes and threads of a host that asks for no limit, where the kernel keeps one."""
_PATIENCE = 10.0
_POLL = 0.005


class Refused(OSError):
    """The kernel will not keep what a host is to be given; the message says why."""


@dataclass(frozen=True)
class Group:
    """One host's groups: controller -> directory. Version 2: all the same one."""

    version: int
    places: Mapping[str, str]

    @property
    def shown(self) -> dict[str, str]:
        """Where in the host's /sys/fs/cgroup each is seen."""
        if self.version == 2:
            return {"": self.places[_HALTING]}
        return {name: place for name, place in self.places.items() if name != _HALTING}

    @property
    def directories(self) -> list[str]:
        """Each once."""
        return list(dict.fromkeys(self.places.values()))

    def members(self) -> list[int]:
        """Open files; a process that writes 0 to each is in the group, and so its children."""
        return [
            os.open(f"{place}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            for place in self.directories
        ]

    @property
    def can_halt(self) -> bool:
        """Whether all processes can be halted at once."""
        return _HALTING in self.places

    def halt(self, *, on: bool) -> None:
        """Halt all processes, or let them go on; returns when they are. Refused."""
        place = self.places[_HALTING]
        if self.version == 2:
            order, file, wanted = ("1" if on else "0"), "cgroup.events", f"frozen {int(on)}"
            _write(f"{place}/cgroup.freeze", order)
        else:
            order, file, wanted = "FROZEN" if on else "THAWED", "freezer.state", ""
            _write(f"{place}/freezer.state", order)
        end = time.monotonic() + _PATIENCE
        while True:
            said = _read(f"{place}/{file}")
            if (wanted in said) if wanted else (said.strip() == order):
                return
            if time.monotonic() > end:
                whose = f"host {os.path.basename(place)}: its processes"
                raise Refused(f"{whose} are not {order}: {said.strip()}")
            time.sleep(_POLL)

    def remove(self) -> None:
        """Once no process is in it any more."""
        for place in self.directories:
            remove(place)


def version() -> int:
    """Which control groups this machine has; 0 for none."""
    if os.path.exists(f"{ROOT}/cgroup.controllers"):
        return 2
    return 1 if os.path.isdir(f"{ROOT}/memory") else 0


def cannot(wanted: Collection[str]) -> str:
    """Why this machine cannot keep limits of these controllers; empty if it seems that it can."""
    number = version()
    if number == 0:
        return "the kernel has none, or they are not mounted at /sys/fs/cgroup"
    if number == 2:
        there = _read(f"{ROOT}/cgroup.controllers").split()
        places = [ROOT]
    else:
        there = [name for name in CONTROLLERS if os.path.isdir(f"{ROOT}/{name}")]
        places = [
            place for name in (*CONTROLLERS, _HALTING) if os.path.isdir(place := f"{ROOT}/{name}")
        ]
    if absent := [name for name in CONTROLLERS if name in wanted and name not in there]:
        return f"the kernel has none for {', '.join(absent)}"
    if closed := [place for place in places if not os.access(place, os.W_OK)]:
        return f"{closed[0]} cannot be written"
    return ""


def make(run: str, host: str, wanted: Mapping[str, float]) -> tuple[Group | None, str]:
    """The host's groups, with its limits; without any, why there are none. Refused.

    `wanted`: `cpus`, `memory` in bytes, `pids`, each only if it is limited.
    """
    number = version()
    try:
        group = {0: _none, 1: _first, 2: _second}[number](run, host)
    except OSError as error:
        why = f"{error.filename or ROOT}: {error.strerror or error}"
        if wanted:
            raise Refused(f"control groups cannot be made: {why}") from error
        return None, why
    if group is None and wanted:
        raise Refused("this machine has no control groups")
    if group is not None and "pids" not in wanted:
        with suppress(OSError, KeyError):  # Nobody asked for it.
            _write(f"{group.places['pids']}/pids.max", str(_PIDS))
    if group is not None and wanted:
        try:
            _limit(group, wanted)
        except OSError as error:
            group.remove()
            raise Refused(str(error)) from error
    return group, ""


def remove(place: str) -> None:
    """A group, once the last process is out of it."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            os.rmdir(place)
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(_POLL)
        else:
            return


def tops(run: str) -> list[str]:
    """The run's own groups that are there, in every hierarchy."""
    names = [ROOT] + [f"{ROOT}/{name}" for name in (*CONTROLLERS, _HALTING)]
    return [path for name in names if os.path.isdir(path := f"{name}/fedtest-{run}")]


def let_all_go_on(run: str) -> None:
    """No process of the run stands still any more. Version 2 ends those that do, too."""
    for top in tops(run):
        with suppress(FileNotFoundError):
            for name in os.listdir(top):
                with suppress(OSError):  # Another hierarchy, or gone already.
                    _write(f"{top}/{name}/freezer.state", "THAWED")


def remove_all(run: str) -> None:
    """Every group of the run; somebody else may be at it, too."""
    for top in tops(run):
        with suppress(FileNotFoundError):
            for name in os.listdir(top):
                if os.path.isdir(f"{top}/{name}"):
                    remove(f"{top}/{name}")
        remove(top)


def _none(run: str, host: str) -> None:
    del run, host


def _first(run: str, host: str) -> Group:
    places = {}
    for name in (*CONTROLLERS, _HALTING):
        if os.path.isdir(f"{ROOT}/{name}"):
            places[name] = f"{ROOT}/{name}/fedtest-{run}/{host}"
            os.makedirs(places[name], exist_ok=True)
    return Group(1, places)


def _second(run: str, host: str) -> Group:
    top = f"{ROOT}/fedtest-{run}"
    os.makedirs(f"{top}/{host}", exist_ok=True)
    for place in (ROOT, top):
        there = _read(f"{place}/cgroup.controllers").split()
        for name in CONTROLLERS:
            if name in there:
                with suppress(OSError):  # A limit that then cannot be set says so.
                    _write(f"{place}/cgroup.subtree_control", f"+{name}")
    return Group(2, dict.fromkeys((*CONTROLLERS, _HALTING), f"{top}/{host}"))


def _limit(group: Group, wanted: Mapping[str, float]) -> None:
    for name, value in wanted.items():
        controller = "cpu" if name == "cpus" else name
        place = group.places.get(controller)
        if place is None:
            raise Refused(f"{name}: the kernel has no control group for it")
        if name == "cpus":
            there = os.cpu_count() or 1
            if value > there:
                raise Refused(f"cpus: {value:g} are asked for, and there are {there}")
            quota = round(value * _PERIOD)
            if group.version == 2:
                _write(f"{place}/cpu.max", f"{quota} {_PERIOD}")
            else:
                _write(f"{place}/cpu.cfs_period_us", str(_PERIOD))
                _write(f"{place}/cpu.cfs_quota_us", str(quota))
        elif name == "memory":
            _memory(group.version, place, round(value))
        else:
            _write(f"{place}/pids.max", str(round(value)))


def _memory(number: int, place: str, value: int) -> None:
    """Without swap, or a process would go on there, slowly."""
    if number == 2:
        _write(f"{place}/memory.max", str(value))
        if os.path.exists(f"{place}/memory.swap.max"):
            _write(f"{place}/memory.swap.max", "0")
        return
    _write(f"{place}/memory.limit_in_bytes", str(value))
    if os.path.exists(f"{place}/memory.memsw.limit_in_bytes"):
        _write(f"{place}/memory.memsw.limit_in_bytes", str(value))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
