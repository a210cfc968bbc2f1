"""Who made a run, and whether that process still lives.

A process id alone says little: it is reused, and it means another process in
another pid namespace or on another machine. So an owner is its machine, boot,
pid namespace, pid and start time, and a verdict of "dead" is given only where
all of this can be compared.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Owner:
    """A process of some machine, told apart from every other one."""

    machine: str
    boot: str
    pid_namespace: str
    pid: int
    started: int

    @classmethod
    def me(cls) -> Owner:
        """This process."""
        pid = os.getpid()
        stat = _stat(pid)
        if stat is None:
            raise RuntimeError("/proc has no entry for this process; fedtest needs Linux's /proc")
        return cls(_machine(), _boot(), _pid_namespace(), pid, stat.started)

    @classmethod
    def parse(cls, label: str) -> Owner | None:
        """From a label's text; None if it is not one of ours."""
        parts = label.split("/")
        if len(parts) != 5 or not all(map(str.isdecimal, parts[3:])):
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]), int(parts[4]))

    def __str__(self) -> str:
        return f"{self.machine}/{self.boot}/{self.pid_namespace}/{self.pid}/{self.started}"

    def is_dead(self) -> bool:
        """True only if it is certain: this machine's process, and it runs no more."""
        if self.machine != _machine():
            return False
        if self.boot != _boot():
            # The machine was started anew since. Without a machine id two
            # machines look alike, and then a boot id alone proves nothing.
            return self.machine != ""
        if self.pid_namespace != _pid_namespace():
            return False
        try:
            os.kill(self.pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            pass  # It is somebody else's, and lives; its /proc may be hidden from us.
        stat = _stat(self.pid)
        return stat is not None and (stat.state in "ZX" or stat.started != self.started)


def _machine() -> str:
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink()).removeprefix("pid:").strip("[]")


class _Stat(NamedTuple):
    """`started` in clock ticks since boot."""

    state: str
    started: int


def _stat(pid: int) -> _Stat | None:
    """None if there is no such process, or if it is hidden from us."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name, in parentheses, may hold blanks and parentheses.
    fields = stat.rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[19]))
