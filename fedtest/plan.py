"""A scenario made concrete: every host, interface, address and command.

Pure: the same scenario with the same subnets gives the same plan, and nothing
here knows of an engine. `--dry-run` prints it; an engine realises it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Interface, IPv4Network


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """An image that is built: `context` and `dockerfile` are absolute paths."""

    context: str
    dockerfile: str


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """What a host runs from: the node image (both None), a named image, or one to build."""

    name: str | None = None
    build: BuildSpec | None = None


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """One layer-2 segment. `fixed`: the scenario asked for this very subnet."""

    name: str
    subnet: IPv4Network
    gateway: IPv4Address
    internal: bool
    fixed: bool


@dataclass(frozen=True, slots=True)
class AttachmentPlan:
    """One host on one network."""

    network: str
    interface: str
    address: IPv4Interface


@dataclass(frozen=True, slots=True)
class HostPlan:
    """A machine of the testbed.

    `names` is the whole of its /etc/hosts beyond localhost, in order:
    (address, names). `data` maps the name of a data set to its directory.
    """

    name: str
    image: ImagePlan
    attachments: tuple[AttachmentPlan, ...]
    names: tuple[tuple[str, tuple[str, ...]], ...]
    data: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The members of a process group, in rank order; the first is the master."""

    name: str
    members: tuple[str, ...]
    network: str
    port: int


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One command on one host, templates filled in. `deadline` in seconds, or None."""

    name: str
    host: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    user: str
    deadline: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything an engine and the runner need. `deadline` in seconds for all processes."""

    scenario: str
    seed: int
    deadline: float
    networks: tuple[NetworkPlan, ...]
    hosts: tuple[HostPlan, ...]
    groups: tuple[GroupPlan, ...]
    processes: tuple[ProcessPlan, ...]

    def host(self, name: str) -> HostPlan:
        """The host called `name`; KeyError if there is none."""
        return next(host for host in self.hosts if host.name == name)
