"""The processes on hosts, and the groups they form."""

from typing import Annotated, Any, Self

from pydantic import (
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)

from fedtest.scenario.base import LIST, MAPPING, STRING, Part, at_least_one, exactly_one
from fedtest.scenario.moments import Moment
from fedtest.scenario.names import EnvironmentName, GroupName, HostName, NetworkName, User
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Duration

DEFAULT_PORT = 29500  # torch's
_MOST_CONDITIONS = 100

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


def _mapping_or_list(value: Any) -> str:
    return LIST if isinstance(value, (tuple, list)) else MAPPING


class Condition(Moment):
    """What must have happened before a process starts: a moment, or that a port is listened on.

    A moment of a process must have come on every host that it is about; where
    only `host` is named, a line or a value of any process there will do.
    """

    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Something listens on this TCP port of `host`, so it is ready. With `host` "
        "alone; it is looked at a few times a second.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        at_least_one(self, "process", "host")
        exactly_one(self, "log", "value", "state", "port")
        if self.port is not None and self.process is not None:
            raise refuse("both process and port", allowed="a port with its host alone")
        return self


class Process(Part):
    """A command on some hosts, with environment, log and exit status.

    Unless an `exit` check is about it, it must end with status 0; one that is a
    `service` must run until it is asked to end.
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
        description="How long it may run, from its own start, before the run ends as failed.",
        json_schema_extra={"default": "the scenario's"},
    )
    after: Annotated[
        Annotated[Condition, Tag(MAPPING)]
        | Annotated[tuple[Condition, ...], Field(max_length=_MOST_CONDITIONS), Tag(LIST)],
        Discriminator(_mapping_or_list),
    ] = Field(
        default=(),
        description="It starts when all of this has happened, on all its hosts; without it at "
        "once. When something of it cannot happen any more, because whoever it is about has ended "
        "without it (also by going into the background), the run ends as failed.",
    )
    service: bool = Field(
        default=False,
        description="It runs until every other process has ended, then it is asked to end "
        "(SIGTERM, SIGKILL if it has not after 3 s). An `exit` check about it sees the status that "
        "comes of that, 143 if it does nothing about SIGTERM.",
    )

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All of `after`."""
        return self.after if isinstance(self.after, tuple) else (self.after,)

    @field_validator("after", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        if isinstance(value, list):
            value = tuple(value)
        if value is None or isinstance(value, (str, int, float)):
            raise refuse("neither a mapping nor a list", allowed="a condition, or a list of them")
        return value

    @field_validator("hosts", "run", mode="before")
    @classmethod
    def _tuples(cls, value: Any) -> Any:
        if isinstance(value, list):
            value = tuple(value)
        if not value or not isinstance(value, (str, tuple)):
            raise refuse("neither a string nor a list with items", allowed="a string or a list")
        return value

    @field_validator("run")
    @classmethod
    def _program(cls, value: Any) -> Any:
        if isinstance(value, tuple) and not value[0]:
            raise refuse("a list without a program", allowed="its name or path first")
        return value
