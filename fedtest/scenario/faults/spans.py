"""`5s`, or `5s..20s`: a length of time, or one that is drawn from the seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import format_duration, parse_duration

if TYPE_CHECKING:
    import random

_ALLOWED = "a duration like 5s, or a range to draw from, like 5s..20s"
_ZERO = {"0s", "0ms", "0m", "0h"}


class Span(NamedTuple):
    """From `low` to `high` seconds, both included; mostly the same."""

    low: float
    high: float

    def drawn(self, source: random.Random) -> float:
        """One length of it, to the millisecond; nothing is drawn where there is no choice."""
        if self.low == self.high:
            return self.low
        return round(source.uniform(self.low, self.high), 3)

    def __str__(self) -> str:
        low, high = (format_duration(value) if value else "0s" for value in self)
        return low if low == high else f"{low}..{high}"


def _duration(text: str) -> float:
    return 0.0 if text in _ZERO else parse_duration(text)


def parse_span(value: Any) -> Span:
    """`value` as a span; raises the error that pydantic and `wording` understand."""
    if isinstance(value, str) and ".." in value:
        low, _, high = value.partition("..")
        span = Span(_duration(low.strip()), _duration(high.strip()))
        if span.low > span.high:
            raise refuse("a range that ends before it begins", allowed=_ALLOWED)
        return span
    seconds = _duration(value) if isinstance(value, str) else parse_duration(value)
    return Span(seconds, seconds)


SpanField = Annotated[
    Span,
    PlainValidator(parse_span),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "title": "duration or range"}),
]
