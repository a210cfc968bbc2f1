"""`time` and `done`: how long things take."""

from pydantic import Field

from fedtest.scenario.base import Part
from fedtest.scenario.moments import AnyMoment
from fedtest.scenario.units import Duration


class TimeCheck(Part):
    """The time from one moment to another, as fedtest learned of them.

    Where a moment is of several hosts, the longest time counts: from the first
    of them to the last. `to` is the first such moment that is not before `from`.
    """

    start: AnyMoment = Field(alias="from", description="Where the time begins.")
    to: AnyMoment = Field(description="Where it ends.")
    within: Duration = Field(description="The longest that it may take.")


class DoneCheck(Part):
    """Everything has ended in time, but for services."""

    within: Duration = Field(
        description="The longest that it may take from the start of the processes to the end of "
        "the last."
    )
