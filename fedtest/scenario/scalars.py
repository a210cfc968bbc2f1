"""YAML 1.2's core schema: what a scalar without quotes is.

Written out because the YAML library's resolver also knows YAML 1.1, dates,
underscores in numbers and `=`; here `on`, `no`, `1_000` and `2024-01-01` are
strings, as the specification says.
"""

from __future__ import annotations

import re

# Bounded: a number of a million digits is a string, and then of the wrong type.
_INT = re.compile(r"[-+]?[0-9]{1,100}|0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,100}|[0-9]{1,100}(\.[0-9]{0,100})?)([eE][-+]?[0-9]{1,10})?")
Scalar = str | int | float | bool | None

_SPELT: dict[Scalar, tuple[str, ...]] = {
    None: ("", "~", "null", "Null", "NULL"),
    True: ("true", "True", "TRUE"),
    False: ("false", "False", "FALSE"),
    float("inf"): (".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"),
    float("-inf"): ("-.inf", "-.Inf", "-.INF"),
    float("nan"): (".nan", ".NaN", ".NAN"),
}
_WORDS = {word: value for value, words in _SPELT.items() for word in words}

_CORE = "tag:yaml.org,2002:"
_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
}


def resolve(text: str, *, plain: bool, tag: str | None) -> tuple[Scalar, bool]:
    """The value of a scalar, and whether its tag is a core one that fits it."""
    if tag in ("!", f"{_CORE}str"):
        return text, True
    if tag is None:
        return (_plain(text) if plain else text), True
    value = _plain(text)
    types = _TYPES.get(tag.removeprefix(_CORE), ()) if tag.startswith(_CORE) else ()
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return text, False
    return (float(value) if float in types and isinstance(value, int) else value), True


def _plain(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
