"""What each host is given, made concrete: limits, files, directories, settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedtest.scenario.template import expand

if TYPE_CHECKING:
    from fedtest.scenario.hosts import Host
    from fedtest.scenario.model import Scenario
    from fedtest.scenario.template import View

# By number, so that it needs no entry in an image's /etc/passwd; in the node
# image it is the user `fedtest`.
PLAIN_USER = "1000:1000"
_PLAIN_MODE = "0644"


@dataclass(frozen=True, slots=True)
class LimitsPlan:
    """What a host's processes may have together: processors, bytes, tasks. None: no limit."""

    cpus: float | None = None
    memory: int | None = None
    pids: int | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is limited."""
        return self == LimitsPlan()


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file in a host: `content`, or a copy of `source`, a file or directory of this machine.

    `mode` None: each file's own. `content` may have templates of secrets, and no others.
    """

    path: str
    content: str | None
    source: str | None
    mode: str | None
    owner: str


@dataclass(frozen=True, slots=True)
class MountPlan:
    """The directory `source` of this machine at `path` in a host."""

    path: str
    source: str
    write: bool


@dataclass(frozen=True, slots=True)
class TmpfsPlan:
    """A file system of `size` bytes, in memory, that everybody may write to."""

    path: str
    size: int


def limits_plan(host: Host) -> LimitsPlan:
    """The host's limits."""
    return LimitsPlan(host.cpus, host.memory, host.pids)


def mount_plans(scenario: Scenario, host: Host) -> tuple[MountPlan, ...]:
    """The directories of this machine that the host sees."""
    return tuple(
        MountPlan(path, mount.source, mount.write)
        for path, mount in {**scenario.mounts, **host.mounts}.items()
    )


def tmpfs_plans(host: Host) -> tuple[TmpfsPlan, ...]:
    """The host's small file systems."""
    return tuple(TmpfsPlan(path, size) for path, size in host.tmpfs.items())


def sysctl_plan(scenario: Scenario, host: Host) -> tuple[tuple[str, str], ...]:
    """Settings of the kernel in the host's namespaces: name, value."""
    return tuple({**scenario.sysctls, **host.sysctls}.items())


def file_plans(scenario: Scenario, host: Host, view: View) -> tuple[FilePlan, ...]:
    """The files that are put into the host."""
    return tuple(
        FilePlan(
            path=path,
            content=None if file.content is None else expand(file.content, view),
            source=file.source,
            mode=file.mode or (None if file.source else _PLAIN_MODE),
            owner=file.owner or PLAIN_USER,
        )
        for path, file in {**scenario.files, **host.files}.items()
    )


def environment(scenario: Scenario, host: str, own: dict[str, str], view: View) -> dict[str, str]:
    """The environment of a process on the host: the closest one who says something wins."""
    whole = {**scenario.env, **scenario.hosts[host].env, **own}
    return {key: expand(text, view) for key, text in whole.items()}


def shorten(plain: dict[str, Any], sysctls: tuple[tuple[str, str], ...]) -> None:
    """Of a host as plain data: where nothing is asked for, there is nothing to read."""
    plain["sysctls"] = dict(sysctls)
    plain["limits"] = {key: value for key, value in plain["limits"].items() if value is not None}
    for key in ("limits", "files", "mounts", "tmpfs", "sysctls"):
        if not plain[key]:
            del plain[key]
