"""Networks, and the hosts on them: what each is, and what it is made from."""

import os
from pathlib import Path
from typing import Annotated, Protocol, Self, TypeVar

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from fedtest.scenario.base import MOST, Part, short
from fedtest.scenario.collected import MOST_FILES, Collected
from fedtest.scenario.forwarding import Forward, Route
from fedtest.scenario.ip_types import Mac, NicIp, NicIp6, Place, Subnet6
from fedtest.scenario.links import Firewall, Link, Occupied, Pair
from fedtest.scenario.names import ImageName, InterfaceName, Ip, NetworkName, Subnet
from fedtest.scenario.provisions import Env, Files, Memory, Mounts, Sysctls, Tmpfs
from fedtest.scenario.refusal import refuse
from fedtest.scenario.resolution import DnsAnswer, DomainName, HostsEntry

_LONGEST_PATH = 1000


class Build(Part):
    """An image that is built before the run. A string is short for its `context`."""

    context: str = Field(
        min_length=1,
        max_length=_LONGEST_PATH,
        description="The directory to build from; relative to the scenario's file.",
    )
    dockerfile: str = Field(
        default="Dockerfile",
        min_length=1,
        max_length=_LONGEST_PATH,
        description="The Dockerfile; relative to `context`.",
    )

    @field_validator("context")
    @classmethod
    def _absolute(cls, value: str, info: ValidationInfo) -> str:
        context = info.context or {}
        path = os.path.abspath(Path(context.get("base") or "") / value)  # noqa: PTH100 - folds `..`
        # Not Path's: those raise where a name is too long for there to be such a file.
        if context.get("look") and not os.path.isdir(path):  # noqa: PTH112
            raise refuse(f"no such directory: {path}", allowed="a directory with a Dockerfile")
        return path

    @model_validator(mode="after")
    def _there(self, info: ValidationInfo) -> Self:
        path = Path(self.context) / self.dockerfile
        if (info.context or {}).get("look") and not os.path.isfile(path):  # noqa: PTH113
            raise refuse(f"no such file: {path}", allowed="a Dockerfile")
        return self


class Imaged(Protocol):
    """What has an image or is to have one built."""

    @property
    def image(self) -> str | None: ...
    @property
    def build(self) -> Build | None: ...


ImagedT = TypeVar("ImagedT", bound=Imaged)


def one_image(part: ImagedT) -> ImagedT:
    """Refuses a part that has both."""
    if part.image is not None and part.build is not None:
        raise refuse("both image and build", allowed="at most one of image and build")
    return part


def beside_an_image(value: bool, info: ValidationInfo) -> bool:
    """Refuses `image_optional` without the `image` or `build` that it is about."""
    # One that is wrong itself is not in the data, and is told of anyway.
    if value and all(info.data.get(key, ...) is None for key in ("image", "build")):
        raise refuse("image_optional without an image", allowed="true beside image or build")
    return value


class Network(Part):
    """A layer-2 segment that hosts attach to."""

    subnet: Subnet | None = Field(
        default=None,
        description="Its IPv4 network, only where an address matters; without it one is taken "
        "from fedtest's own range, and parallel runs do not collide.",
    )
    gateway: Ip | None = Field(
        default=None,
        description="The address that no host gets, because the engine may want it; needs "
        "`subnet`. Without it the first address, or the highest free one if a host has the first.",
    )
    ipv4: bool = Field(
        default=True,
        description="Whether hosts have IPv4 addresses here; without them it needs IPv6.",
    )
    ipv6: bool = Field(
        default=False,
        description="Whether hosts have IPv6 addresses here, out of fedtest's own range, in a /64 "
        "that no other run has.",
    )
    subnet6: Subnet6 | None = Field(
        default=None,
        description="Its IPv6 network, where an address matters; `ipv6` goes without saying.",
    )
    internal: bool = Field(
        default=True,
        description="No way out of the testbed, and none to the machine that it is on.",
    )
    link: Link | None = Field(
        default=None, description="What it does to the packets of every host on it."
    )
    pairs: tuple[Pair, ...] = Field(
        default=(),
        strict=False,
        max_length=MOST,
        description="Other conditions on the way from one host to another.",
    )

    @property
    def has_ipv6(self) -> bool:
        """Whether hosts have IPv6 addresses here, unless theirs is `none`."""
        return self.ipv6 or self.subnet6 is not None

    @model_validator(mode="after")
    def _some_family(self) -> Self:
        if not self.ipv4 and not self.has_ipv6:
            raise refuse("neither IPv4 nor IPv6", allowed="`ipv6: true` with `ipv4: false`")
        if not self.ipv4 and (self.subnet is not None or self.gateway is not None):
            raise refuse("an IPv4 subnet or gateway without IPv4", allowed="`subnet6`")
        return self


class Nic(Part):
    """A host's interface on a network. A string is short for its `name`."""

    name: InterfaceName = Field(
        description="The interface's name in the host: 1 to 15 characters, no `/`, `:` or white "
        "space, not `lo`, unique in its host."
    )
    ip: NicIp | None = Field(
        default=None,
        description="Its address, if it matters; the network then needs a `subnet`. `none`: it has "
        "no IPv4 address; if it is where names resolve, and has no IPv6 either, nobody knows the "
        "host's name.",
    )
    ip6: NicIp6 | None = Field(
        default=None,
        description="Its IPv6 address, if it matters; the network then needs a `subnet6`. `none`: "
        "it has none although the network has IPv6.",
    )
    mac: Mac | None = Field(
        default=None,
        description="Its MAC address, if it matters: of one host only (the first pair is even), "
        "unique on the network. Quote it.",
    )
    link: Link | None = Field(
        default=None,
        description="What is done to the packets that the host sends here, where it differs from "
        "the network's `link`.",
    )


def _forward(value: object) -> object:
    """`true` is short for the mapping without keys, `false` for nothing at all."""
    if isinstance(value, bool):
        return {} if value else None
    return value


class Host(Part):
    """A machine of the testbed. It has at most 2048 processes and threads."""

    nics: dict[NetworkName, Annotated[Nic, short("name")]] = Field(
        min_length=1,
        description="Its interfaces: network -> interface name, or the mapping.",
    )
    image: ImageName | None = Field(
        default=None,
        description="An image that is there or can be pulled.",
        json_schema_extra={"default": "the scenario's"},
    )
    build: Annotated[Build, short("context")] | None = Field(
        default=None,
        description="An image to build: a directory, or the mapping. Not with `image`.",
        json_schema_extra={"default": "the scenario's"},
    )
    image_optional: bool = Field(
        default=False,
        description="As the scenario's, of this host's own `image` or `build`.",
    )
    aliases: tuple[DomainName, ...] = Field(
        default=(),
        strict=False,
        max_length=MOST,
        description="Further names under which all hosts find it.",
    )
    names: dict[DomainName, HostsEntry] = Field(
        default_factory=dict,
        max_length=MOST,
        description="What this host's /etc/hosts says where it differs from the others': an "
        "address, another host (its addresses), or `missing` (nothing about that name, and no DNS "
        "knows it, unless `dns` has it). "
        "`server1: 127.0.1.1` on server1 itself is what Debian's installer writes.",
    )
    dns: dict[DomainName, DnsAnswer] = Field(
        default_factory=dict,
        max_length=MOST,
        description="What the DNS answers this host, over the scenario's own `dns`.",
    )
    gateway: Place | None = Field(
        default=None,
        description="Where its packets go that have no other way: a host that forwards and shares "
        "a network with it, or an address on one of its networks.",
    )
    routes: tuple[Route, ...] = Field(
        default=(),
        strict=False,
        max_length=MOST,
        description="Ways to further networks. A host behind one that forwards without NAT needs "
        "one back, or a gateway.",
    )
    forward: Annotated[Forward | None, BeforeValidator(_forward)] = Field(
        default=None,
        description="Whether it passes packets on between its networks: `true`, or the mapping. "
        "Measured from each host that has a way through it to one behind it. Its networks are "
        "not `internal` to Docker, which would drop the packets; there is no way out all the "
        "same, since nothing is masqueraded and hosts get no default route but their `gateway`.",
    )
    firewall: Firewall | None = Field(
        default=None, description="What it lets in; without it everything."
    )
    ports_in_use: tuple[Occupied, ...] = Field(
        default=(),
        strict=False,
        max_length=MOST,
        description="Ports that something of another kind has taken: numbers, or mappings.",
    )

    count: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="So many hosts of this kind, called `NAME-0`, `NAME-1` and so on. `NAME` alone "
        "stands for all of them, in this order, in lists of hosts and in `pairs`. Not with a fixed "
        "`ip` or `mac`.",
        json_schema_extra={"default": "one host, called `NAME`"},
    )
    index: int = Field(
        default=0,
        ge=0,
        lt=MOST,
        description="What `host.index` is in templates; with `count` it is the number in the name.",
    )
    cpus: float | None = Field(
        default=None,
        ge=0.01,
        le=1024,
        allow_inf_nan=False,
        description="How much of the machine's processors all its processes together get, in "
        "whole ones: `0.5`.",
        json_schema_extra={"default": "no limit"},
    )
    memory: Memory | None = Field(
        default=None,
        description="How much memory all its processes together get; one that takes more is "
        "killed by the kernel (status 137).",
        json_schema_extra={"default": "no limit"},
    )
    pids: int | None = Field(
        default=None,
        ge=16,
        le=1_000_000,
        description="How many processes and threads it has at most, a few of the testbed's own "
        "included.",
        json_schema_extra={"default": "2048"},
    )
    env: Env = Field(
        default_factory=dict,
        description="Environment variables of all processes there: name -> string. A process's "
        "own win. Templates.",
    )
    files: Files = Field(
        default_factory=dict,
        max_length=MOST,
        description="Files that are put into it: path -> content, or the mapping.",
    )
    mounts: Mounts = Field(
        default_factory=dict,
        max_length=MOST,
        description="Directories of this machine that it sees: path -> directory here, or the "
        "mapping.",
    )
    collect: tuple[Annotated[Collected, short("path")], ...] = Field(
        default=(),
        strict=False,
        max_length=MOST_FILES,
        description="Files that it leaves in the run's directory: paths, or mappings.",
    )
    tmpfs: Tmpfs = Field(
        default_factory=dict,
        max_length=MOST,
        description="Small file systems in memory, which everybody may fill, and nothing "
        "is executed from: path -> size.",
    )
    sysctls: Sysctls = Field(
        default_factory=dict,
        max_length=MOST,
        description="Settings of the kernel that a host has for itself (net.*, kernel.shm*, "
        "kernel.msg*, kernel.sem, fs.mqueue.*): name -> number or string.",
    )

    _check = model_validator(mode="after")(one_image)
    _beside = field_validator("image_optional")(beside_an_image)
