"""Before `tox` makes anything: what its environments need of this machine, and will download.

    python tests/preflight.py [ENVIRONMENT ...]

exits with 0, or with 3 and one line that installs all that is missing. `toxfile.py` calls it with
the environments that were chosen. It needs nothing but Python, and takes seconds at most.
"""

from __future__ import annotations

import getpass
import importlib.util
import json
import os
import re
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

INVALID = 3
ENGINE = ("node", "multihost")
"""Environments that need a Docker engine."""
NETNS = ("multihost",)
"""Those that make hosts without Docker, too."""
DOWNLOADS = {
    "lint": "ruff and mypy, 30 MB",
    "unit": "pytest and what fedtest needs, 30 MB",
    "soak": "pytest and what fedtest needs, 30 MB",
    "node": "the node image, 0.3 GB (1.3 GB on the disk); MNIST, 12 MB",
    "multihost": "the node image, 0.3 GB (1.3 GB on the disk); MNIST, 12 MB; torch for hosts "
    "without Docker, 1 GB from the index of wheels for CPUs, or 5.5 GB from PyPI where that does "
    "not answer",
}
PACKAGES = {
    "dockerd": ("docker.io", "iptables"),  # which docker.io only recommends
    "ip": ("iproute2",),
    "tc": ("iproute2",),
    "iptables": ("iptables",),
    "ensurepip": ("python3-venv",),
}
SOCKET = "/var/run/docker.sock"
PATIENCE = 3.0


@dataclass
class Machine:
    """The machine that tox runs on; tests put another in its place."""

    env: Mapping[str, str]
    version: tuple[int, ...] = sys.version_info[:2]
    system: str = sys.platform
    root: bool = os.geteuid() == 0

    def has(self, program: str) -> bool:
        """Return whether a program is there; root's directories count whatever PATH says."""
        path = f"{self.env.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"
        return shutil.which(program, path=path) is not None

    def makes_environments(self) -> bool:
        """Return whether the node environment can be made: by venv or by uv."""
        return importlib.util.find_spec("ensurepip") is not None or self.has("uv")

    def has_systemd(self) -> bool:
        return Path("/run/systemd/system").is_dir()

    def context(self) -> str:
        """Return the name of the CLI's context, empty for the default one."""
        if name := self.env.get("DOCKER_CONTEXT"):
            return "" if name == "default" else name
        directory = self.env.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
        try:
            told = json.loads(Path(directory, "config.json").read_text(encoding="utf-8"))
            name = str(told.get("currentContext") or "")
        except (OSError, ValueError, AttributeError):
            return ""
        return "" if name == "default" else name

    def why_no_answer(self, address: str) -> str:
        """Return why nobody answers at unix://PATH or tcp://HOST:PORT; empty if somebody does."""
        scheme, _, rest = address.partition("://")
        host, _, port = rest.rpartition(":")
        try:
            if scheme == "unix":
                with socket.socket(socket.AF_UNIX) as client:
                    client.settimeout(PATIENCE)
                    client.connect(rest)
            elif scheme in {"tcp", "http", "https"} and port.strip("/").isdecimal():
                socket.create_connection((host.strip("[]"), int(port.strip("/"))), PATIENCE).close()
        except OSError as error:
            return error.strerror or str(error)
        return ""


def problem(environments: Sequence[str], machine: Machine) -> str:
    """Return one line: what is missing and the command that installs it; empty if nothing is."""
    if machine.version < (3, 11):
        return "fedtest needs Python 3.11 or later: call tox by one that is"
    if not _any(environments, ENGINE):
        return ""
    if machine.system != "linux":
        return "hosts need Linux; `tox -e lint,unit` does not"
    missing, wrong = _engine(machine)
    if _any(environments, NETNS):
        missing += [name for name in ("ip", "tc", "iptables") if not machine.has(name)]
        missing += [] if machine.makes_environments() else ["ensurepip"]
    return "; ".join([*([_install(missing, machine)] if missing else []), *wrong])


def _engine(machine: Machine) -> tuple[list[str], list[str]]:
    """Return what is missing for an engine, and what else keeps one from answering."""
    if address := machine.env.get("DOCKER_HOST"):
        why = machine.why_no_answer(address)
        shown = re.sub(r":[^:/@]*@", ":***@", address)
        told = f"nobody answers at DOCKER_HOST={shown} ({why}): mend or unset it"
        return [], [told] if why else []
    # A context of their own is theirs to have in order.
    why = "" if machine.context() else machine.why_no_answer(f"unix://{SOCKET}")
    if "ermission denied" in why:
        join = f"`{_join()}` and log in again"
        return [], [f"this user may not use {SOCKET}: run tox as root, or {join}"]
    if why and not machine.has("dockerd"):
        return ["dockerd"], []
    if why and not machine.root:  # For root `fedtest engine ensure` starts it.
        start = "systemctl start docker" if machine.has_systemd() else "service docker start"
        return [], [f"no Docker engine runs, and only root starts one: sudo {start}"]
    return [], []


def _join() -> str:
    return f"sudo usermod -aG docker {getpass.getuser()}"


def _install(missing: Iterable[str], machine: Machine) -> str:
    missing = list(dict.fromkeys(missing))
    packages = sorted({package for name in missing for package in PACKAGES[name]})
    told = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: "
    if not machine.has("apt-get"):
        return f"{told}install what your system calls {', '.join(packages)}"
    command = "apt-get update && apt-get install --yes --no-install-recommends " + " ".join(
        packages
    )
    if machine.root:
        return told + command
    # Its package starts the engine, which is root's and its group's.
    join = f" && usermod -aG docker {getpass.getuser()}" if "dockerd" in missing else ""
    after = ", then log in again" if join else ""
    return f"{told}sudo sh -c '{command}{join}'{after}"


def downloads(environments: Sequence[str]) -> list[str]:
    """Return a line for each kind of thing that will be fetched."""
    told = [item for name in environments for item in DOWNLOADS.get(name, "").split("; ") if item]
    return list(dict.fromkeys(told))


def _any(environments: Sequence[str], some: Sequence[str]) -> bool:
    return not set(environments).isdisjoint(some)


def main(environments: Sequence[str]) -> int:
    """Say what is missing, or what will be downloaded."""
    if told := problem(environments, Machine(os.environ)):
        sys.stderr.write(f"tox -e {','.join(environments)}: {told}\n")
        return INVALID
    if fetched := downloads(environments):
        sys.stderr.write(f"downloads, unless they are cached: {'; '.join(fetched)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(DOWNLOADS)))
