"""Moments in a run that checks can name: what happened to a process or a fault, and when."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from fedtest.scenario.base import MAPPING, STRING, Part, at_least_one, exactly_one
from fedtest.scenario.comparison import Compared
from fedtest.scenario.names import HostName, ProcessName
from fedtest.scenario.patterns import Pattern
from fedtest.scenario.refusal import refuse

FAULT_STATES = ("applied", "healed")


class Moment(Part):
    """When something happens to a process.

    Where `FAULT.applied` or `FAULT.healed` is allowed, too, it is when the fault
    with that `id` was seen to be in effect, or to be over.
    """

    process: ProcessName | None = Field(
        default=None,
        description="The process.",
        json_schema_extra={"default": "every process on `host`"},
    )
    host: HostName | None = Field(
        default=None,
        description="The host. At least one of `process` and `host`.",
        json_schema_extra={"default": "every host that `process` runs on"},
    )
    log: Pattern | None = Field(
        default=None, description="It prints a line that matches this regular expression."
    )
    value: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="It reports a value under this name.",
    )
    is_: Compared | None = Field(
        default=None,
        alias="is",
        description='What the `value` must be: `">= 3"`.',
        json_schema_extra={"default": "anything"},
    )
    state: Literal["started", "exited", "succeeded"] | None = Field(
        default=None,
        description="It starts, ends in whatever way, or ends with status 0. Exactly one of "
        "`log`, `value`, `state`.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        at_least_one(self, "process", "host")
        exactly_one(self, "log", "value", "state")
        self._compares()
        return self

    def _compares(self) -> None:
        if self.is_ is not None and self.value is None:
            raise refuse("is without value", allowed="is together with value")


@dataclass(frozen=True, slots=True)
class FaultMoment:
    """When a fault came into effect, or was over: `ID.applied`, `ID.healed`."""

    fault: str
    state: Literal["applied", "healed"]

    def __str__(self) -> str:
        return f"{self.fault}.{self.state}"


def _fault_moment(value: Any) -> FaultMoment:
    if isinstance(value, FaultMoment):
        return value
    fault, _, state = str(value).rpartition(".")
    if not fault or state not in FAULT_STATES:
        allowed = "FAULT.applied or FAULT.healed, where FAULT is a fault's id; or a mapping"
        raise refuse("not a moment", allowed=allowed)
    return FaultMoment(fault, cast('Literal["applied", "healed"]', state))


FaultMomentField = Annotated[
    FaultMoment,
    PlainValidator(_fault_moment),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "title": "`FAULT.applied` or `FAULT.healed`"}),
]


def form(value: Any) -> str:
    """Which of the two, so that errors speak of the one that was meant."""
    return STRING if isinstance(value, (str, FaultMoment)) else MAPPING


AnyMoment = Annotated[
    Annotated[Moment, Tag(MAPPING)] | Annotated[FaultMomentField, Tag(STRING)],
    Discriminator(form),
]
