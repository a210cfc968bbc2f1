"""`sockets`: who listens where, and between which addresses connections are."""

from typing import Self

from pydantic import Field, model_validator

from fedtest.scenario.base import Part, at_least_one
from fedtest.scenario.checks.wording import ONE_HOST
from fedtest.scenario.names import HostName, ProcessName
from fedtest.scenario.refusal import refuse


class Listen(Part):
    """A socket that waits for connections."""

    port: int = Field(ge=1, le=65535, description="Its port.")
    local: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="Its address, a template as above; `0.0.0.0` is every address of the host.",
        json_schema_extra={"default": "any"},
    )


class SocketsCheck(Part):
    """The TCP sockets that the process had while it ran.

    They are looked for five times a second until every host has a connection,
    then less often; a connection that lives shorter than that may be missed.
    Loopback sockets do not count for `local` and `remote`, nor those with the
    ignored port at either end. A process that was never seen with a socket
    fails the check.
    """

    process: ProcessName = Field(description="The process.")
    host: HostName | None = Field(default=None, description=ONE_HOST)
    local: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="The local address that every socket has; a template, filled in for each "
        "host: `${{ nics.data.ip }}`.",
    )
    remote: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="Where every connection leads: an address, also a template, "
        "or a network: `data` is any address on it.",
    )
    listen: Listen | None = Field(default=None, description="Where it must have listened.")
    ignore_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="A port whose sockets do not count: that of the store, which listens "
        "everywhere.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        at_least_one(self, "local", "remote", "listen")
        if self.listen is not None and self.listen.port == self.ignore_port:
            raise refuse("the port to listen at is the one to ignore", allowed="another port")
        return self
