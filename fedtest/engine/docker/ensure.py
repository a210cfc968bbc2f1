"""`fedtest engine ensure`: an engine that answers, started or installed if need be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtest.engine.docker.endpoint import SOCKET, meant
from fedtest.engine.docker.machine import Machine
from fedtest.engine.docker.reach import reason, unreachable
from fedtest.engine.machine import INSTALL, install
from fedtest.errors import DeadlineError, EngineUnavailable, FedtestError
from fedtest.locks import lock

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES = ("docker.io", "iptables")
"""Debian's engine only recommends iptables, without which it has no networks."""

START = 60.0
"""Seconds a started engine has until it answers."""

PATIENCE = INSTALL + 2 * START
"""Seconds to wait for another process that does the same."""


@dataclass(frozen=True, slots=True)
class Ensured:
    """What it took. `started_by` is None if an engine was running; `pid` of one started by hand."""

    version: str
    installed: bool = False
    started_by: str | None = None
    pid: int | None = None

    def __str__(self) -> str:
        how = f"started by {self.started_by}" if self.started_by else "was running already"
        parts = ["installed" if self.installed else "", how]
        process = f" (process {self.pid})" if self.pid else ""
        return f"Docker Engine {self.version}: {', '.join(part for part in parts if part)}{process}"


def ensure(
    progress: Callable[[str], None], *, install: bool = False, machine: Machine | None = None
) -> Ensured:
    """Have an engine that answers. EngineUnavailable with what was tried and what to do.

    An engine that DOCKER_HOST or a docker context names is somebody else's to start, unless it
    is this machine's own.
    """
    machine = machine or Machine()
    endpoint = meant(machine.env)
    try:
        return Ensured(machine.engine_version())
    except (EngineUnavailable, DeadlineError) as error:
        if not endpoint.is_default or "ermission denied" in reason(error):
            raise unreachable(error, endpoint) from error
    with lock("engine-ensure", "starting an engine", PATIENCE, progress):
        if version := _version(machine):  # another process did it meanwhile
            return Ensured(version)
        installed = _install(machine, progress, allowed=install)
        # A package may start what it installs.
        if installed and (version := _version(machine)):
            return Ensured(version, installed=True, started_by="its package")
        return _start(machine, progress, installed=installed)


def _install(machine: Machine, progress: Callable[[str], None], *, allowed: bool) -> bool:
    """Whether an engine had to be installed."""
    if machine.which("dockerd"):
        return False
    if not allowed:
        raise EngineUnavailable(
            f"no engine answers at {SOCKET}, and none is installed (no dockerd on PATH)",
            remedy="As root on Debian or Ubuntu: fedtest engine ensure --install. Elsewhere "
            "install Docker Engine, or choose one that can be reached by DOCKER_HOST or a docker "
            "context.",
        )
    install(machine, PACKAGES, "an engine", progress)
    return True


def _start(machine: Machine, progress: Callable[[str], None], *, installed: bool) -> Ensured:
    """Start the installed engine in the machine's own way, or else by hand."""
    _need_root(machine, "starting an engine")
    tried = []
    for name, command in machine.services():
        progress(f"starting the engine: {' '.join(command)}")
        status, said = machine.run(command, START)
        if status == 0:
            try:
                version = machine.wait_for_engine(START)
            except DeadlineError as error:
                raise EngineUnavailable(
                    f"{' '.join(command)} succeeded, but: {error.message}",
                    remedy="Look at its log (journalctl -u docker, or /var/log/docker.log).",
                ) from error
            return Ensured(version, installed=installed, started_by=name)
        tried.append(f"{' '.join(command)}: status {status}\n{said}")
    if machine.has_systemd():
        # It failed, and a second engine beside the unit would be in its way.
        raise EngineUnavailable(
            "the engine could not be started:\n" + "\n".join(tried),
            remedy="Look at its log: journalctl -u docker",
        )
    progress("starting the engine: dockerd")
    try:
        pid, version = machine.start_dockerd(START)
    except FedtestError as error:
        tried.append(error.message)
        raise EngineUnavailable(
            "the engine could not be started:\n" + "\n".join(tried),
            remedy="The last lines above are the engine's own. In a container it needs "
            "--privileged and a /var/lib/docker that is not an overlay.",
        ) from error
    return Ensured(version, installed=installed, started_by="hand", pid=pid)


def _need_root(machine: Machine, doing: str) -> None:
    if not machine.is_root():
        raise EngineUnavailable(
            f"no engine answers at {SOCKET}, and {doing} takes root",
            remedy="Run the same with sudo.",
        )


def _version(machine: Machine) -> str | None:
    try:
        return machine.engine_version()
    except (EngineUnavailable, DeadlineError):
        return None
