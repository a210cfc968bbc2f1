"""Durations and sizes as people write them: `500ms`, `2m`, `5MB`, `1MiB`.

In the model they are numbers (seconds, bytes); written out again they take the
largest unit that leaves them whole.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fedtest.scenario.problems import shown
from fedtest.scenario.refusal import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s?([A-Za-z/%]*)")

# Microseconds: exact for everything that can be written.
_DURATIONS = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000}
_SIZES = {
    "GiB": 1024**3,
    "GB": 1000**3,
    "MiB": 1024**2,
    "MB": 1000**2,
    "KiB": 1024,
    "kB": 1000,
    "B": 1,
}
_DURATION_ALLOWED = "a number with one of the units ms, s, m, h, like 500ms or 2m"
_SIZE_ALLOWED = "a number with one of the units B, kB, MB, GB, KiB, MiB, GiB, like 5MB or 1MiB"
_LONGEST = 30 * 24 * _DURATIONS["h"]


def parse_duration(value: Any) -> float:
    """Seconds; raises the error that pydantic and `wording` understand."""
    micros = parse_number(value, _DURATIONS, "a duration", _DURATION_ALLOWED)
    if micros == 0 or micros > _LONGEST:
        raise refuse("not a useful duration", allowed="more than 0 and at most 30 days (720h)")
    return micros / 1_000_000


def parse_size(value: Any) -> int:
    """Bytes; raises the error that pydantic and `wording` understand."""
    return parse_number(value, _SIZES, "a size", _SIZE_ALLOWED)


def format_duration(seconds: float) -> str:
    """The shortest exact way to write it: `120.0` is `2m`."""
    micros = round(seconds * 1_000_000)
    for unit, factor in _DURATIONS.items():
        if micros % factor == 0:
            return f"{micros // factor}{unit}"
    return f"{(Decimal(micros) / 1000).normalize():f}ms"


def format_size(count: int) -> str:
    """The shortest exact way to write it: `5000000` is `5MB`."""
    fitting = [(count // factor, unit) for unit, factor in _SIZES.items() if count % factor == 0]
    number, unit = min(fitting, key=lambda item: item[0]) if count else (0, "B")
    return f"{number}{unit}"


def parse_number(
    value: Any,
    units: Mapping[str, int],
    what: str,
    allowed: str,
    otherwise: Mapping[str, str] = {},
) -> int:
    """A number with a unit, in the units' own smallest one.

    `otherwise`: other spellings in small letters, and which of the units each means.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise refuse(f"{what} needs a unit", allowed=allowed)
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refuse(f"not {what}", allowed=allowed)
    number, unit = match.groups()
    if unit not in units:
        # There are few units, and the wrong ones are mostly a matter of case: MS, mb, Kb.
        small = otherwise.get(unit.lower(), unit.lower())
        same = [right for right in units if right.lower() == small]
        hint = f'did you mean "{number}{same[0]}"?' if same else ""
        message = f"{shown(unit)} is not a unit of {what}" if unit else f"{what} needs a unit"
        raise refuse(message, allowed=allowed, hint=hint)
    exact = Decimal(number) * units[unit]
    if exact != int(exact):
        raise refuse(f"{what} finer than can be kept", allowed=allowed)
    return int(exact)


Duration = Annotated[
    float,
    PlainValidator(parse_duration),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "title": "duration"}),
]
Size = Annotated[
    int,
    PlainValidator(parse_size),
    PlainSerializer(format_size),
    WithJsonSchema({"type": "string", "title": "size"}),
]
