"""What is broken on purpose. A further kind is a model in a file here and a field of `Fault`."""

from typing import Self

from pydantic import Field, model_validator

from fedtest.scenario.base import Part, exactly_one
from fedtest.scenario.faults.files import FillFault, ResolveFault
from fedtest.scenario.faults.machines import (
    AnyOf,
    KillFault,
    PauseFault,
    RestartFault,
    StopFault,
)
from fedtest.scenario.faults.networks import (
    BlockFault,
    CutFault,
    InterfaceFault,
    LinkFault,
    PartitionFault,
)
from fedtest.scenario.faults.spans import SpanField
from fedtest.scenario.faults.triggers import Trigger
from fedtest.scenario.names import CheckId
from fedtest.scenario.refusal import refuse

__all__ = [
    "HEALED",
    "KINDS",
    "AnyOf",
    "BlockFault",
    "CutFault",
    "Fault",
    "FillFault",
    "InterfaceFault",
    "KillFault",
    "LinkFault",
    "PartitionFault",
    "PauseFault",
    "Repeat",
    "ResolveFault",
    "RestartFault",
    "StopFault",
]

AT_ONCE = ("kill", "restart")
"""Kinds that are over when they are applied."""


class Repeat(Part):
    """The fault comes again."""

    times: int = Field(ge=2, le=1000, description="How often it comes in all.")
    every: SpanField = Field(
        description="From one time to the next, if the one before is healed by then; otherwise "
        "as soon as it is."
    )


class Fault(Part):
    """Something that is broken on purpose: exactly one kind.

    It is confirmed by measuring when it is applied and when it is healed. A
    fault that was not applied, or not healed, makes the run invalid; so does
    one whose time never came. One that lies within a host (a signal, a process
    that stands still, names, a full disk) is healed when no fault pauses that host
    any more, and cannot be applied while one does; to a host that is off none can be.
    Where two do the same, it is so until both are healed. What is drawn (`5s..20s`, `any`)
    is drawn from the scenario's `seed`: the same seed gives the same faults at the same times.
    """

    id: CheckId | None = Field(
        default=None,
        description="A name for it: in reports, and in checks as the moments `ID.applied` and "
        "`ID.healed`; unique.",
        json_schema_extra={"default": "the kind and its place, like `cut-1`"},
    )
    at: SpanField | None = Field(
        default=None,
        description="How long after `when`. At least one of `at` and `when`.",
        json_schema_extra={"default": "at once"},
    )
    when: Trigger | None = Field(
        default=None,
        description="The moment at which it comes; of several hosts, the first of them.",
        json_schema_extra={"default": "the start of the processes"},
    )
    lasts: SpanField | None = Field(
        default=None,
        alias="for",
        description="How long it lasts, from when it is in effect everywhere. It never lasts "
        "for less. It is healed when that time is over, before anything else is applied, but not "
        "before it has been measured: that takes about a second for what keeps packets from "
        "arriving, for links some more, and a shorter fault lasts that long. When it was in "
        "effect and when it was over is in the result.",
    )
    until: Trigger | None = Field(
        default=None,
        description="The moment at which it is healed, after it was applied. Not with `for`.",
        json_schema_extra={"default": "the end of the processes, without `for`"},
    )
    repeat: Repeat | None = Field(default=None, description="It comes again.")
    kill: KillFault | None = Field(default=None, description="A signal for a process.")
    pause: PauseFault | None = Field(default=None, description="A process or host stands still.")
    restart: RestartFault | None = Field(
        default=None, description="A process or host ends and comes back."
    )
    stop: StopFault | None = Field(default=None, description="A host is off.")
    partition: PartitionFault | None = Field(
        default=None, description="Sides of a network do not reach each other."
    )
    cut: CutFault | None = Field(default=None, description="Nothing comes through.")
    link: LinkFault | None = Field(default=None, description="Other conditions on a network.")
    interface: InterfaceFault | None = Field(
        default=None, description="An interface is down, or has another name or address."
    )
    block: BlockFault | None = Field(default=None, description="Ports let nothing in.")
    resolve: ResolveFault | None = Field(default=None, description="Names lead elsewhere.")
    fill: FillFault | None = Field(default=None, description="A disk is full.")

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        exactly_one(self, *KINDS)
        if self.at is None and self.when is None:
            raise refuse("neither at nor when", allowed="at least one of at and when")
        if self.lasts is not None and self.until is not None:
            raise refuse("both for and until", allowed="at most one of for and until")
        if self.kind in AT_ONCE and (self.lasts is not None or self.until is not None):
            message = f"a {self.kind} does not last"
            raise refuse(message, allowed="for and until with the other kinds")
        if self.lasts is not None and self.lasts.high == 0:
            raise refuse("a fault that lasts no time", allowed="for of more than 0")
        lasting = self.lasts is not None or self.until is not None or self.kind in AT_ONCE
        if self.repeat is not None and not lasting:
            message = "it would still be there when it comes again"
            raise refuse(message, allowed="repeat together with for or until")
        return self

    @property
    def kind(self) -> str:
        """The name of the kind this is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def spec(self) -> Part:
        """The fault itself, whatever its kind."""
        spec: Part = getattr(self, self.kind)
        return spec


_COMMON = {"id", "at", "when", "lasts", "until", "repeat"}
KINDS = tuple(name for name in Fault.model_fields if name not in _COMMON)
