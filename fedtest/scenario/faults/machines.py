"""Faults of processes and of whole hosts."""

from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic.config import JsonDict

from fedtest.scenario.base import LIST, MAPPING, STRING, Part, at_least_one
from fedtest.scenario.checks.exit import SignalName
from fedtest.scenario.names import GroupName, HostName, ProcessName


class AnyOf(Part):
    """One host of several, drawn from the seed, anew for each time that the fault is repeated."""

    any: Annotated[
        Annotated[GroupName, Tag(STRING)]
        | Annotated[tuple[HostName, ...], Field(strict=False, min_length=1), Tag(LIST)],
        Discriminator(lambda value: STRING if isinstance(value, str) else LIST),
    ] = Field(description="The hosts to draw from: a group, or a list.")


def _which(value: Any) -> str:
    return MAPPING if isinstance(value, (dict, AnyOf)) else STRING


HostChoice = Annotated[
    Annotated[HostName, Tag(STRING)] | Annotated[AnyOf, Tag(MAPPING)], Discriminator(_which)
]
_EVERY: JsonDict = {"default": "every host that it runs on"}
_WHICH = "The host, or `{any: ...}` for one of several."


class KillFault(Part):
    """A process, with all that it started, gets a signal.

    Confirmed: it was there, and the kernel took the signal for it; and after SIGKILL it is gone.
    """

    process: ProcessName = Field(description="The process.")
    host: HostChoice | None = Field(default=None, description=_WHICH, json_schema_extra=_EVERY)
    signal: SignalName = Field(default="SIGKILL", description="The signal: a name or a number.")


class PauseFault(Part):
    """A process stops (SIGSTOP) and goes on (SIGCONT) when healed; or a whole host stands still.

    A process: its peers' packets are still acknowledged, by the kernel. A host:
    so are they, because engines stop its processes, not its network.
    Confirmed by the states of its processes, or of the host. What is restarted
    or switched off meanwhile does not stand still afterwards.
    """

    process: ProcessName | None = Field(
        default=None, description="The process.", json_schema_extra={"default": "the whole host"}
    )
    host: HostChoice | None = Field(
        default=None,
        description=f"{_WHICH} At least one of `process` and `host`.",
        json_schema_extra=_EVERY,
    )

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        at_least_one(self, "process", "host")
        return self


class RestartFault(Part):
    """A process is killed and started again; or a host loses power and comes back.

    Confirmed: the old processes are gone, the host is as the scenario asks
    again, and the new processes run. It heals itself.
    """

    process: ProcessName | None = Field(
        default=None, description="The process.", json_schema_extra={"default": "the whole host"}
    )
    host: HostChoice | None = Field(
        default=None,
        description=f"{_WHICH} At least one of `process` and `host`.",
        json_schema_extra=_EVERY,
    )
    start: bool = Field(
        default=True, description="Whether the processes of a host start again; a process does."
    )

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        at_least_one(self, "process", "host")
        return self


class StopFault(Part):
    """A host loses power, until it is healed.

    Confirmed: it is off; and when healed, as the scenario asks again.
    """

    host: HostChoice = Field(description=_WHICH)
    start: bool = Field(
        default=True, description="Whether its processes start again when it is healed."
    )
