"""`bytes` and `packets`: what went through interfaces."""

from collections.abc import Callable
from typing import Literal, Self

from pydantic import Field, model_validator

from fedtest.scenario.base import Part, exactly_one
from fedtest.scenario.names import GroupName, HostName, NetworkName
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Size, format_size

_GROUP = "Each member of this group."
_HOST = "This host. Either `group` or `host`."
_NETWORK = "The interface on this network."
_DIRECTION = "`tx`: sent, `rx`: received."
_PEER = (
    "Only what goes to this host, or comes from it, by its addresses on the network: bytes of IP, "
    "counted by rules in the host. Not with `eventually` and `always`, and not across a restart."
)
_MIN = "At least so {many}, for each host."
_MAX = "At most so {many}, for each host. At least one of `min` and `max`."
_LIMIT = 10**15


class BytesCheck(Part):
    """Bytes through an interface, by the kernel's counters.

    They are counted from when the network is ready to the end of the
    processes, on each host's interface on `network`.
    """

    group: GroupName | None = Field(default=None, description=_GROUP)
    host: HostName | None = Field(default=None, description=_HOST)
    network: NetworkName = Field(description=_NETWORK)
    direction: Literal["tx", "rx"] = Field(description=_DIRECTION)
    peer: HostName | None = Field(default=None, description=_PEER)
    min: Size | None = Field(default=None, description=_MIN.format(many="much"))
    max: Size | None = Field(default=None, description=_MAX.format(many="much"))

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        exactly_one(self, "group", "host")
        _bounds(self.min, self.max, format_size)
        return self


class PacketsCheck(Part):
    """Packets through an interface, counted as bytes are.

    The kernel counts what it hands to the interface: with segmentation offload
    one packet there may be many on a wire.
    """

    group: GroupName | None = Field(default=None, description=_GROUP)
    host: HostName | None = Field(default=None, description=_HOST)
    network: NetworkName = Field(description=_NETWORK)
    direction: Literal["tx", "rx"] = Field(description=_DIRECTION)
    peer: HostName | None = Field(default=None, description=_PEER)
    min: int | None = Field(default=None, ge=0, le=_LIMIT, description=_MIN.format(many="many"))
    max: int | None = Field(default=None, ge=0, le=_LIMIT, description=_MAX.format(many="many"))

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        exactly_one(self, "group", "host")
        _bounds(self.min, self.max, str)
        return self


TrafficCheck = BytesCheck | PacketsCheck


def _bounds(low: int | None, high: int | None, form: Callable[[int], str]) -> None:
    if low is None and high is None:
        raise refuse("neither min nor max", allowed="at least one of min and max")
    if low is not None and high is not None and low > high:
        message = f"min is {form(low)}, max is {form(high)}"
        raise refuse(f"nothing can hold: {message}", allowed="a min that is at most max")
