"""The moments at which faults come and go."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from fedtest.scenario.base import MAPPING, STRING, at_least_one, exactly_one
from fedtest.scenario.moments import FaultMomentField, Moment, form
from fedtest.scenario.names import NetworkName
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Size


class Occasion(Moment):
    """A [moment](#moments) at which a fault comes or is healed; or `FAULT.applied`, `FAULT.healed`.

    For `bytes` hosts are looked at several times a second.
    """

    network: NetworkName | None = Field(
        default=None, description="The network that `bytes` go over; needs a `host` on it."
    )
    direction: Literal["tx", "rx"] = Field(
        default="tx", description="Whether they are sent or received by the host."
    )
    bytes: Size | None = Field(
        default=None,
        description="So many bytes have gone over the host's interface since the processes' "
        "start, headers included. Exactly one of `log`, `value`, `state`, `bytes`.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        at_least_one(self, "process", "host")
        exactly_one(self, "log", "value", "state", "bytes")
        self._compares()
        if (self.bytes is None) != (self.network is None):
            raise refuse("only one of bytes and network", allowed="bytes together with network")
        if self.bytes is not None and (self.host is None or self.process is not None):
            raise refuse("bytes are a host's", allowed="bytes with host, and without process")
        return self


Trigger = Annotated[
    Annotated[Occasion, Tag(MAPPING)] | Annotated[FaultMomentField, Tag(STRING)],
    Discriminator(form),
]
