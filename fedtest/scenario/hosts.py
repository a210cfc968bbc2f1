"""Networks, and the hosts on them: what each is, and what it is made from."""

import os
from pathlib import Path
from typing import Annotated, Protocol, Self, TypeVar

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from fedtest.scenario.base import MOST, Part
from fedtest.scenario.links import Firewall, Link, Occupied, Pair
from fedtest.scenario.names import ImageName, InterfaceName, Ip, NetworkName, Subnet
from fedtest.scenario.refusal import refuse

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


def short(key: str) -> BeforeValidator:
    """A string is short for a mapping with one key."""
    return BeforeValidator(lambda value: value if isinstance(value, (dict, Part)) else {key: value})


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

    firewall: Firewall | None = Field(
        default=None, description="What it lets in; without it everything."
    )
    ports_in_use: tuple[Occupied, ...] = Field(
        default=(),
        strict=False,
        max_length=MOST,
        description="Ports that something of another kind has taken: numbers, or mappings.",
    )

    _check = model_validator(mode="after")(one_image)
