"""The processes on hosts, and the groups they form."""

from typing import Annotated, Any

from pydantic import Discriminator, Field, StringConstraints, Tag, field_validator

from fedtest.scenario.base import LIST, STRING, Part
from fedtest.scenario.names import EnvironmentName, GroupName, HostName, NetworkName, User
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Duration

DEFAULT_PORT = 29500  # torch's

# What a kernel takes as one argument is 128 KiB.
Text = Annotated[str, StringConstraints(max_length=100_000)]
Command = Annotated[Text, StringConstraints(pattern=r"\S")]


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
