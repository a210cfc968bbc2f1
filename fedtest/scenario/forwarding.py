"""Where a host sends packets for others' networks, and whether it passes on those of others."""

from pydantic import Field

from fedtest.scenario.base import Part
from fedtest.scenario.ip_types import Destination, Place
from fedtest.scenario.names import NetworkName


class Forward(Part):
    """A host that passes packets on between its networks. `true` is short for `{}`."""

    nat: NetworkName | None = Field(
        default=None,
        description="Packets that leave by this network get the host's own address there, so that "
        "hosts on it need no route back.",
    )


class Route(Part):
    """A way to a network that the host is not on."""

    to: Destination = Field(
        description="Where: a network of the scenario, or a prefix like `10.1.0.0/16`."
    )
    via: Place = Field(
        description="Over whom: a host that shares a network with this one, or an address on one "
        "of this host's networks."
    )
