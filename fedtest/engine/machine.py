"""What installing asks of the machine and does to it; tests put another in its place."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fedtest.errors import EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

INSTALL = 900.0
"""Seconds for apt-get."""

_TAIL = 20
_OTHERS: dict[str, tuple[str, dict[str, str]]] = {
    "dnf": (
        "dnf install",
        {"iproute2": "iproute iproute-tc", "iptables": "iptables-nft", "docker.io": "moby-engine"},
    ),
    "zypper": ("zypper install", {"docker.io": "docker"}),
    "pacman": ("pacman -S", {"docker.io": "docker"}),
    "apk": ("apk add", {"docker.io": "docker"}),
}
"""Package managers that `--install` does not drive: how they install, and their names."""


class Machine:
    """The machine fedtest runs on. Nothing here decides."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self.env = env

    def which(self, program: str) -> str | None:
        """Where a program is; root's directories are looked into whatever PATH says."""
        path = self.env.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
        return shutil.which(program, path=path)

    def is_root(self) -> bool:
        return os.geteuid() == 0

    def is_debian(self) -> bool:
        """Debian, Ubuntu, or one that says it is like them."""
        try:
            lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        values = dict(line.split("=", 1) for line in lines if "=" in line)
        names = f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".replace('"', "").split()
        return bool({"debian", "ubuntu"} & set(names)) and self.which("apt-get") is not None

    def run(self, command: list[str], timeout: float) -> tuple[int, str]:
        """A command's status and the end of what it said; 124 if it did not end in time."""
        env = {**self.env, "DEBIAN_FRONTEND": "noninteractive"}
        program = self.which(command[0]) or command[0]
        try:
            done = subprocess.run(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
                env=env,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, f"not done after {timeout:.0f} s"
        except OSError as error:
            return 127, str(error)
        return done.returncode, tail(done.stdout)


def tail(text: str) -> str:
    """The last lines of what a program said, indented."""
    return "\n".join(f"  {line}" for line in text.splitlines()[-_TAIL:])


def ours(*words: str) -> str:
    """A command line of fedtest that works from here: this Python's, wherever that is."""
    return shlex.join([sys.executable, "-m", "fedtest", *words])


def as_root(machine: Machine, command: str) -> str:
    """The command as whoever is not root can give it: a shell takes the whole line."""
    if machine.is_root():
        return command
    return f"sudo {command}" if machine.which("sudo") else f"{command}  # as root"


def how_to_install(machine: Machine, packages: Iterable[str], otherwise: str) -> str:
    """The command that installs packages, which are called by Debian's names; one line.

    `otherwise`: the command of fedtest that does it on Debian.
    """
    wanted = list(packages)
    if machine.is_debian():
        return as_root(machine, otherwise)
    for manager, (command, names) in _OTHERS.items():
        if machine.which(manager):
            here = " ".join(names.get(name, name) for name in wanted)
            return as_root(machine, f"{command} {here}")
    return f"install {' and '.join(wanted)} as this system does"


def install(
    machine: Machine, packages: Sequence[str], what: str, progress: Callable[[str], None]
) -> None:
    """Install Debian's packages; `what` they are for whom. EngineUnavailable with what to do."""
    if not machine.is_debian():
        raise EngineUnavailable(
            "--install knows only Debian and Ubuntu, and this is neither",
            remedy=f"Run this first, then the same again:\n{how_to_install(machine, packages, '')}",
        )
    if not machine.is_root():
        raise EngineUnavailable(f"installing {what} takes root", remedy="Run the same with sudo.")
    for command, doing in (
        (["apt-get", "update", "-q"], "reading the lists of packages"),
        (
            ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages],
            f"installing {' and '.join(packages)}",
        ),
    ):
        progress(doing)
        status, said = machine.run(command, INSTALL)
        if status != 0:
            raise EngineUnavailable(
                f"{doing} failed (status {status}): {' '.join(command)}\n{said}",
                remedy="Mend what apt-get complains of, then run this again.",
            )
