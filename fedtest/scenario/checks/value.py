"""`value`: what processes reported."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from fedtest.scenario.base import Part, exactly_one
from fedtest.scenario.checks.wording import ONE_HOST
from fedtest.scenario.comparison import Compared
from fedtest.scenario.names import HostName, ProcessName
from fedtest.scenario.refusal import refuse


class Across(Part):
    """What holds for the values of all hosts together. `equal` is short for `{equal: true}`."""

    equal: Literal[True] | None = Field(default=None, description="All values are the same.")
    within: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="The largest is at most so much above the smallest: `1e-6`.",
    )
    sum: Compared | None = Field(
        default=None,
        description='A comparison that holds for their sum: `">= 60000"`. Exactly one of the keys.',
    )

    @model_validator(mode="after")
    def _one_statement(self) -> Self:
        exactly_one(self, "equal", "within", "sum")
        return self


def _across(value: Any) -> Any:
    if isinstance(value, str):
        if value != "equal":
            raise refuse("not one of the values it can have", allowed="equal, or a mapping")
        return {"equal": True}
    return value


class ValueCheck(Part):
    """What the process reported under a name: the last value, or with `monotonic` all of them."""

    process: ProcessName = Field(description="The process.")
    host: HostName | None = Field(default=None, description=ONE_HOST)
    name: str = Field(min_length=1, max_length=200, description="The name it was reported under.")
    each: Compared | None = Field(
        default=None,
        description="What holds for the value of each host: one of `>= > <= < == !=` and a number, "
        'or `==` and `!=` with a string: `">= 0.97"`, `"== done"`.',
    )
    across: Annotated[Across, BeforeValidator(_across)] | None = Field(
        default=None, description="What holds across hosts: `equal`, or the mapping."
    )
    monotonic: Literal["increasing", "decreasing"] | None = Field(
        default=None,
        description="What holds over time, on each host: `increasing` never falls, `decreasing` "
        "never rises; of fewer than two values neither can be said.",
    )

    @model_validator(mode="after")
    def _one_statement(self) -> Self:
        exactly_one(self, "each", "across", "monotonic")
        return self
