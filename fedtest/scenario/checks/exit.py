"""`exit`: how a process ended."""

import signal as signals
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from fedtest.scenario.base import Part
from fedtest.scenario.checks.wording import ONE_HOST
from fedtest.scenario.comparison import Count, Counted
from fedtest.scenario.names import HostName, ProcessName
from fedtest.scenario.problems import near_miss
from fedtest.scenario.refusal import refuse

_NAMES = {item.name: int(item) for item in signals.Signals}


def _signal(value: Any) -> str:
    """`SIGKILL`, also written `KILL` or 9."""
    if type(value) is int and value in _NAMES.values():
        return signals.Signals(value).name
    if isinstance(value, str):
        name = value if value.startswith("SIG") else f"SIG{value}"
        if name in _NAMES:
            return name
        hint = near_miss(name.upper(), _NAMES)
    else:
        hint = ""
    raise refuse("not a signal", allowed="a name or a number, like SIGKILL or 9", hint=hint)


SignalName = Annotated[
    str,
    PlainValidator(_signal),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "title": "signal"}),
]


class ExitCheck(Part):
    """The process ended by itself, and how.

    An expected failure is a check like any other: `code: "!= 0"`, `signal: SIGKILL`.
    """

    process: ProcessName = Field(description="The process.")
    host: HostName | None = Field(default=None, description=ONE_HOST)
    code: Count | None = Field(
        default=None,
        description='The exit status, 0 to 255, or a comparison with it: `3`, `"!= 0"`. After a '
        "signal the status is 128 + its number.",
        json_schema_extra={"default": "`0`, without `signal`"},
    )
    signal: SignalName | None = Field(
        default=None,
        description="The signal that ended it: a name or a number. Not with `code`.",
    )

    @field_validator("code")
    @classmethod
    def _an_exit_status(cls, code: Counted | None) -> Counted | None:
        if code is not None and not 0 <= code.number <= 255:
            least_or_most = "at least 0" if code.number < 0 else "at most 255"
            raise refuse(f"no exit status is {code}", allowed=least_or_most)
        return code

    @model_validator(mode="after")
    def _one_statement(self) -> Self:
        if self.code is not None and self.signal is not None:
            raise refuse("both code and signal", allowed="at most one of code and signal")
        return self
