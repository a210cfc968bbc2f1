"""Faults of what a host knows and keeps."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from fedtest.scenario.base import MOST, Part
from fedtest.scenario.names import Directory, HostName, Ip

KnownName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,252})$")]


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

    Meant for a small one of its own (`tmpfs` of the host): more than 1 GB is
    not filled. Confirmed: not a byte more can be written, and when healed it can.
    """

    host: HostName = Field(description="The host.")
    path: Directory = Field(description="A directory on the file system.")
