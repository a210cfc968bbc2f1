"""The scenario: the typed shape of the file, and what can be said of each part alone.

What needs more than one part (references, subnets, templates) is looked at in
`references`, so that all of it can be reported although a part is wrong. The
descriptions here are the reference in docs/scenario.md.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainValidator,
    StringConstraints,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from fedtest.scenario.base import Part
from fedtest.scenario.checks import Check
from fedtest.scenario.links import Firewall, Link, Occupied, Pair, PortInUse
from fedtest.scenario.names import (
    Directory,
    EnvironmentName,
    GroupName,
    HostName,
    ImageName,
    InterfaceName,
    Ip,
    NetworkName,
    ProcessName,
    ScenarioName,
    Subnet,
    User,
)
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Duration

__all__ = [
    "Build",
    "Check",
    "Data",
    "Firewall",
    "Group",
    "Host",
    "Link",
    "Network",
    "Nic",
    "Pair",
    "PortInUse",
    "Process",
    "Scenario",
]

DEFAULT_PORT = 29500  # torch's
MOST = 1000  # of a kind; more are a mistake, or meant to hurt


_ImagedT = TypeVar("_ImagedT", "Host", "Scenario")

# Tags of unions appear in pydantic's locations; NUL cannot be in a key of the file.
STRING, LIST = "\0string", "\0list"

# What a kernel takes as one argument is 128 KiB.
Text = Annotated[str, StringConstraints(max_length=100_000)]
Command = Annotated[Text, StringConstraints(pattern=r"\S")]


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


def _short(key: str) -> BeforeValidator:
    """A string is short for a mapping with one key."""
    return BeforeValidator(lambda value: value if isinstance(value, (dict, Part)) else {key: value})


def _one_image(part: _ImagedT) -> _ImagedT:
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

    nics: dict[NetworkName, Annotated[Nic, _short("name")]] = Field(
        min_length=1,
        description="Its interfaces: network -> interface name, or the mapping.",
    )
    image: ImageName | None = Field(
        default=None,
        description="An image that is there or can be pulled.",
        json_schema_extra={"default": "the scenario's"},
    )
    build: Annotated[Build, _short("context")] | None = Field(
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

    _check = model_validator(mode="after")(_one_image)


class Data(Part):
    """Data sets that every host finds, each at a directory."""

    mnist: Directory | None = Field(
        default=None,
        description="MNIST, real and whole: where `torchvision.datasets.MNIST(root)` finds it. "
        "Provisioned once per machine, read-only.",
    )

    def directories(self) -> dict[str, str]:
        """The sets that are asked for, and where."""
        return {name: path for name, path in self if path is not None}


class Group(Part):
    """The members of a process group: rank is the position, the first is the master."""

    members: tuple[HostName, ...] = Field(
        min_length=1, strict=False, description="Hosts, in the order of their ranks."
    )
    network: NetworkName = Field(
        default="",
        description="The network whose address `master` is; every member is on it.",
        json_schema_extra={"default": "the only network, if there is one"},
    )
    port: int = Field(default=DEFAULT_PORT, ge=1, le=65535, description="The master's port.")


def _string_or_list(value: Any) -> str:
    """Which of the two, so that errors speak of the one that was meant."""
    return STRING if isinstance(value, str) else LIST


class Process(Part):
    """A command on some hosts, with environment, log and exit status.

    Unless an `exit` check is about it, it must end with status 0.
    """

    hosts: Annotated[
        Annotated[GroupName, Tag(STRING)] | Annotated[tuple[HostName, ...], Tag(LIST)],
        Discriminator(_string_or_list),
    ] = Field(description="Where it runs: a group, or a list of hosts.")
    run: Annotated[
        Annotated[Command, Tag(STRING)] | Annotated[tuple[Text, ...], Tag(LIST)],
        Discriminator(_string_or_list),
    ] = Field(
        description="The command: a string for `/bin/sh -c`, or a list that is executed as it is. "
        "Templates.",
    )
    env: dict[EnvironmentName, Text] = Field(
        default_factory=dict, description="Environment variables: name -> string. Templates."
    )
    user: User | None = Field(
        default=None,
        description="Who runs it: a name or a number, also `user:group`.",
        json_schema_extra={"default": "a plain user (`1000:1000`)"},
    )
    deadline: Duration | None = Field(
        default=None,
        description="How long it may run before the run ends as failed.",
        json_schema_extra={"default": "the scenario's"},
    )

    @field_validator("hosts", "run", mode="before")
    @classmethod
    def _tuples(cls, value: Any) -> Any:
        if isinstance(value, list):
            value = tuple(value)
        if not value or not isinstance(value, (str, tuple)):
            raise refuse("neither a string nor a list with items", allowed="a string or a list")
        return value


def _version(value: Any) -> int:
    """Not a Literal: to that, `true` would be 1."""
    if type(value) is not int or value != 1:
        raise refuse("a version of the format that this fedtest does not know", allowed="1")
    return value


class Scenario(Part):
    """One testbed and what happens on it."""

    fedtest: Annotated[
        int, PlainValidator(_version), WithJsonSchema({"type": "integer", "title": "`1`"})
    ] = Field(description="The version of the format: `1`.")
    name: ScenarioName = Field(
        description="Its name: at most 40 small letters, digits and hyphens."
    )
    description: str = Field(default="", max_length=5000, description="What it shows, for people.")
    seed: int = Field(
        default=0, ge=0, lt=2**63, description="What everything random is drawn from."
    )
    deadline: Duration = Field(
        default=300.0, description="How long all processes together may run."
    )
    image: ImageName | None = Field(
        default=None,
        description="The hosts' image, one that is there or can be pulled.",
        json_schema_extra={"default": "the node image"},
    )
    build: Annotated[Build, _short("context")] | None = Field(
        default=None,
        description="The hosts' image, to be built: a directory, or the mapping. Not with `image`.",
    )
    networks: dict[NetworkName, Network] = Field(
        min_length=1, max_length=MOST, description="The networks: name -> network."
    )
    resolve: NetworkName = Field(
        default="",
        description="The network at whose addresses hosts' names resolve, the own name included; "
        "for a host that is not on it, its first network.",
        json_schema_extra={"default": "the first network"},
    )
    hosts: dict[HostName, Host] = Field(
        min_length=1, max_length=MOST, description="The hosts: name -> host."
    )
    data: Data = Field(
        default_factory=Data,
        description="Data sets: name -> directory.",
    )
    groups: dict[GroupName, Group] = Field(
        default_factory=dict, max_length=MOST, description="The process groups: name -> group."
    )
    processes: dict[ProcessName, Process] = Field(
        default_factory=dict, max_length=MOST, description="The processes: name -> process."
    )
    checks: tuple[Check, ...] = Field(
        default=(),
        strict=False,
        max_length=MOST,
        description="What must hold; judged when the processes have ended, or while they run.",
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        return cls.with_defaults(data) if isinstance(data, dict) else data

    _check = model_validator(mode="after")(_one_image)

    @staticmethod
    def with_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
        """The data with those defaults that depend on other parts, so that all see them."""
        filled = dict(data)
        networks = data.get("networks")
        if not isinstance(networks, dict) or not networks:
            return filled
        names = list(networks)
        filled.setdefault("resolve", names[0])
        if len(names) == 1 and isinstance(data.get("groups"), dict):
            filled["groups"] = {
                name: {"network": names[0], **group} if isinstance(group, dict) else group
                for name, group in data["groups"].items()
            }
        return filled

    def hosts_of(self, process: str) -> tuple[str, ...]:
        """Where a process runs, in the order of ranks for a group."""
        hosts = self.processes[process].hosts
        return self.groups[hosts].members if isinstance(hosts, str) else hosts
