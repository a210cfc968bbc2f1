"""Faults of what a host knows and keeps."""

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, StringConstraints, WithJsonSchema

from fedtest.scenario.base import MOST, Part
from fedtest.scenario.names import HostName, Ip
from fedtest.scenario.refusal import refuse

KnownName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,252})$")]


def _place(value: Any) -> str:
    """Any directory: what may not be mounted over, like /dev/shm, can be filled all the same."""
    allowed = "an absolute path in the host, like /dev/shm"
    if not isinstance(value, str) or not value.isprintable() or len(value) > 200:
        raise refuse("not a directory", allowed=allowed)
    path = PurePosixPath(value)
    if not path.is_absolute() or ".." in path.parts:
        raise refuse("not a directory", allowed=allowed)
    return str(path)


Place = Annotated[
    str,
    PlainValidator(_place),
    WithJsonSchema({"type": "string", "title": "absolute path"}),
]


class ResolveFault(Part):
    """Names lead elsewhere, or nowhere: /etc/hosts changes under running processes.

    Confirmed by reading the file back.
    """

    host: HostName | None = Field(
        default=None,
        description="The host that is deceived.",
        json_schema_extra={"default": "every host"},
    )
    names: dict[KnownName, Ip | Literal["missing"] | HostName] = Field(
        min_length=1,
        max_length=MOST,
        description="Name -> an address, a host whose address it gets, or `missing`.",
    )


class FillFault(Part):
    """A file system has no room left: a file takes all of it.

    Meant for a small one, like /dev/shm: more than 1 GB is
    not filled. Confirmed: not a byte more can be written, and when healed it can.
    A file system that several fill has room again when all of them are over.
    """

    host: HostName = Field(description="The host.")
    path: Place = Field(description="A directory on the file system.")
