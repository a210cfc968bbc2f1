"""Networks, and the hosts on them: what each is, and what it is made from."""

import os
from pathlib import Path
from typing import Annotated, Protocol, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedtest.scenario.base import MOST, Part, short
from fedtest.scenario.links import Firewall, Link, Occupied, Pair
from fedtest.scenario.names import ImageName, InterfaceName, Ip, NetworkName, Subnet
from fedtest.scenario.provisions import Env, Files, Memory, Mounts, Sysctls, Tmpfs
from fedtest.scenario.refusal import refuse


class Build(Part):
    """An image that is built before the run. A string is short for its `context`."""

    context: str = Field(
        min_length=1, description="The directory to build from; relative to the scenario's file."
    )
    dockerfile: str = Field(
        default="Dockerfile", min_length=1, description="The Dockerfile; relative to `context`."
    )

    @field_validator("context")
    @classmethod
    def _absolute(cls, value: str, info: ValidationInfo) -> str:
        context = info.context or {}
        path = os.path.abspath(Path(context.get("base") or "") / value)  # noqa: PTH100 - folds `..`
        if context.get("look") and not Path(path).is_dir():
            raise refuse(f"no such directory: {path}", allowed="a directory with a Dockerfile")
        return path

    @model_validator(mode="after")
    def _there(self, info: ValidationInfo) -> Self:
        path = Path(self.context) / self.dockerfile
        if (info.context or {}).get("look") and not path.is_file():
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
    internal: bool = Field(
        default=True,
        description="No way out of the testbed.",
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


class Nic(Part):
    """A host's interface on a network. A string is short for its `name`."""

    name: InterfaceName = Field(
        description="The interface's name in the host: 1 to 15 characters, no `/`, `:` or white "
        "space, not `lo`, unique in its host."
    )
    ip: Ip | None = Field(
        default=None, description="Its address, if it matters; the network then needs a `subnet`."
    )
    link: Link | None = Field(
        default=None,
        description="What is done to the packets that the host sends here, where it differs from "
        "the network's `link`.",
    )


class Host(Part):
    """A machine of the testbed."""

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
