"""Moments in a run that checks can name: what happened to a process, and when."""

from typing import Literal, Self

from pydantic import Field, model_validator

from fedtest.scenario.base import Part, at_least_one, exactly_one
from fedtest.scenario.names import HostName, ProcessName
from fedtest.scenario.patterns import Pattern


class Moment(Part):
    """When something happens to a process."""

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
    state: Literal["started", "exited"] | None = Field(
        default=None,
        description="It starts, or ends in whatever way. Exactly one of `log`, `value`, `state`.",
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        at_least_one(self, "process", "host")
        exactly_one(self, "log", "value", "state")
        return self
