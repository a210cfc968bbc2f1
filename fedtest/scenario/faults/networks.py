"""Faults of networks, of interfaces and of what hosts let in."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic.config import JsonDict

from fedtest.scenario.base import MOST, Part, exactly_one
from fedtest.scenario.links import PairLink, Ports
from fedtest.scenario.names import MAX_NAME, HostName, InterfaceName, Ip, NetworkName
from fedtest.scenario.refusal import refuse

_SENDS: JsonDict = {"default": "every host on the network"}


Member = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME)]
Side = Annotated[tuple[Member, ...], Field(strict=False, min_length=1, max_length=MOST)]


class PartitionFault(Part):
    """Hosts on different sides do not reach each other on one network; others stay up.

    Packets are dropped where they arrive. Confirmed on every way: what is sent
    does not arrive, and when healed it does.
    """

    network: NetworkName = Field(description="The network.")
    sides: tuple[Side, ...] = Field(
        strict=False,
        min_length=2,
        max_length=MOST,
        description="Lists of hosts or groups. Who is on none is cut off from nobody.",
    )
    way: Literal["both", "forward"] = Field(
        default="both",
        description="`forward`: only what a side sends to those after it is dropped.",
    )


class CutFault(Part):
    """Nothing comes through: on a network, or on the way from one host to another.

    Packets are dropped where they arrive, those of a host by its address: what it
    forwards for others has theirs, and passes a `cut` of it. Confirmed on every
    way: what is sent does not arrive, and when healed it does.
    """

    network: NetworkName = Field(description="The network.")
    sender: HostName | None = Field(
        default=None,
        alias="from",
        description="The host whose packets are dropped.",
        json_schema_extra=_SENDS,
    )
    receiver: HostName | None = Field(
        default=None,
        alias="to",
        description="The host that gets none.",
        json_schema_extra=_SENDS,
    )

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.sender is not None and self.sender == self.receiver:
            raise refuse("from and to are the same host", allowed="two hosts")
        return self


class LinkFault(Part):
    """The conditions of links change; when healed they are as before.

    Other ways keep what they have, but for one thing: a host to which another delay
    or jitter begins loses what is on its way to it, and for about a quarter of a
    second packets reach it without delay. Confirmed by reading back and by
    measuring beside the traffic there is: the delay and the loss are not less than
    asked for, the rate is not more.
    """

    network: NetworkName = Field(description="The network.")
    sender: HostName | None = Field(
        default=None, alias="from", description="The host that sends.", json_schema_extra=_SENDS
    )
    receiver: HostName | None = Field(
        default=None, alias="to", description="The host that receives.", json_schema_extra=_SENDS
    )
    change: PairLink = Field(
        description="What is done to the packets; keys that are not there stay as they are."
    )

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.sender is not None and self.sender == self.receiver:
            raise refuse("from and to are the same host", allowed="two hosts")
        return self


class InterfaceFault(Part):
    """An interface goes down, gets another name, or another address, under running processes.

    Confirmed by reading the interface back. Links and the host's other settings
    follow the interface; names still lead to its old address.
    """

    host: HostName = Field(description="The host.")
    network: NetworkName = Field(description="The network that the interface is on.")
    down: Literal[True] | None = Field(
        default=None, description="`true`: it is down. Exactly one of `down`, `name`, `ip`."
    )
    name: InterfaceName | None = Field(default=None, description="Its new name.")
    ip: Ip | None = Field(
        default=None,
        description="Its new address, in the same network, which needs a `subnet`. It is kept "
        "free: no host gets it by itself.",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        exactly_one(self, "down", "name", "ip")
        return self


class BlockFault(Part):
    """Ports of a host let nothing in any more, TCP or UDP, open connections included.

    Confirmed: what is sent to them by UDP, and connections that are begun by TCP, do not
    arrive, and when healed they do.
    """

    host: HostName = Field(description="The host.")
    ports: tuple[Ports, ...] = Field(
        strict=False, min_length=1, max_length=MOST, description="Ports or ranges of ports."
    )
    sender: HostName | None = Field(
        default=None,
        alias="from",
        description="Only what this host sends.",
        json_schema_extra=_SENDS,
    )
    answer: Literal["drop", "reject"] = Field(
        default="drop", description="`reject`: who sends is told; `drop`: nobody answers."
    )
