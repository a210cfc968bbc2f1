"""What hosts without Docker need of the machine, and what of that a plan misses.

All that is missing is found before anything is made, and told at once with the
command that installs it.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtest.engine.machine import INSTALL, Machine, how_to_install, install, ours
from fedtest.engine.netem import has_netem
from fedtest.engine.netns import limits, usable
from fedtest.engine.netns.usable import program
from fedtest.errors import EngineUnavailable
from fedtest.locks import lock
from fedtest.plan_tools import tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fedtest.plan import Plan

_PATIENCE = 2 * INSTALL + 60.0
"""Seconds to wait for another process that does the same, in two steps of apt-get."""

_NO_NETEM = "without it no duplicate, reorder, corrupt of links"


@dataclass(frozen=True, slots=True)
class Tool:
    """A program. `package`: Debian's, which brings it; `without`: what goes and does not."""

    name: str
    package: str
    without: str


TOOLS = (
    Tool("ip", "iproute2", "no hosts without Docker"),
    Tool("tc", "iproute2", "no links (rate, delay, loss, mtu, queue)"),
    Tool("ss", "iproute2", "no links, firewalls, ports in use, DNS of hosts"),
    Tool("iptables", "iptables", "no links, firewalls, ports in use, NAT, faults of networks"),
    Tool("ip6tables", "iptables", "no NAT and faults of networks with IPv6"),
)
"""What a machine may lack; all else of a host goes without them, but for `ip`."""

_PACKAGES = {tool.name: tool.package for tool in TOOLS}
_KEPT = "as root, on a kernel that has control groups, or with --engine docker"


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that is missing, in words. `package`: Debian's, where one brings it."""

    what: str
    package: str = ""
    remedy: str = ""


def missing(plan: Plan) -> Iterator[Lack]:
    """What of the machine a plan misses: programs, control groups."""
    wanted: Mapping[str, tuple[str, ...]] = {"ip": (), **tools(plan)}
    for name, whose in wanted.items():
        if program(name) is None:
            why = f" ({', '.join(whose)})" if whose else ""
            yield Lack(f"{name}{why}", _PACKAGES[name])
    asked = {
        controller
        for host in plan.hosts
        for controller, value in (
            ("cpu", host.limits.cpus),
            ("memory", host.limits.memory),
            ("pids", host.limits.pids),
        )
        if value is not None
    }
    if asked and (why := limits.cannot(asked)):
        yield Lack(f"control groups ({why})", remedy=f"Limits of hosts are kept {_KEPT}.")


def refuse_what_is_missing(
    plan: Plan, further: Iterable[Lack] = (), machine: Machine | None = None
) -> None:
    """EngineUnavailable with all that the machine lacks for a plan, and the one command for it."""
    found = [*missing(plan), *further]
    if not found:
        return
    packages = list(dict.fromkeys(item.package for item in found if item.package))
    remedies = [item.remedy for item in found if item.remedy]
    if packages:
        remedies.insert(0, command(packages, machine or Machine()))
    raise EngineUnavailable(
        f"this machine has not what hosts without Docker need here: "
        f"{', '.join(item.what for item in found)}",
        remedy="\n".join(dict.fromkeys(remedies)),
    )


def rights() -> bool:
    """As `usable.by_user_namespace`; where nothing gives them, a missing `ip` is told, too."""
    try:
        return usable.by_user_namespace()
    except EngineUnavailable as error:
        if program("ip") is not None:
            raise
        raise EngineUnavailable(
            f"{error.message}; and there is no ip",
            remedy=f"{error.remedy}\nFor ip: {command([_PACKAGES['ip']], Machine())}",
        ) from error


def command(packages: Iterable[str], machine: Machine) -> str:
    """What installs packages, on this machine and for this user."""
    return how_to_install(
        machine, packages, ours("engine", "ensure", "--engine", "netns", "--install")
    )


def rows() -> Iterator[tuple[str, str]]:
    """Each tool, where it is, and what goes without one that is missing."""
    for tool in TOOLS:
        where = program(tool.name)
        yield tool.name, where or f"missing (package {tool.package}): without it {tool.without}"
    why = limits.cannot(limits.CONTROLLERS)
    version = limits.version()
    yield (
        "control groups",
        f"missing ({why}): without them no cpus, memory, pids of hosts"
        if why
        else f"version {version}",
    )
    netem = {
        True: "yes",
        False: f"no: {_NO_NETEM}",
        None: f"not known from here; if not, {_NO_NETEM}",
    }
    yield "netem", netem[has_netem(platform.release())]


def ensure_tools(
    progress: Callable[[str], None], *, allowed: bool, machine: Machine | None = None
) -> str:
    """Have every tool, installed if need be and `allowed`; what it took. EngineUnavailable."""
    machine = machine or Machine()
    there = "hosts without Docker: every tool was there already"
    if not _absent(machine):
        return there
    with lock("tools-ensure", "installing tools", _PATIENCE, progress):
        absent = _absent(machine)
        if not absent:  # Another process has installed them meanwhile.
            return there
        packages = list(dict.fromkeys(tool.package for tool in absent))
        names = ", ".join(tool.name for tool in absent)
        if not allowed:
            raise EngineUnavailable(
                f"this machine has not what hosts without Docker may need: {names}",
                remedy=command(packages, machine),
            )
        install(machine, packages, " and ".join(packages), progress)
        if left := _absent(machine):
            names = ", ".join(tool.name for tool in left)
            raise EngineUnavailable(
                f"{' and '.join(packages)}: installed, and still there is no {names}",
                remedy=f"Put {names} where programs of root are looked for, as /usr/sbin.",
            )
    return f"hosts without Docker: installed {' and '.join(packages)}"


def _absent(machine: Machine) -> list[Tool]:
    return [tool for tool in TOOLS if machine.which(tool.name) is None]
