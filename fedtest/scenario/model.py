"""The scenario: the typed shape of the file, and what can be said of each part alone.

What needs more than one part (references, subnets, templates) is looked at in
`references`, so that all of it can be reported although a part is wrong. The
descriptions here are the reference in docs/scenario.md.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema, field_validator, model_validator

from fedtest.scenario.base import MOST, Part, short
from fedtest.scenario.checks import Check
from fedtest.scenario.counted import Counted
from fedtest.scenario.faults import Fault
from fedtest.scenario.hosts import Build, Host, Network, beside_an_image, one_image
from fedtest.scenario.names import (
    Directory,
    GroupName,
    HostName,
    ImageName,
    ModuleName,
    NetworkName,
    ProcessName,
    ScenarioName,
)
from fedtest.scenario.processes import Group, Process
from fedtest.scenario.provisions import Env, Files, Mounts, SecretName, SecretSource, Sysctls
from fedtest.scenario.refusal import refuse
from fedtest.scenario.resolution import DnsAnswer, DomainName
from fedtest.scenario.units import Duration


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
        default=300.0,
        description="How long all processes together may run, waiting for each other included.",
    )
    image: ImageName | None = Field(
        default=None,
        description="The hosts' image, one that is there or can be pulled.",
        json_schema_extra={"default": "the node image"},
    )
    build: Annotated[Build, short("context")] | None = Field(
        default=None,
        description="The hosts' image, to be built: a directory, or the mapping. Not with `image`.",
    )
    image_optional: bool = Field(
        default=False,
        description="Where hosts are from no image (`--engine netns`), the run goes without it "
        "and is not refused; what it brings must then be in the Python that hosts run "
        "(`--python`). Beside `image` or `build`.",
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
    dns: dict[DomainName, DnsAnswer] = Field(
        default_factory=dict,
        max_length=MOST,
        description="What a DNS server answers all hosts: an address, a host (its addresses), "
        "`nxdomain`, `servfail`, or `silent` (never anything). It knows no other names. Their "
        "/etc/resolv.conf then names it, and nothing else; /etc/hosts comes before it, so that a "
        "host's name needs `names: {NAME: missing}` to get there. Asked once for each name before "
        "processes start.",
    )
    hosts: dict[HostName, Host] = Field(
        min_length=1, max_length=MOST, description="The hosts: name -> host."
    )
    env: Env = Field(
        default_factory=dict,
        description="Environment variables of all processes; those of a host, then a process's "
        "own, win. Templates.",
    )
    files: Files = Field(
        default_factory=dict,
        max_length=MOST,
        description="Files that are put into every host; at the same path a host's own wins.",
    )
    mounts: Mounts = Field(
        default_factory=dict,
        max_length=MOST,
        description="Directories of this machine that every host sees; a host's own wins.",
    )
    sysctls: Sysctls = Field(
        default_factory=dict,
        max_length=MOST,
        description="Settings of the kernel for every host; a host's own win.",
    )
    secrets: dict[SecretName, SecretSource] = Field(
        default_factory=dict,
        max_length=MOST,
        description="Values that appear in no artifact: name -> where they come from.",
    )
    data: Data = Field(
        default_factory=Data,
        description="Data sets: name -> directory.",
    )
    preload: tuple[ModuleName, ...] | None = Field(
        default=None,
        strict=False,
        max_length=MOST,
        description="What Python processes find imported already where an engine starts them warm "
        "(`python -m MODULE ...`, `python FILE ...`); those that are not installed are done "
        "without. `torch._dynamo` saves DistributedDataParallel two seconds.",
        json_schema_extra={
            "default": "`torch`, `torchvision` if `fedtest.ring` or `fedtest.comm` runs"
        },
    )
    groups: dict[GroupName, Group] = Field(
        default_factory=dict, max_length=MOST, description="The process groups: name -> group."
    )
    processes: dict[ProcessName, Process] = Field(
        default_factory=dict, max_length=MOST, description="The processes: name -> process."
    )
    faults: tuple[Fault, ...] = Field(
        default=(),
        strict=False,
        max_length=MOST,
        description="What is broken on purpose, and when.",
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
        return cls.with_defaults(Counted.of(data).data) if isinstance(data, dict) else data

    _check = model_validator(mode="after")(one_image)
    _beside = field_validator("image_optional")(beside_an_image)

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
