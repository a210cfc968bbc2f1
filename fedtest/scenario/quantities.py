"""What a link does, as people write it: rates (`100mbit`), delays (`5ms`), shares (`0.1%`).

In the model they are numbers (bits a second, seconds, parts of one); written
out again they read back as the same.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fedtest.scenario.refusal import refuse
from fedtest.scenario.units import parse_number

_RATES = {"gbit": 10**9, "mbit": 10**6, "kbit": 10**3, "bit": 1}
_RATE_ALLOWED = "bits a second: a number with one of the units bit, kbit, mbit, gbit, like 100mbit"
_SLOWEST, _FASTEST = 64_000, 100 * 10**9
# Other ways to write bits a second. Bytes a second are left to the user to convert.
_SAID_OTHERWISE = {
    f"{prefix}{unit}": f"{prefix}bit"
    for prefix in ("", "k", "m", "g")
    for unit in ("bps", "bits", "bit/s", "bits/s", "b/s")
}

# Microseconds.
_DELAYS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DELAY_ALLOWED = "a number with one of the units us, ms, s, like 5ms; at most 2s"
_LONGEST = 2_000_000

# Millionths.
_SHARES = {"%": 10_000}
_SHARE_ALLOWED = "a number with %, like 0.1%; steps of 0.0001%"
_WHOLE = 1_000_000
_MOST_LOST = 900_000


def parse_rate(value: Any) -> int:
    """Bits a second; raises the error that pydantic and `wording` understand."""
    rate = parse_number(value, _RATES, "a rate", _RATE_ALLOWED, _SAID_OTHERWISE)
    if not _SLOWEST <= rate <= _FASTEST:
        raise refuse("a rate that cannot be kept", allowed="64kbit to 100gbit")
    return rate


def parse_delay(value: Any) -> float:
    """Seconds, which may be none."""
    micros = parse_number(value, _DELAYS, "a delay", _DELAY_ALLOWED)
    if micros > _LONGEST:
        raise refuse("a longer delay than there is", allowed=_DELAY_ALLOWED)
    return micros / 1_000_000


def parse_share(value: Any) -> float:
    """A part of one, which may be none."""
    millionths = parse_number(value, _SHARES, "a share", _SHARE_ALLOWED)
    if millionths > _WHOLE:
        raise refuse("more than all", allowed="0% to 100%")
    return millionths / _WHOLE


def parse_loss(value: Any) -> float:
    """A share of packets that leaves enough to be measured."""
    loss = parse_share(value)
    if loss * _WHOLE > _MOST_LOST:
        raise refuse("more loss than can be measured", allowed="0% to 90%")
    return loss


def format_rate(rate: int) -> str:
    """The shortest exact way to write it."""
    unit, factor = next(item for item in _RATES.items() if rate % item[1] == 0)
    return f"{rate // factor}{unit}"


def format_delay(seconds: float) -> str:
    """The shortest exact way to write it."""
    micros = round(seconds * 1_000_000)
    unit, factor = next(item for item in _DELAYS.items() if micros % item[1] == 0)
    return f"{micros // factor}{unit}"


def format_share(share: float) -> str:
    """The shortest exact way to write it."""
    return f"{(Decimal(round(share * _WHOLE)) / _SHARES['%']).normalize():f}%"


Rate = Annotated[
    int,
    PlainValidator(parse_rate),
    PlainSerializer(format_rate),
    WithJsonSchema({"type": "string", "title": "rate"}),
]
Delay = Annotated[
    float,
    PlainValidator(parse_delay),
    PlainSerializer(format_delay),
    WithJsonSchema({"type": "string", "title": "delay"}),
]
Share = Annotated[
    float,
    PlainValidator(parse_share),
    PlainSerializer(format_share),
    WithJsonSchema({"type": "string", "title": "share"}),
]
Loss = Annotated[
    float,
    PlainValidator(parse_loss),
    PlainSerializer(format_share),
    WithJsonSchema({"type": "string", "title": "share"}),
]
