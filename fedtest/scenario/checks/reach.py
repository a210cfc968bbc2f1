"""`reach`: whether one host can connect to another."""

from typing import Literal

from pydantic import Field

from fedtest.scenario.base import Part
from fedtest.scenario.names import HostName, NetworkName
from fedtest.scenario.units import Duration


class ReachCheck(Part):
    """A connection from a host to a port of another, tried out from the first.

    It is tried when the processes have ended, when mostly nobody listens any
    more; `eventually` or `always` try it while they run. Who listens sees a
    connection that is closed at once.
    """

    start: HostName = Field(alias="from", description="The host that connects.")
    to: HostName = Field(description="The host that is connected to.")
    network: NetworkName | None = Field(
        default=None,
        description="The network whose address of `to` is tried.",
        json_schema_extra={"default": "where names resolve, or the first that both are on"},
    )
    port: int = Field(ge=1, le=65535, description="The port.")
    protocol: Literal["tcp"] = Field(default="tcp", description="What is spoken.")
    reachable: bool = Field(
        default=True,
        description="Whether a connection comes to be; a port at which nobody listens is not "
        "reachable either.",
    )
    timeout: Duration = Field(default=2.0, description="How long is waited for it.")
