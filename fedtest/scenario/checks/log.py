"""`log`: what processes print."""

from typing import Literal, Self

from pydantic import Field, model_validator

from fedtest.scenario.base import Part, exactly_one
from fedtest.scenario.checks.wording import ONE_HOST
from fedtest.scenario.comparison import Compared, Count
from fedtest.scenario.moments import AnyMoment
from fedtest.scenario.names import HostName, ProcessName
from fedtest.scenario.patterns import Pattern, groups
from fedtest.scenario.problems import listed
from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import Duration


class LogCheck(Part):
    """Lines that the process prints, or does not print, on each host."""

    process: ProcessName = Field(description="The process.")
    host: HostName | None = Field(default=None, description=ONE_HOST)
    stream: Literal["stdout", "stderr"] | None = Field(
        default=None,
        description="Only lines of this stream.",
        json_schema_extra={"default": "both"},
    )
    match: Pattern | None = Field(
        default=None,
        description="A regular expression that lines match, anywhere in the line. Groups with a "
        "name are for `where`: `acc=(?P<acc>[0-9.]+)`.",
    )
    where: dict[str, Compared] = Field(
        default_factory=dict,
        max_length=20,
        description="What holds for named groups of `match`, or the line does not count: "
        'group -> comparison, as `{acc: ">= 0.9"}`.',
    )
    count: Count | None = Field(
        default=None,
        description='How many lines there are on each host: `3`, `">= 3"`, `0`.',
        json_schema_extra={"default": '`">= 1"`'},
    )
    absent: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="A text, not a regular expression, that no line has.",
    )
    order: tuple[Pattern, ...] | None = Field(
        default=None,
        strict=False,
        min_length=2,
        max_length=100,
        description="Regular expressions that lines match one after the other; others may come "
        "between. Exactly one of `match`, `absent` and `order`.",
    )
    within: Duration | None = Field(
        default=None,
        description="Only lines count that come so soon after `since`.",
    )
    since: AnyMoment | None = Field(
        default=None,
        description="Only lines count that come after this.",
        json_schema_extra={"default": "the process's start"},
    )

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        exactly_one(self, "match", "absent", "order")
        if self.match is None and (self.where or self.count is not None):
            raise refuse("where or count without match", allowed="both are about match")
        known = groups(self.match or "")
        for name in self.where:
            if name not in known:
                allowed = listed(known) if known else "groups of match, written (?P<name>...)"
                raise refuse(f"match has no group {name}", allowed=allowed)
        return self
