"""The kinds of checks. A further kind is a model here and a field of `Check`."""

from typing import Literal, Self

from pydantic import Field, model_validator

from fedtest.scenario.base import Part
from fedtest.scenario.comparison import Compared
from fedtest.scenario.names import CheckId, GroupName, HostName, NetworkName, ProcessName
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Size, format_size

_ONE_HOST = "Only the process on this host; without it, on every host it runs on."


class ExitCheck(Part):
    """The process ended by itself with this status. After a signal it is 128 + its number."""

    process: ProcessName = Field(description="The process.")
    host: HostName | None = Field(default=None, description=_ONE_HOST)
    code: int = Field(default=0, ge=0, le=255, description="The exit status.")


class ValueCheck(Part):
    """The last value that the process reported under a name."""

    process: ProcessName = Field(description="The process.")
    host: HostName | None = Field(default=None, description=_ONE_HOST)
    name: str = Field(min_length=1, max_length=200, description="The name it was reported under.")
    each: Compared | None = Field(
        default=None,
        description="What holds for the value of each host: one of `>= > <= < == !=` and a number, "
        'or `==` and `!=` with a string: `">= 0.97"`, `"== done"`.',
    )
    across: Literal["equal"] | None = Field(
        default=None, description="What holds across hosts: `equal`, all values are the same."
    )

    @model_validator(mode="after")
    def _one_statement(self) -> Self:
        _exactly_one(self, "each", "across")
        return self


class BytesCheck(Part):
    """Bytes through an interface, by the kernel's counters.

    They are counted from when the network is ready to the end of the
    processes, on each host's interface on `network`.
    """

    group: GroupName | None = Field(default=None, description="Each member of this group.")
    host: HostName | None = Field(default=None, description="This host. Either `group` or `host`.")
    network: NetworkName = Field(description="The interface on this network.")
    direction: Literal["tx", "rx"] = Field(description="`tx`: sent, `rx`: received.")
    min: Size | None = Field(default=None, description="At least so much, for each host.")
    max: Size | None = Field(
        default=None, description="At most so much, for each host. At least one of `min` and `max`."
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        _exactly_one(self, "group", "host")
        if self.min is None and self.max is None:
            raise refuse("neither min nor max", allowed="at least one of min and max")
        if self.min is not None and self.max is not None and self.min > self.max:
            message = f"min is {format_size(self.min)}, max is {format_size(self.max)}"
            raise refuse(f"nothing can hold: {message}", allowed="a min that is at most max")
        return self


class SocketsCheck(Part):
    """Every TCP socket that the process had while it ran has one local address.

    They are looked for five times a second until every host has a connection,
    then less often; a connection that lives shorter than that may be missed.
    Loopback sockets do not count, nor those with the ignored port at either
    end. A process that was never seen with a socket fails the check.
    """

    process: ProcessName = Field(description="The process.")
    host: HostName | None = Field(default=None, description=_ONE_HOST)
    local: str = Field(
        min_length=1,
        max_length=500,
        description="The local address; a template, filled in for each host: "
        "`${{ nics.data.ip }}`.",
    )
    ignore_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="A port whose sockets do not count: that of the store, which listens "
        "everywhere.",
    )


class Check(Part):
    """A statement that must hold: exactly one kind."""

    id: CheckId | None = Field(default=None, description="A name for it in reports; unique.")
    exit: ExitCheck | None = Field(default=None, description="The exit status of a process.")
    value: ValueCheck | None = Field(default=None, description="A value that processes report.")
    bytes: BytesCheck | None = Field(default=None, description="Bytes through an interface.")
    sockets: SocketsCheck | None = Field(
        default=None, description="Local addresses of TCP sockets."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        _exactly_one(self, *KINDS)
        return self

    @property
    def kind(self) -> str:
        """The name of the kind this is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def spec(self) -> Part:
        """The check itself, whatever its kind."""
        spec: Part = getattr(self, self.kind)
        return spec


KINDS = tuple(name for name in Check.model_fields if name != "id")


def _exactly_one(part: Part, *names: str) -> None:
    there = [name for name in names if getattr(part, name) is not None]
    if len(there) != 1:
        found = f"both {' and '.join(there)}" if there else f"none of {', '.join(names)}"
        raise refuse(found, allowed=f"exactly one of {', '.join(names)}")
